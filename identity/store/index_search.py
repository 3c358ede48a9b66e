"""The index search of users and entities."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from pymongo import IndexModel

from identity.call import Document
from identity.domain.objects import search_indexes
from identity.domain.objects.index_search import Fields, IndexQuery, Term
from identity.domain.objects.search_indexes import Order
from identity.ids import TenantId
from identity.store.documents import Documents
from identity.store.mongo import BULK_SECONDS, drop_obsolete_index
from identity.store.store_circuit_breaker import time_limit

_CREATION: Final = "insertInstant"
_BY_TERM: Final = ("private.terms", _CREATION)
_OBSOLETE_INDEXES: Final = ("terms", "private.terms_1")


class IndexSearched(Documents):
    """Documents that are searched by one term, sorted by one or more fields, and paged."""

    fields: ClassVar[Fields]
    sorted_by: ClassVar[frozenset[str]] = frozenset()
    """The members whose order has an index; others are sorted on request."""

    def indexes(self) -> list[IndexModel]:
        """The indexes of every collection, and those by term, within a tenant and across tenants.

        They also contain the instant of creation, so that the newest of many documents with a term are read in order.
        """
        return [*super().indexes(), IndexModel(["tenantId", *_BY_TERM]), IndexModel([*_BY_TERM])]

    async def ensure_indexes(self) -> None:
        """Create missing indexes, and drop those by term alone, which earlier releases had."""
        await super().ensure_indexes()
        for name in _OBSOLETE_INDEXES:
            await drop_obsolete_index(self._collection, name)

    def orders(self) -> list[Order]:
        """The orders that have an index."""
        orders = [((member, 1), ("_id", 1)) for member in sorted(self.sorted_by)]
        return search_indexes.of_orders(orders, self.unique, tenant_scoped=True)

    async def search_index(self, tenant_id: TenantId, query: IndexQuery) -> tuple[int, list[Document]]:
        """The number of matching documents, and one page of them."""
        return await self._search_index(self._scope(tenant_id), query)

    async def search_index_across_tenants(self, query: IndexQuery) -> tuple[int, list[Document]]:
        """As `search_index` for all tenants, for callers with a global API key and no tenant."""
        return await self._search_index({}, query)

    async def ids(self, tenant_id: TenantId, query: IndexQuery, limit: int) -> list[str]:
        """The ids of at most `limit` matching documents."""
        return await self._ids(self._scope(tenant_id), query, limit)

    async def ids_across_tenants(self, query: IndexQuery, limit: int) -> list[str]:
        """As `ids` for all tenants."""
        return await self._ids({}, query, limit)

    async def _ids(self, scope: Mapping[str, Any], query: IndexQuery, limit: int) -> list[str]:
        where = {"$and": [dict(scope), _matching(self.fields, query)]}
        with time_limit(BULK_SECONDS):
            return [found["_id"] async for found in self._collection.find(where, {"_id": 1}).limit(limit)]

    async def _search_index(self, scope: Mapping[str, Any], query: IndexQuery) -> tuple[int, list[Document]]:
        where = {"$and": [dict(scope), _matching(self.fields, query)]}
        limit = query.count_limit if query.ids is None else 0
        if query.number_of_results == 0:
            return await self._totals.count(where, limit), []
        page = await self._page(scope, where, query)
        start_row, wanted = query.start_row, query.number_of_results
        return await self._totals.count_from_page(where, page, start_row, wanted, limit), page

    async def _page(self, scope: Mapping[str, Any], where: Mapping[str, Any], query: IndexQuery) -> list[Document]:
        """One page, from the documents that have the member to sort by and then those that lack it, or vice versa.

        Each part is read in the order of an index, whereas a computed flag would have to be sorted for every page.
        """
        found: list[Document] = []
        skip = query.start_row
        for partition in _partitions(self.fields, query):
            part = {"$and": [*where["$and"], partition]} if partition else where
            stages = [{"$match": part}, *self._sorting(scope, query), {"$skip": skip}]
            stages += [{"$limit": query.number_of_results - len(found)}, {"$unset": "order"}]
            options = {"hint": dict.fromkeys([*scope, *_BY_TERM], 1)} if _is_by_creation(self.fields, query) else {}
            page = [self._decode(stored) async for stored in self._collection.aggregate(stages, **options)]
            found += page
            if len(found) == query.number_of_results:
                break
            skip = 0 if page or not skip else max(0, skip - await self._totals.count(part))
        return found

    def _sorting(self, scope: Mapping[str, Any], query: IndexQuery) -> list[dict[str, Any]]:
        """The sort stages, with the id last; each of several fields is sorted by its presence, then by its value.

        The index by term and creation keeps the order of documents of the same instant, and does not contain the id.
        """
        if _is_by_creation(self.fields, query):
            return [{"$sort": {_CREATION: -1 if query.sort[0].descending else 1}}]
        flags: dict[str, Any] = {}
        order: dict[str, int] = {}
        for index, sort in enumerate(query.sort):
            if sort.field in self.fields.optional and not _is_partitioned(self.fields, query):
                missing = f"order.missing{index}"
                flags[missing] = {"$cond": [{"$gt": [f"${sort.field}", None]}, 0, -1 if sort.missing_first else 1]}
                order[missing] = 1
            order.setdefault(sort.field, -1 if sort.descending else 1)
        order.setdefault("_id", order[query.sort[-1].field] if query.sort else 1)
        return [*([{"$set": flags}] if flags else []), {"$sort": dict(self._order(tuple(order.items()), scope))}]


def _is_by_creation(fields: Fields, query: IndexQuery) -> bool:
    """Whether a query is for one exact term, sorted by the creation, which the index by term serves."""
    term = query.term
    is_exact = term is not None and not term.open_start and not term.open_end and term.field in {None, *fields.termed}
    return is_exact and [sort.field for sort in query.sort] == [_CREATION]


def _partitions(fields: Fields, query: IndexQuery) -> Iterator[dict[str, Any]]:
    if not _is_partitioned(fields, query):
        yield {}
        return
    sort = query.sort[0]
    for is_there in (not sort.missing_first, sort.missing_first):
        yield {sort.field: {"$exists": is_there}}


def _is_partitioned(fields: Fields, query: IndexQuery) -> bool:
    return len(query.sort) == 1 and query.sort[0].field in fields.optional


def _matching(fields: Fields, query: IndexQuery) -> dict[str, Any]:
    if query.ids is not None:
        return {"_id": {"$in": list(query.ids)}}
    return {} if query.term is None else _term(fields, query.term)


def _term(fields: Fields, term: Term) -> dict[str, Any]:
    if term.field is None:
        return {"private.terms": _pattern(term)}
    if term.field in fields.ids:
        return {fields.ids[term.field]: term.text}
    if term.field in fields.flags:
        return {term.field: term.text == "true"}
    of_field = {term.field: {"$regex": _regex(term), "$options": "is"}}
    # Only the terms have an index.
    return {"private.terms": _pattern(term), **of_field} if term.field in fields.termed else of_field


def _pattern(term: Term) -> Any:
    """The condition for a lower-cased term: an exact value if possible, which an index serves best."""
    return {"$regex": _regex(term), "$options": "s"} if term.open_start or term.open_end else term.text


def _regex(term: Term) -> str:
    return f"{'' if term.open_start else '^'}{re.escape(term.text)}{'' if term.open_end else '$'}"
