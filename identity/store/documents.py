"""Collections of API objects: a document is the API's JSON object, its id as `_id`, private members under `private`.

Every method takes the tenant first. Objects of the whole instance (webhooks, keys, API keys) have no tenant: their
collection is built with `tenant_scoped=False` and is asked with None. Sealed members stand as sealed text in MongoDB
and as plain text everywhere else.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from bson.dbref import DBRef
from pymongo import IndexModel

from identity.background_tasks import CooperativeYield
from identity.call import Document
from identity.domain.objects import name_suffixes, search_indexes
from identity.domain.objects.resource_definition import NO_SEARCH, SearchRules, Unique
from identity.domain.objects.search import Criterion, SearchQuery
from identity.domain.objects.search_indexes import NEWEST_FIRST, Order
from identity.errors import Conflict, NotFound
from identity.ids import TenantId, fingerprint
from identity.store.cache import Cache, ChangeStreamStatus
from identity.store.mongo import BULK_SECONDS, CHUNK, Collection, Database, Session, duplicates
from identity.store.store_circuit_breaker import time_limit
from identity.store.vault import Vault, is_sealed

Tenant = TenantId | None

_LISTS: Final = 1024
"""How many lists and their criteria are remembered at most; most of them are one tenant's, and short."""

LOCK_COUNTER = "private.holds"
"""The member that changes when a document is held, and that nobody reads."""


