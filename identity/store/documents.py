"""MongoDB collections of API objects.

A document is the JSON object of the API with its id as `_id` and internal members under `private`. Every method takes
the tenant first; it is None for objects of the instance (webhooks, keys, API keys), whose collections have
`tenant_scoped=False`. Sealed members are encrypted in MongoDB and plaintext everywhere else.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any, ClassVar, Final

from bson.dbref import DBRef
from cachetools import LRUCache
from pymongo import IndexModel

from identity.background_tasks import CooperativeYield
from identity.call import Document
from identity.domain.objects import name_suffixes, search_indexes
from identity.domain.objects.member_paths import value_at
from identity.domain.objects.resource_definition import NO_SEARCH, SearchRules, Unique
from identity.domain.objects.search import SearchQuery
from identity.domain.objects.search_indexes import NEWEST_FIRST, Order
from identity.errors import Conflict, NotFound
from identity.ids import TenantId, fingerprint
from identity.instants import from_datetime
from identity.store import document_queries, mongo
from identity.store.cache import Cache, CacheCounts, ChangeStreamStatus
from identity.store.document_queries import DocumentLookups, DocumentTotals
from identity.store.mongo import (
    BULK_SECONDS,
    TTL_INDEX,
    Collection,
    Database,
    Session,
    drop_obsolete_index,
    duplicates,
)
from identity.store.sealed_members import SealedMembers
from identity.store.store_circuit_breaker import time_limit
from identity.store.vault import Vault

Tenant = TenantId | None

_BATCH: Final = 200
"""Documents that are decoded at once: batches of MongoDB have up to 16 MB, which would stop requests for long."""
_MAX_CACHED_LISTS: Final = 1024

LOCK_COUNTER = "private.holds"
"""The member that `lock` increments; its value is never read."""


class Documents:
    """One collection of API objects, read through a cache."""

    cache_size = 2000
    """The maximum number of cached documents."""
    keeps_stale = True
    """Whether stale values may be served during an outage of MongoDB: see `cache.stale_if_unavailable`."""

    def __init__(  # noqa: PLR0913 (each is named, and is a setting of the collection)
        self,
        database: Database,
        name: str,
        vault: Vault,
        stream_status: ChangeStreamStatus,
        *,
        tenant_scoped: bool,
        sealed: tuple[str, ...] = (),
        unique: tuple[Unique, ...] = (),
        references: tuple[str, ...] = (),
        searches: SearchRules = NO_SEARCH,
    ) -> None:
        """`references` are the dotted members that contain ids of other objects; an index covers them."""
        self.name = name
        self.unique = unique
        self._references = references
        self.searches = searches
        self._database = database
        self._collection: Collection = database.collection(name)
        self._lookups = DocumentLookups(self._collection)
        self._vault = vault
        self._stream_status = stream_status
        self._tenant_scoped = tenant_scoped
        self._sealed = SealedMembers(name, sealed, vault)
        self._cache: Cache[Document] = Cache(self.cache_size, stream_status, keeps_stale=self.keeps_stale)
        self._ids_by_members: LRUCache[tuple[tuple[str, str], ...], str] = LRUCache(max(1, self.cache_size))
        self._has_suffixes = search_indexes.has_name_suffixes(searches)
        self._lists: Cache[list[Document]] = Cache(_MAX_CACHED_LISTS, stream_status, keeps_stale=self.keeps_stale)
        self._totals = DocumentTotals(self._collection, stream_status)
        self._derived: list[Cache[Any] | DocumentTotals] = [self._lists, self._totals]
        """The caches of what depends on several documents; a change of any document clears them."""

    @property
    def cache_counts(self) -> CacheCounts:
        """How often documents were read from the cache."""
        return self._cache.counts

    @property
    def is_tenant_scoped(self) -> bool:
        """Whether each document belongs to a tenant."""
        return self._tenant_scoped

    def indexes(self) -> list[IndexModel]:
        """The indexes this collection needs."""
        models = [_unique_index(unique) for unique in self.unique]
        models += [IndexModel(list(keys)) for keys in self.orders()]
        if self._references:
            models.append(_reference_index(self._references))
        return models

    def orders(self) -> list[Order]:
        """The keys of the indexes for lists and searches."""
        return search_indexes.of_searches(self.searches, self.unique, tenant_scoped=self._tenant_scoped)

    async def ensure_indexes(self) -> None:
        """Create missing indexes, and drop unique ones of earlier releases, which would reject valid documents."""
        models = self.indexes()
        await self._collection.create_indexes(models)
        declared = {model.document["name"] for model in models}
        for name, index in (await self._collection.index_information()).items():
            if index.get("unique") and name not in declared:
                await drop_obsolete_index(self._collection, name)
        if self._has_suffixes:
            await self._add_suffixes()

    async def _add_suffixes(self) -> None:
        """Add the name suffixes to the documents of an earlier version."""
        lacking = {name_suffixes.MEMBER: {"$exists": False}, "name": {"$exists": True}}
        async for stored in self._collection.find(lacking, {"name": 1}):
            fresh = {"$set": {name_suffixes.MEMBER: name_suffixes.of(stored["name"])}}
            await self._collection.update_one({"_id": stored["_id"], "name": stored["name"]}, fresh)

    def invalidate(self, document_id: str) -> None:
        """Remove a changed document and all lists and totals from the cache."""
        self._cache.drop(document_id)
        self._clear_derived()

    def invalidate_all(self) -> None:
        """Clear the cache."""
        self._cache.clear()
        self._clear_derived()

    def _clear_derived(self) -> None:
        for cache in self._derived:
            cache.clear()

    def _invalidate(self, session: Session | None, document_id: str) -> None:
        self._database.run_now_and_after_commit(session, functools.partial(self.invalidate, document_id))

    def peek(self, document_id: str) -> Document | None:
        """The cached document of any tenant, if it is fresh. It is shared: callers must not change it."""
        return self._cache.peek(document_id)

    def peek_where(self, where: Mapping[str, str]) -> Document | None:
        """As `peek`, for the document that these members identify uniquely."""
        document_id = self._ids_by_members.get(tuple(where.items()))
        document = None if document_id is None else self.peek(document_id)
        return document if document is not None and _matches(document, where) else None

    async def find_cached(self, tenant_id: Tenant, document_id: str) -> Document | None:
        """The document, from the cache if possible. It is shared: callers must not change it."""
        document = await self.find_cached_across_tenants(document_id)
        return document if document is not None and self._belongs_to(tenant_id, document) else None

    async def find_cached_across_tenants(self, document_id: str) -> Document | None:
        """As `find_cached` for any tenant, to find the tenant of an id."""
        return await self._cache.get(document_id, functools.partial(self._load, {"_id": document_id}))

    async def get_cached(self, tenant_id: Tenant, document_id: str) -> Document:
        """As `find_cached`; raises NotFound."""
        document = await self.find_cached(tenant_id, document_id)
        if document is None:
            raise NotFound(log_detail=f"{self.name} {document_id}")
        return document

    async def find_cached_where(self, tenant_id: Tenant, where: Mapping[str, str]) -> Document | None:
        """The document that these members identify uniquely, from the cache if possible."""
        return await self.find_cached_where_across_tenants({**where, **self._scope(tenant_id)})

    async def find_cached_where_across_tenants(self, where: Mapping[str, str]) -> Document | None:
        """As `find_cached_where` for any tenant.

        The members map to the id only, and are compared with the cached document. A miss reads the document at once.
        """
        members = tuple(where.items())
        if (document_id := self._ids_by_members.get(members)) is not None:
            document = await self._find_cached_matching(document_id, where)
            if document is not None:
                return document
        version = self._cache.version()
        document = await self._load(where)
        if document is None:
            self._ids_by_members.pop(members, None)
            return None
        self._ids_by_members[members] = document["id"]
        self._cache.put_loaded(document["id"], document, version)
        return document

    async def _find_cached_matching(self, document_id: str, where: Mapping[str, str]) -> Document | None:
        document = await self.find_cached_across_tenants(document_id)
        return document if document is not None and _matches(document, where) else None

    async def list_cached(
        self, tenant_id: Tenant, key: str, where: Mapping[str, Any], members: Sequence[str] = (), limit: int = 0
    ) -> list[Document]:
        """All matching documents, or the first, cached under `key`, with these `members` only if there are any.

        They are shared: callers must not change them.
        """
        load = functools.partial(self.find_all, tenant_id, where, members, limit)
        return await self._lists.get(f"{tenant_id}:{key}", load) or []

    async def distinct_cached(
        self, tenant_id: Tenant, key: str, where: Mapping[str, Any], members: Sequence[str]
    ) -> list[Document]:
        """The distinct combinations of these members of all matching documents, cached under `key`."""
        load = functools.partial(self._distinct, {**where, **self._scope(tenant_id)}, members)
        return await self._lists.get(f"{tenant_id}:{key}", load) or []

    async def distinct_cached_across_tenants(
        self, key: str, where: Mapping[str, Any], members: Sequence[str]
    ) -> list[Document]:
        """As `distinct_cached` for all tenants."""
        return await self._lists.get(f"*:{key}", functools.partial(self._distinct, where, members)) or []

    async def _distinct(self, where: Mapping[str, Any], members: Sequence[str]) -> list[Document]:
        only = {"$project": {"_id": 0, **dict.fromkeys(members, 1)}}
        rows = self._collection.aggregate([{"$match": where}, only, {"$group": {"_id": "$$ROOT"}}])
        return [plain(row["_id"]) async for row in rows]

    async def find(self, tenant_id: Tenant, document_id: str, session: Session | None = None) -> Document | None:
        """The document from MongoDB; the caller may change it."""
        if session is not None:
            return await self._load({**self._scope(tenant_id), "_id": document_id}, session)
        return await self._look_up(tenant_id, "_id", document_id)

    async def find_where(self, tenant_id: Tenant, where: Mapping[str, Any]) -> Document | None:
        """The first document with these members."""
        return await self._load({**where, **self._scope(tenant_id)})

    async def get(self, tenant_id: Tenant, document_id: str) -> Document:
        """As `find`; raises NotFound."""
        document = await self.find(tenant_id, document_id)
        if document is None:
            raise NotFound(log_detail=f"{self.name} {document_id}")
        return document

    async def find_all(
        self, tenant_id: Tenant, where: Mapping[str, Any] | None = None, members: Sequence[str] = (), limit: int = 0
    ) -> list[Document]:
        """All matching documents, or the first, newest first; with these `members` only if there are any."""
        return await self.find_all_across_tenants({**(where or {}), **self._scope(tenant_id)}, members, limit)

    async def find_all_across_tenants(
        self, where: Mapping[str, Any], members: Sequence[str] = (), limit: int = 0
    ) -> list[Document]:
        """As `find_all` for all tenants."""
        return [document async for document in self.iterate_across_tenants(where, members, limit)]

    def iterate(self, tenant_id: Tenant, where: Mapping[str, Any] | None = None) -> AsyncIterator[Document]:
        """As `find_all`, one at a time, for result sets that do not fit into memory."""
        return self.iterate_across_tenants({**(where or {}), **self._scope(tenant_id)})

    async def iterate_across_tenants(
        self, where: Mapping[str, Any], members: Sequence[str] = (), limit: int = 0
    ) -> AsyncIterator[Document]:
        """As `find_all_across_tenants`, one at a time; yields to the event loop regularly."""
        cooperative = CooperativeYield()
        projection = dict.fromkeys(members, 1) or None
        found = self._collection.find(where, projection, batch_size=_BATCH).sort(list(NEWEST_FIRST)).limit(limit)
        async for stored in found:
            yield self._decode(stored)
            await cooperative.step()

    async def find_unordered(self, tenant_id: Tenant, where: Mapping[str, Any]) -> list[Document]:
        """All matching documents in no order, so that only the filter determines the index."""
        cursor = self._collection.find({**where, **self._scope(tenant_id)})
        return [self._decode(stored) async for stored in cursor]

    async def count(self, tenant_id: Tenant, where: Mapping[str, Any] | None = None) -> int:
        """The number of matching documents."""
        return await self._collection.count_documents({**(where or {}), **self._scope(tenant_id)})

    async def count_across_tenants(
        self, where: Mapping[str, Any], limit: int = 0, session: Session | None = None
    ) -> int:
        """The number of matching documents of all tenants; counting stops at a `limit` greater than 0."""
        options: dict[str, Any] = {"limit": limit} if limit else {}
        return await self._collection.count_documents(where, session=session, **options)

    async def lock(self, tenant_id: Tenant, document_id: str, session: Session) -> bool:
        """Lock a document against deletion until the transaction ends; False if it does not exist.

        It updates the document, because MongoDB detects no conflict between transactions that only read it.
        """
        where = {**self._scope(tenant_id), "_id": document_id}
        await self._database.lock_keys(session, [f"{self.name} {document_id}"])
        result = await self._collection.update_one(where, {"$inc": {LOCK_COUNTER: 1}}, session=session)
        return result.matched_count == 1

    async def insert(self, tenant_id: Tenant, document: Document, session: Session | None = None) -> None:
        """Insert a document. Raises Duplicate."""
        with duplicates():
            await self._collection.insert_one(self._encode(tenant_id, document), session=session)
        self._invalidate(session, document["id"])

    async def replace(
        self, tenant_id: Tenant, document: Document, expected: int, session: Session | None = None
    ) -> None:
        """Replace the document if its lastUpdateInstant is `expected`. Raises Conflict and Duplicate."""
        where = {**self._scope(tenant_id), "_id": document["id"], **self._unchanged(document, expected)}
        with duplicates():
            result = await self._collection.replace_one(where, self._encode(tenant_id, document), session=session)
        self._invalidate(session, document["id"])
        if result.matched_count == 0:
            raise Conflict

    def _unchanged(self, document: Document, expected: int) -> Document:  # noqa: ARG002 (subclasses use it)
        """The filter of a document that was not changed since it was read."""
        return {"lastUpdateInstant": expected}

    async def update(
        self,
        tenant_id: Tenant,
        where: Mapping[str, Any],
        change: Mapping[str, Any] | list[Mapping[str, Any]],
        session: Session | None = None,
    ) -> int:
        """Update all matching documents with update operators or a pipeline; returns their number. Raises Duplicate."""
        with time_limit(BULK_SECONDS), duplicates():
            result = await self._collection.update_many({**where, **self._scope(tenant_id)}, change, session=session)
        self._database.run_now_and_after_commit(session, self.invalidate_all)
        return result.matched_count

    async def _update_one(
        self,
        tenant_id: Tenant,
        document_id: str,
        change: Mapping[str, Any] | list[Mapping[str, Any]],
        session: Session | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        array_filters: Sequence[Mapping[str, Any]] | None = None,
    ) -> bool:
        """Update a document if it matches `where`, too; False if it does not."""
        found = {**self._scope(tenant_id), "_id": document_id, **(where or {})}
        result = await self._collection.update_one(found, change, array_filters=array_filters, session=session)
        self._invalidate(session, document_id)
        return result.matched_count == 1

    async def delete(self, tenant_id: Tenant, document_id: str, session: Session | None = None) -> bool:
        """Delete a document; False if it did not exist."""
        result = await self._collection.delete_one({**self._scope(tenant_id), "_id": document_id}, session=session)
        self._invalidate(session, document_id)
        return result.deleted_count == 1

    async def delete_all(self, tenant_id: Tenant, where: Mapping[str, Any], session: Session | None = None) -> int:
        """Delete all matching documents; returns their number."""
        deleted = await mongo.delete_many(self._collection, {**where, **self._scope(tenant_id)}, session)
        self._database.run_now_and_after_commit(session, self.invalidate_all)
        return deleted

    async def delete_in_chunks(self, tenant_id: Tenant, where: Mapping[str, Any]) -> None:
        """As `delete_all` in short steps, for any number of documents; an interrupted call can be repeated."""
        await self.delete_in_chunks_across_tenants({**where, **self._scope(tenant_id)})

    async def delete_in_chunks_across_tenants(self, where: Mapping[str, Any]) -> None:
        """As `delete_in_chunks` for all tenants."""
        async for ids in mongo.id_chunks(self._collection, where):
            await mongo.delete_many(self._collection, {"_id": {"$in": ids}})
            self.invalidate_all()

    async def update_in_chunks(self, tenant_id: Tenant, where: Mapping[str, Any], change: Mapping[str, Any]) -> int:
        """As `update` in short steps, for a change after which a document no longer matches."""
        changed = 0
        async for ids in mongo.id_chunks(self._collection, {**where, **self._scope(tenant_id)}):
            changed += await self.update(tenant_id, {**where, "_id": {"$in": ids}}, change)
        return changed

    async def search(
        self, tenant_id: Tenant, query: SearchQuery, where: Mapping[str, Any] | None = None
    ) -> tuple[int, list[Document]]:
        """The number of documents that match `query` and `where`, and one page of them."""
        return await self._search(query, {**(where or {}), **self._scope(tenant_id)})

    async def search_across_tenants(self, query: SearchQuery) -> tuple[int, list[Document]]:
        """As `search` for all tenants, for callers with a global API key and no tenant."""
        return await self._search(query, {})

    async def page(
        self, tenant_id: Tenant, where: Mapping[str, Any], order: Order, start_row: int, limit: int
    ) -> tuple[int, list[Document]]:
        """The number of documents that match a filter of MongoDB, and one page of them."""
        return await self._totalled_page({"$and": [self._scope(tenant_id), where]}, list(order), start_row, limit)

    async def reseal(self) -> int:
        """Reseal values that are sealed under an older master key; returns the number of changed documents."""
        return await self._exchanged(self._sealed.reseal(self._collection))

    async def seal_plaintext(self) -> int:
        """Seal values that an earlier version stored in plaintext; returns the number of changed documents."""
        return await self._exchanged(self._sealed.seal_plaintext(self._collection))

    async def _exchanged(self, exchange: Awaitable[int]) -> int:
        changed = await exchange
        self.invalidate_all()
        return changed

    async def _search(self, query: SearchQuery, scope: Mapping[str, Any]) -> tuple[int, list[Document]]:
        where = {"$and": [dict(scope), *document_queries.conditions(query, has_suffixes=self._has_suffixes)]}
        return await self._totalled_page(
            where, self._order(query.order, scope), query.start_row, query.number_of_results
        )

    async def _totalled_page(
        self, where: Mapping[str, Any], order: list[tuple[str, int]], start_row: int, limit: int
    ) -> tuple[int, list[Document]]:
        if limit == 0:
            return await self._totals.count(where), []
        cursor = self._collection.find(where).sort(order).skip(start_row).limit(limit)
        found = [self._decode(stored) async for stored in cursor]
        return await self._totals.count_from_page(where, found, start_row, limit), found

    def _order(self, order: Order, scope: Mapping[str, Any]) -> list[tuple[str, int]]:
        """The sort order, shortened to one that an index supports."""
        unique = [unique.keys for unique in self.unique if not unique.sparse]
        return list(search_indexes.shortened(order, scope, unique)) or [("_id", 1)]

    async def _load(self, where: Mapping[str, Any], session: Session | None = None) -> Document | None:
        stored = await self._collection.find_one(where, session=session)
        return None if stored is None else self._decode(stored)

    async def _look_up(self, tenant_id: Tenant, member: str, value: str) -> Document | None:
        """The document with this value of a unique member; cheaper than `_load` under load."""
        stored = await self._lookups.find(self._scope(tenant_id).get("tenantId"), member, value)
        return None if stored is None else self._decode(stored)

    def _scope(self, tenant_id: Tenant) -> dict[str, Any]:
        if self._tenant_scoped and tenant_id is None:
            raise ValueError(f"{self.name} requires a tenant")
        return {"tenantId": tenant_id} if self._tenant_scoped else {}

    def _belongs_to(self, tenant_id: Tenant, document: Document) -> bool:
        return not self._tenant_scoped or (tenant_id is not None and document.get("tenantId") == tenant_id)

    def _encode(self, tenant_id: Tenant, document: Document) -> Document:
        if self._tenant_scoped and document.get("tenantId") != tenant_id:
            raise ValueError(f"{self.name} {document['id']} does not belong to tenant {tenant_id}")
        return self._encode_in_place(copy.deepcopy(document))

    def _encode_in_place(self, stored: Document) -> Document:
        """Convert a document, which the caller must not use afterwards, to its stored form."""
        stored["_id"] = stored.pop("id")
        if self._has_suffixes:
            stored["private"] = {**stored.get("private", {}), "endings": name_suffixes.of(stored.get("name", ""))}
        self._sealed.seal(stored)
        return stored

    def _decode(self, found: Mapping[str, Any]) -> Document:
        stored = {name: plain(value) for name, value in found.items()}
        if self._has_suffixes and "private" in stored:
            stored["private"].pop("endings", None)
            if not stored["private"]:
                del stored["private"]
        self._sealed.unseal(stored)
        stored["id"] = stored.pop("_id")
        return stored


class TenantDocuments(Documents):
    """A collection without a declared resource; each document belongs to a tenant."""

    collection_name: ClassVar[str]
    sealed_members: ClassVar[tuple[str, ...]] = ()
    unique_indexes: ClassVar[tuple[Unique, ...]] = ()

    def __init__(self, database: Database, vault: Vault, stream_status: ChangeStreamStatus) -> None:
        members, unique = self.sealed_members, self.unique_indexes
        name = self.collection_name
        super().__init__(database, name, vault, stream_status, tenant_scoped=True, sealed=members, unique=unique)


class ExpiringDocuments(TenantDocuments):
    """Documents whose `expiresAt` is an Instant here and a date in MongoDB, for the TTL index."""

    def indexes(self) -> list[IndexModel]:
        """The TTL index, and one by user."""
        return [TTL_INDEX, IndexModel([("tenantId", 1), ("userId", 1)], name="user")]

    def _decode(self, found: Mapping[str, Any]) -> Document:
        document = super()._decode(found)
        document["expiresAt"] = from_datetime(document["expiresAt"])
        return document


def plain(value: Any) -> Any:
    """A stored value as JSON: the driver converts `{"$ref":…, "$id":…}` to a DBRef."""
    if isinstance(value, DBRef):
        value = dict(value.as_doc())
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def _matches(document: Document, where: Mapping[str, str]) -> bool:
    return all(value_at(document, name) == value for name, value in where.items())


def _unique_index(unique: Unique) -> IndexModel:
    """The index that keeps members unique."""
    keys = [(key, 1) for key in unique.keys]
    options = {"partialFilterExpression": {unique.keys[-1]: {"$exists": True}}} if unique.sparse else {}
    return IndexModel(keys, name=unique.index, unique=True, **options)


def _reference_index(members: Sequence[str]) -> IndexModel:
    """A wildcard index over all members with ids of other objects; its name depends on the members."""
    named = fingerprint(" ".join(members))[:8]
    return IndexModel([("$**", 1)], name=f"references-{named}", wildcardProjection=dict.fromkeys(members, 1))
