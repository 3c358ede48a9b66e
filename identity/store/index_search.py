"""The index search of users and entities."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from pymongo import IndexModel, errors

from identity.call import Document
from identity.domain.objects import data_terms, search_indexes
from identity.domain.objects.index_search import IndexQuery
from identity.domain.objects.search_expressions import Fields
from identity.domain.objects.search_indexes import Order
from identity.ids import TenantId
from identity.store import search_filters
from identity.store.documents import Documents
from identity.store.mongo import BULK_SECONDS, drop_obsolete_index
from identity.store.store_circuit_breaker import OPERATION_SECONDS, server_time_limit

SEARCH_MILLISECONDS = 3000
"""The time limit of each command of a search on the server."""
BULK_MILLISECONDS = 30_000
"""The time limit of the search for the documents of a bulk operation."""

_CREATION: Final = "insertInstant"
_BY_TERM: Final = (search_filters.TERMS, _CREATION)


class SearchTimeoutError(Exception):
    """A search that no index serves exceeded the time limit."""


class IndexSearched(Documents):
    """Documents that are searched by an expression, sorted by one or more fields, and paged."""

    fields: ClassVar[Fields]
    sorted_by: ClassVar[frozenset[str]] = frozenset()
    """The members whose order has an index; others are sorted on request."""
    indexed: ClassVar[frozenset[str]] = frozenset()
    """The members other than the terms whose values an index finds."""
    obsolete_indexes: ClassVar[tuple[str, ...]] = ("terms", "private.terms_1")
    """The names of the indexes of earlier releases."""

    def indexes(self) -> list[IndexModel]:
        """The indexes of every collection, and those by term, within a tenant and across tenants.

        They also contain the instant of creation, so that the newest of many documents with a term are read in order.
        """
        by_data = IndexModel([data_terms.MEMBER, "tenantId"], name="dataTerms")
        return [*super().indexes(), IndexModel(["tenantId", *_BY_TERM]), IndexModel([*_BY_TERM]), by_data]

    async def ensure_indexes(self) -> None:
        """Create missing indexes, and drop those of earlier releases."""
        await super().ensure_indexes()
        for name in self.obsolete_indexes:
            await drop_obsolete_index(self._collection, name)

    def orders(self) -> list[Order]:
        """The orders that have an index."""
        orders = [((member, 1), ("_id", 1)) for member in sorted(self.sorted_by)]
        return search_indexes.of_orders(orders, self.unique, tenant_scoped=True)

    async def search_index(self, tenant_id: TenantId, query: IndexQuery) -> tuple[int, list[Document]]:
        """The number of matching documents, and one page of them. Raises SearchTimeoutError."""
        return await self._search_index(self._scope(tenant_id), query)

    async def search_index_across_tenants(self, query: IndexQuery) -> tuple[int, list[Document]]:
        """As `search_index` for all tenants, for callers with a global API key and no tenant."""
        return await self._search_index({}, query)

    async def ids(self, tenant_id: TenantId, query: IndexQuery, limit: int) -> list[str]:
        """The ids of at most `limit` matching documents. Raises SearchTimeoutError."""
        return await self._ids(self._scope(tenant_id), query, limit)

    async def ids_across_tenants(self, query: IndexQuery, limit: int) -> list[str]:
        """As `ids` for all tenants."""
        return await self._ids({}, query, limit)

    async def _ids(self, scope: Mapping[str, Any], query: IndexQuery, limit: int) -> list[str]:
        with self._time_limit(query, BULK_SECONDS):
            found = self._collection.find(self._filter(scope, query), {"_id": 1}).limit(limit)
            return [row["_id"] async for row in found.max_time_ms(BULK_MILLISECONDS)]

    async def _search_index(self, scope: Mapping[str, Any], query: IndexQuery) -> tuple[int, list[Document]]:
        where = self._filter(scope, query)
        limit = query.count_limit if query.ids is None else 0
        with self._time_limit(query):
            if query.number_of_results == 0:
                return await self._totals.count(where, limit, SEARCH_MILLISECONDS), []
            page = await self._page(scope, where, query)
            start_row, wanted = query.start_row, query.number_of_results
            total = await self._totals.count_from_page(where, page, start_row, wanted, limit, SEARCH_MILLISECONDS)
            return total, page

    def _filter(self, scope: Mapping[str, Any], query: IndexQuery) -> dict[str, Any]:
        if query.ids is not None:
            return {"$and": [dict(scope), {"_id": {"$in": list(query.ids)}}]}
        return {"$and": [dict(scope), search_filters.filter_of(self.fields, query.expression)]}

    @contextlib.contextmanager
    def _time_limit(self, query: IndexQuery, seconds: float = OPERATION_SECONDS) -> Iterator[None]:
        """Wait `seconds` for a command, which the server limits.

        Raises SearchTimeoutError if the server stopped a search that no index serves.
        """
        try:
            with server_time_limit(seconds):
                yield
        except errors.ExecutionTimeout as error:
            if search_filters.is_indexed(self.fields, query.expression, self.indexed):
                raise
            raise SearchTimeoutError from error

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
            rows = self._collection.aggregate(stages, maxTimeMS=SEARCH_MILLISECONDS, **options)
            page = [self._decode(stored) async for stored in rows]
            found += page
            if len(found) == query.number_of_results:
                break
            skip = 0 if page or not skip else max(0, skip - await self._totals.count(part, 0, SEARCH_MILLISECONDS))
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
    return search_filters.is_single_term(fields, query.expression) and [sort.field for sort in query.sort] == [
        _CREATION
    ]


def _partitions(fields: Fields, query: IndexQuery) -> Iterator[dict[str, Any]]:
    if not _is_partitioned(fields, query):
        yield {}
        return
    sort = query.sort[0]
    for is_there in (not sort.missing_first, sort.missing_first):
        yield {sort.field: {"$exists": is_there}}


def _is_partitioned(fields: Fields, query: IndexQuery) -> bool:
    return len(query.sort) == 1 and query.sort[0].field in fields.optional