class Documents:
    """One collection of API objects, read through a cache."""

    cache_size = 2000
    """How many documents are remembered at most."""
    keeps_stale = True
    """Whether the last known values may be served while MongoDB is away: see `cache.stale_if_unavailable`."""

    def __init__(  # noqa: PLR0913 (each is named, and is a setting of the collection)
        self,
        database: Database,
        name: str,
        vault: Vault,
        freshness: ChangeStreamStatus,
        *,
        tenant_scoped: bool,
        sealed: tuple[str, ...] = (),
        unique: tuple[Unique, ...] = (),
        references: tuple[str, ...] = (),
        searches: SearchRules = NO_SEARCH,
    ) -> None:
        """`references` are the dotted members that name other objects: documents are looked up by them."""
        self.name = name
        self.unique = unique
        self._references = references
        self.searches = searches
        self._database = database
        self._collection: Collection = database.collection(name)
        self._vault = vault
        self._freshness = freshness
        self._tenant_scoped = tenant_scoped
        self._sealed = tuple(tuple(path.split(".")) for path in sealed)
        self._cache: Cache[Document] = Cache(self.cache_size, freshness, keeps_stale=self.keeps_stale)
        self._ids_by_members: collections.OrderedDict[tuple[tuple[str, str], ...], str] = collections.OrderedDict()
        self._has_endings = search_indexes.has_name_suffixes(searches)
        self._lists: Cache[list[Document]] = Cache(_LISTS, freshness, keeps_stale=self.keeps_stale)
        self._totals: Cache[int] = Cache(256, freshness)

    @property
    def is_tenant_scoped(self) -> bool:
        """Whether each document belongs to a tenant."""
        return self._tenant_scoped

    def indexes(self) -> list[IndexModel]:
        """The indexes this collection needs."""
        models = [_unique_index(unique) for unique in self.unique]
        models += [IndexModel(list(keys)) for keys in self.orders()]
        if self._references:
            models.append(_references_index(self._references))
        return models

    def orders(self) -> list[Order]:
        """The keys of the indexes that lists and searches want."""
        return search_indexes.of_searches(self.searches, self.unique, tenant_scoped=self._tenant_scoped)

    async def ensure_indexes(self) -> None:
        """Create what is missing."""
        await self._collection.create_indexes(self.indexes())
        if self._has_endings:
            await self._add_endings()

    async def _add_endings(self) -> None:
        """Give the documents of an earlier version the endings of their names."""
        lacking = {name_suffixes.MEMBER: {"$exists": False}, "name": {"$exists": True}}
        async for stored in self._collection.find(lacking, {"name": 1}):
            fresh = {"$set": {name_suffixes.MEMBER: name_suffixes.of(stored["name"])}}
            await self._collection.update_one({"_id": stored["_id"], "name": stored["name"]}, fresh)

    def invalidate(self, document_id: str) -> None:
        """Drop a document from the cache, and every cached list and total, because it changed."""
        self._cache.drop(document_id)
        self._lists.clear()
        self._totals.clear()

    def invalidate_all(self) -> None:
        """Drop everything from the cache."""
        self._cache.clear()
        self._lists.clear()
        self._totals.clear()

    def _invalidate(self, session: Session | None, document_id: str) -> None:
        self._database.run_now_and_after_commit(session, lambda: self.invalidate(document_id))

    def peek(self, document_id: str) -> Document | None:
        """The document of whatever tenant, if it is in the cache and may still be used. It is shared."""
        return self._cache.peek(document_id)

    async def find_cached(self, tenant_id: Tenant, document_id: str) -> Document | None:
        """The document, through the cache. It is shared: nobody may change it."""
        document = await self._cache.get(document_id, lambda: self._load({"_id": document_id}))
        return document if document is not None and self._is_of(tenant_id, document) else None

    async def find_cached_across_tenants(self, document_id: str) -> Document | None:
        """As `cached`, whatever the tenant: for finding out which tenant an id belongs to."""
        return await self._cache.get(document_id, lambda: self._load({"_id": document_id}))

    async def get_cached(self, tenant_id: Tenant, document_id: str) -> Document:
        """As `cached`; raises NotFound."""
        document = await self.find_cached(tenant_id, document_id)
        if document is None:
            raise NotFound(log_detail=f"{self.name} {document_id}")
        return document

    async def find_cached_where(self, tenant_id: Tenant, where: Mapping[str, str]) -> Document | None:
        """The one document with these members, which tell it from all others, through the cache."""
        return await self.find_cached_where_across_tenants({**where, **self._of(tenant_id)})

    async def find_cached_where_across_tenants(self, where: Mapping[str, str]) -> Document | None:
        """As `find_cached_where`, whatever the tenant.

        Only the id is remembered under the members, and the document, which the cache keeps fresh, has the last word.
        """
        members = tuple(where.items())
        if (document_id := self._ids_by_members.get(members)) is not None:
            document = await self._cached_with(document_id, where)
            if document is not None:
                return document
        found = await self._find_id(where)
        if found is None:
            self._ids_by_members.pop(members, None)
            return None
        self._ids_by_members[members] = found
        self._ids_by_members.move_to_end(members)
        while len(self._ids_by_members) > self.cache_size:
            self._ids_by_members.popitem(last=False)
        return await self._cached_with(found, where)

    async def _find_id(self, where: Mapping[str, str]) -> str | None:
        found = await self._collection.find_one(where, {"_id": 1})
        return None if found is None else str(found["_id"])

    async def _cached_with(self, document_id: str, where: Mapping[str, str]) -> Document | None:
        document = await self.find_cached_across_tenants(document_id)
        return document if document is not None and all(document.get(n) == v for n, v in where.items()) else None

    async def list_cached(self, tenant_id: Tenant, key: str, where: Mapping[str, Any]) -> list[Document]:
        """The documents that match, through the cache under `key`; they are shared: nobody may change them."""

        async def load() -> list[Document]:
            return await self.find_all(tenant_id, where)

        return await self._lists.get(f"{tenant_id}:{key}", load) or []

    async def list_cached_across_tenants(self, key: str, where: Mapping[str, Any]) -> list[Document]:
        """As `list_cached`, over all tenants."""

        async def load() -> list[Document]:
            return await self.find_all_across_tenants(where)

        return await self._lists.get(f"*:{key}", load) or []

    async def find(self, tenant_id: Tenant, document_id: str, session: Session | None = None) -> Document | None:
        """A private copy of the document, as MongoDB has it now."""
        return await self._load({**self._of(tenant_id), "_id": document_id}, session)

    async def find_where(self, tenant_id: Tenant, where: Mapping[str, Any]) -> Document | None:
        """The one document with these members."""
        return await self._load({**where, **self._of(tenant_id)})

    async def get(self, tenant_id: Tenant, document_id: str) -> Document:
        """As `find`; raises NotFound."""
        document = await self.find(tenant_id, document_id)
        if document is None:
            raise NotFound(log_detail=f"{self.name} {document_id}")
        return document

    async def find_all(self, tenant_id: Tenant, where: Mapping[str, Any] | None = None) -> list[Document]:
        """Every document that matches, the newest first."""
        return await self.find_all_across_tenants({**(where or {}), **self._of(tenant_id)})

    async def find_all_across_tenants(self, where: Mapping[str, Any]) -> list[Document]:
        """Every document that matches in any tenant, the newest first."""
        return [document async for document in self.iterate_across_tenants(where)]

    def iterate(self, tenant_id: Tenant, where: Mapping[str, Any] | None = None) -> AsyncIterator[Document]:
        """As `find_all`, one after the other: there may be more than anybody wants to hold at once."""
        return self.iterate_across_tenants({**(where or {}), **self._of(tenant_id)})

    async def iterate_across_tenants(self, where: Mapping[str, Any]) -> AsyncIterator[Document]:
        """As `find_all_across_tenants`, one after the other; others go on in between, however many there are."""
        pace = CooperativeYield()
        async for stored in self._collection.find(where).sort(list(NEWEST_FIRST)):
            yield self._opened(stored)
            await pace.step()

    async def find_unordered(self, tenant_id: Tenant, where: Mapping[str, Any]) -> list[Document]:
        """The few documents that match, in no order: nothing but their look-up decides which index is used."""
        cursor = self._collection.find({**where, **self._of(tenant_id)})
        return [self._opened(stored) async for stored in cursor]

    async def count(self, tenant_id: Tenant, where: Mapping[str, Any] | None = None) -> int:
        """How many documents match."""
        return await self._collection.count_documents({**(where or {}), **self._of(tenant_id)})

    async def count_across_tenants(
        self, where: Mapping[str, Any], limit: int = 0, session: Session | None = None
    ) -> int:
        """How many documents of all tenants match; counting stops at `limit`, when given."""
        options: dict[str, Any] = {"limit": limit} if limit else {}
        return await self._collection.count_documents(where, session=session, **options)

    async def lock(self, tenant_id: Tenant, document_id: str, session: Session) -> bool:
        """Keep a document from being deleted by others until the transaction ends; False when it is not there.

        It takes a change for that: two transactions that only read the same document do not see each other.
        """
        where = {**self._of(tenant_id), "_id": document_id}
        await self._database.lock_keys(session, [f"{self.name} {document_id}"])
        result = await self._collection.update_one(where, {"$inc": {LOCK_COUNTER: 1}}, session=session)
        return result.matched_count == 1

    async def insert(self, tenant_id: Tenant, document: Document, session: Session | None = None) -> None:
        """Add a document. Raises Duplicate."""
        with duplicates():
            await self._collection.insert_one(self._closed(tenant_id, document), session=session)
        self._invalidate(session, document["id"])

    async def replace(
        self, tenant_id: Tenant, document: Document, expected: int, session: Session | None = None
    ) -> None:
        """Put `document` in place of the one last updated at `expected`. Raises Conflict and Duplicate."""
        where = {**self._of(tenant_id), "_id": document["id"], "lastUpdateInstant": expected}
        with duplicates():
            result = await self._collection.replace_one(where, self._closed(tenant_id, document), session=session)
        self._invalidate(session, document["id"])
        if result.matched_count == 0:
            raise Conflict

    async def update(
        self,
        tenant_id: Tenant,
        where: Mapping[str, Any],
        change: Mapping[str, Any] | list[Mapping[str, Any]],
        session: Session | None = None,
    ) -> int:
        """Change members of all documents that match, by MongoDB's update operators or an aggregation of them.

        Answers how many matched. Raises Duplicate.
        """
        with time_limit(BULK_SECONDS), duplicates():
            result = await self._collection.update_many({**where, **self._of(tenant_id)}, change, session=session)
        self._database.run_now_and_after_commit(session, self.invalidate_all)
        return result.matched_count

    async def delete(self, tenant_id: Tenant, document_id: str, session: Session | None = None) -> bool:
        """Remove a document; False when it was not there."""
        result = await self._collection.delete_one({**self._of(tenant_id), "_id": document_id}, session=session)
        self._invalidate(session, document_id)
        return result.deleted_count == 1

    async def delete_all(self, tenant_id: Tenant, where: Mapping[str, Any], session: Session | None = None) -> int:
        """Remove every document that matches; answers how many there were."""
        with time_limit(BULK_SECONDS):
            result = await self._collection.delete_many({**where, **self._of(tenant_id)}, session=session)
        self._database.run_now_and_after_commit(session, self.invalidate_all)
        return result.deleted_count

    async def delete_in_chunks(self, tenant_id: Tenant, where: Mapping[str, Any]) -> None:
        """As `delete_all`, for any number: in steps of which each is short, and none is lost when it ends early."""
        async for ids in self._chunks({**where, **self._of(tenant_id)}):
            await self.delete_all(tenant_id, {"_id": {"$in": ids}})

    async def delete_in_chunks_across_tenants(self, where: Mapping[str, Any]) -> None:
        """As `delete_in_chunks`, over all tenants."""
        async for ids in self._chunks(where):
            with time_limit(BULK_SECONDS):
                await self._collection.delete_many({"_id": {"$in": ids}})
            self.invalidate_all()

    async def update_in_chunks(self, tenant_id: Tenant, where: Mapping[str, Any], change: Mapping[str, Any]) -> int:
        """As `update`, for any number, and a change after which a document does not match any more."""
        changed = 0
        async for ids in self._chunks({**where, **self._of(tenant_id)}):
            changed += await self.update(tenant_id, {**where, "_id": {"$in": ids}}, change)
        return changed

    async def _chunks(self, where: Mapping[str, Any]) -> AsyncIterator[list[str]]:
        while ids := [found["_id"] async for found in self._collection.find(where, {"_id": 1}).limit(CHUNK)]:
            yield ids

    async def search(
        self, tenant_id: Tenant, query: SearchQuery, where: Mapping[str, Any] | None = None
    ) -> tuple[int, list[Document]]:
        """How many documents match, of those that fit `where`, and one page of them."""
        return await self._search(query, {**(where or {}), **self._of(tenant_id)})

    async def search_across_tenants(self, query: SearchQuery) -> tuple[int, list[Document]]:
        """As `search`, over all tenants: for callers with a global key who name no tenant."""
        return await self._search(query, {})

    async def reseal(self) -> int:
        """Seal again, under the current master key, what was sealed under an older one; answers how many changed."""
        changed = 0
        async for stored in self._collection.find({}):
            changed += await self._resealed(stored)
        self.invalidate_all()
        return changed

    async def seal_plaintext(self) -> int:
        """Seal what an earlier version stored in plaintext; returns how many documents changed. May be repeated."""
        changed = 0
        async for stored in self._collection.find({}):
            changed += await self._exchanged(stored, self._in_plaintext(stored), self._vault.seal)
        self.invalidate_all()
        return changed

    def _in_plaintext(self, stored: Document) -> Iterator[tuple[_Place, str, str]]:
        """(place, text, context) of each member that has to be sealed and is not."""
        for path in self._sealed:
            for holder, step, before in _places(stored, path):
                if isinstance(holder[step], str) and not is_sealed(holder[step]):
                    yield _Place(before, str(step)), holder[step], self._context(stored, path)

    async def _resealed(self, stored: Document) -> bool:
        def reseal(text: str, context: str) -> str:
            return self._vault.seal(self._vault.unseal(text, context), context)

        return await self._exchanged(stored, self._outdated(stored), reseal)

    async def _exchanged(
        self, stored: Document, geoip: Iterable[tuple[_Place, str, str]], seal: Callable[[str, str], str]
    ) -> bool:
        """Put the sealed form in the place of each text, unless it has changed since it was read."""
        old, fresh, is_changed = {}, {}, False
        for place, text, context in geoip:
            again = seal(text, context)
            if place.is_plain:
                old[place.dotted], fresh[place.dotted] = text, again
            else:
                result = await self._collection.update_one(*place.exchange(stored["_id"], text, again))
                is_changed |= result.modified_count > 0
        if fresh:
            # Only these members: the rest of a document may look like operators of a query, and may change now.
            result = await self._collection.update_one({"_id": stored["_id"], **old}, {"$set": fresh})
            is_changed |= result.modified_count > 0
        return is_changed

    def _outdated(self, stored: Document) -> Iterator[tuple[_Place, str, str]]:
        """(place, text, context) of what was sealed under an older master key."""
        for path in self._sealed:
            for holder, step, before in _places(stored, path):
                if is_sealed(holder[step]) and not self._vault.is_current(holder[step]):
                    yield _Place(before, str(step)), holder[step], self._context(stored, path)

    async def _search(self, query: SearchQuery, scope: Mapping[str, Any]) -> tuple[int, list[Document]]:
        where = {"$and": [dict(scope), *map(condition, query.criteria), *self._looked_up(query)]}
        if query.number_of_results == 0:
            return await self._total(where), []
        cursor = (
            self._collection.find(where)
            .sort(self._order(query.order, scope))
            .skip(query.start_row)
            .limit(query.number_of_results)
        )
        page = [self._opened(stored) async for stored in cursor]
        return await self._total_with(where, page, query.start_row, query.number_of_results), page

    def _looked_up(self, query: SearchQuery) -> Iterator[dict[str, Any]]:
        """What an index can answer of the text that a name has to hold."""
        for criterion in query.criteria:
            if self._has_endings and criterion.field == "name" and criterion.piece:
                yield {name_suffixes.MEMBER: {"$regex": name_suffixes.pattern_of(criterion.piece)}}

    def _order(self, order: Order, scope: Mapping[str, Any]) -> list[tuple[str, int]]:
        """An order as an index has it."""
        unique = [unique.keys for unique in self.unique if not unique.sparse]
        return list(search_indexes.shortened(order, scope, unique)) or [("_id", 1)]

    async def _total_with(
        self, where: Mapping[str, Any], page: list[Document], start_row: int, wanted: int, limit: int = 0
    ) -> int:
        """How many documents match, when this page of them is known: one that is not full says it already."""
        if len(page) < wanted and (page or not start_row):
            return min(start_row + len(page), limit or sys.maxsize)
        return await self._total(where, limit)

    async def _total(self, where: Mapping[str, Any], limit: int = 0) -> int:
        """How many documents match, counted in an index, and remembered until one of them all changes.

        Counting takes as long as there are matches, a page does not: without this, lists would slow down as they grow.
        """
        options: dict[str, Any] = {"limit": limit} if limit else {}
        # Nothing to look for is looked for in no index at all, if nobody says in which.
        options |= {} if any(where["$and"]) else {"hint": "_id_"}
        return (
            await self._totals.get(f"{limit} {where!r}", lambda: self._collection.count_documents(where, **options))
            or 0
        )

    async def _load(self, where: Mapping[str, Any], session: Session | None = None) -> Document | None:
        stored = await self._collection.find_one(where, session=session)
        return None if stored is None else self._opened(stored)

    def _of(self, tenant_id: Tenant) -> dict[str, Any]:
        if self._tenant_scoped and tenant_id is None:
            raise ValueError(f"{self.name} belongs to tenants: name one")
        return {"tenantId": tenant_id} if self._tenant_scoped else {}

    def _is_of(self, tenant_id: Tenant, document: Document) -> bool:
        return not self._tenant_scoped or (tenant_id is not None and document.get("tenantId") == tenant_id)

    def _closed(self, tenant_id: Tenant, document: Document) -> Document:
        if self._tenant_scoped and document.get("tenantId") != tenant_id:
            raise ValueError(f"{self.name} {document['id']} is not of tenant {tenant_id}")
        return self._sealed_form(copy.deepcopy(document))

    def _sealed_form(self, stored: Document) -> Document:
        """A document that is the store's own from now on, as MongoDB keeps it."""
        stored["_id"] = stored.pop("id")
        if self._has_endings:
            stored["private"] = {**stored.get("private", {}), "endings": name_suffixes.of(stored.get("name", ""))}
        for path in self._sealed:
            self._rewrite(stored, path, self._vault.seal, sealed=False)
        return stored

    def _opened(self, found: Mapping[str, Any]) -> Document:
        stored = {name: plain(value) for name, value in found.items()}
        if self._has_endings and "private" in stored:
            stored["private"].pop("endings", None)
            if not stored["private"]:
                del stored["private"]
        for path in self._sealed:
            self._rewrite(stored, path, self._vault.unseal, sealed=True)
        stored["id"] = stored.pop("_id")
        return stored

    def _context(self, stored: Document, path: tuple[str, ...]) -> str:
        return f"{self.name}.{stored['_id']}.{'.'.join(path)}"

    def _rewrite(self, stored: Document, path: tuple[str, ...], rewrite: Any, *, sealed: bool) -> None:
        context = self._context(stored, path)
        for holder, step, _ in _places(stored, path):
            # Sealing never looks at the text: one that a caller made to look sealed is sealed like any other.
            if isinstance(holder[step], str) and (not sealed or is_sealed(holder[step])):
                holder[step] = rewrite(holder[step], context)


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """A member of a stored document: `before` is the dotted place of the object that has it."""

    before: str
    name: str

    @property
    def dotted(self) -> str:
        """As MongoDB names it."""
        return f"{self.before}.{self.name}" if self.before else self.name

    @property
    def is_plain(self) -> bool:
        """Whether that name means this member: one that a caller chose may hold a full stop."""
        return bool(self.name) and "." not in self.name and not self.name.startswith("$")

    def exchange(self, document_id: str, old: str, new: str) -> tuple[Document, list[Document]]:
        """The filter and the update that put one text in the place of another, whatever the member is called."""
        of_map = {"field": {"$literal": self.name}, "input": f"${self.before}"}
        where = {"_id": document_id, "$expr": {"$eq": [{"$getField": of_map}, {"$literal": old}]}}
        return where, [{"$set": {self.before: {"$setField": {**of_map, "value": {"$literal": new}}}}}]


def _places(value: Any, path: tuple[str, ...], before: str = "") -> Iterator[tuple[Any, Any, str]]:
    """Where a path leads: (object, member, its place); a step `*` stands for every item of a list or of a map."""
    first, rest = path[0], path[1:]
    steps: Iterable[Any] = ()
    if first == "*":
        steps = range(len(value)) if isinstance(value, list) else tuple(value) if isinstance(value, dict) else ()
    elif isinstance(value, dict) and first in value:
        steps = (first,)
    for step in steps:
        if rest:
            yield from _places(value[step], rest, f"{before}.{step}" if before else str(step))
        else:
            yield value, step, before


def plain(value: Any) -> Any:
    """A stored value as the JSON it came from: the driver makes an object of its own out of `{"$ref":…, "$id":…}`."""
    if isinstance(value, DBRef):
        value = dict(value.as_doc())
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def _unique_index(unique: Unique) -> IndexModel:
    keys = [(key, 1) for key in unique.keys]
    if not unique.sparse:
        return IndexModel(keys, name=unique.index, unique=True)
    return IndexModel(
        keys, name=unique.index, unique=True, partialFilterExpression={unique.keys[-1]: {"$exists": True}}
    )


def condition(criterion: Criterion) -> dict[str, Any]:
    """One criterion as MongoDB asks it."""
    field = "_id" if criterion.field == "id" else criterion.field
    match criterion.kind:
        case "text":
            return {field: {"$regex": criterion.value, "$options": "is"}}
        case "tenants":
            return {"$or": [{"tenantIds": criterion.value}, {"global": True}]}
        case "from":
            return {field: {"$gte": criterion.value}}
        case "until":
            return {field: {"$lte": criterion.value}}
        case _:
            return {field: criterion.value}


def _references_index(members: tuple[str, ...]) -> IndexModel:
    """One index over all members that name other objects, under a name that changes with them."""
    named = fingerprint(" ".join(members))[:8]
    return IndexModel([("$**", 1)], name=f"references-{named}", wildcardProjection=dict.fromkeys(members, 1))
