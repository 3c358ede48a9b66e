"""Collections that have the index search: users and entities."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pymongo import IndexModel

from identity.call import Document
from identity.domain.objects import search_indexes
from identity.domain.objects.index_search import Fields, IndexQuery, Term
from identity.domain.objects.search_indexes import Order
from identity.ids import TenantId
from identity.store.documents import Documents
from identity.store.mongo import BULK_SECONDS
from identity.store.store_circuit_breaker import time_limit


class IndexSearched(Documents):
    """Documents that are found by one term, sorted by one field or more, and paged through."""

    fields: ClassVar[Fields]
    sorted_by: ClassVar[frozenset[str]] = frozenset()
    """The members whose order an index keeps; the others are sorted when asked for."""

    def indexes(self) -> list[IndexModel]:
        """The indexes in addition to those of every collection: the terms, within one tenant and across all."""
        terms = IndexModel([("tenantId", 1), ("private.terms", 1)], name="terms")
        return [*super().indexes(), terms, IndexModel([("private.terms", 1)])]

    def orders(self) -> list[Order]:
        """The orders that an index keeps."""
        orders = [((member, 1), ("_id", 1)) for member in sorted(self.sorted_by)]
        return search_indexes.of_orders(orders, self.unique, tenant_scoped=True)

    async def search_index(self, tenant_id: TenantId, query: IndexQuery) -> tuple[int, list[Document]]:
        """How many documents match, and one page of them."""
        return await self._search_index(self._scope(tenant_id), query)

    async def search_index_across_tenants(self, query: IndexQuery) -> tuple[int, list[Document]]:
        """As `search_index`, over all tenants: for callers with a global key who name no tenant."""
        return await self._search_index({}, query)

    async def ids(self, tenant_id: TenantId, query: IndexQuery, limit: int) -> list[str]:
        """The ids of the documents that match, `limit` at most."""
        return await self._ids(self._scope(tenant_id), query, limit)

    async def ids_across_tenants(self, query: IndexQuery, limit: int) -> list[str]:
        """As `ids`, over all tenants."""
        return await self._ids({}, query, limit)

    async def _ids(self, scope: Mapping[str, Any], query: IndexQuery, limit: int) -> list[str]:
        where = {"$and": [dict(scope), _matching(self.fields, query)]}
        with time_limit(BULK_SECONDS):
            return [found["_id"] async for found in self._collection.find(where, {"_id": 1}).limit(limit)]

    async def _search_index(self, scope: Mapping[str, Any], query: IndexQuery) -> tuple[int, list[Document]]:
        where = {"$and": [dict(scope), _matching(self.fields, query)]}
        limit = query.count_limit if query.ids is None else 0
        if query.number_of_results == 0:
            return await self._total(where, limit), []
        page = await self._page(scope, where, query)
        return await self._total_from_page(where, page, query.start_row, query.number_of_results, limit), page

    async def _page(self, scope: Mapping[str, Any], where: Mapping[str, Any], query: IndexQuery) -> list[Document]:
        """One page: from the documents that have the member to sort by and those that lack it, one after the other.

        Each half comes in the order of an index; a computed "is it there" would have to be sorted anew each time.
        """
        found: list[Document] = []
        skip = query.start_row
        for half in _halves(self.fields, query):
            part = {"$and": [*where["$and"], half]} if half else where
            stages = [{"$match": part}, *self._sorting(scope, query), {"$skip": skip}]
            stages += [{"$limit": query.number_of_results - len(found)}, {"$unset": "order"}]
            page = [self._decode(stored) async for stored in self._collection.aggregate(stages)]
            found += page
            if len(found) == query.number_of_results:
                break
            skip = 0 if page or not skip else max(0, skip - await self._total(part))
        return found

    def _sorting(self, scope: Mapping[str, Any], query: IndexQuery) -> list[dict[str, Any]]:
        """The stages that sort, the id last; of several fields, for each whether it is there at all, then its value."""
        flags: dict[str, Any] = {}
        order: dict[str, int] = {}
        for index, sort in enumerate(query.sort):
            if sort.field in self.fields.optional and not _is_split(self.fields, query):
                missing = f"order.missing{index}"
                flags[missing] = {"$cond": [{"$gt": [f"${sort.field}", None]}, 0, -1 if sort.missing_first else 1]}
                order[missing] = 1
            order.setdefault(sort.field, -1 if sort.descending else 1)
        order.setdefault("_id", order[query.sort[-1].field] if query.sort else 1)
        return [*([{"$set": flags}] if flags else []), {"$sort": dict(self._order(tuple(order.items()), scope))}]


def _halves(fields: Fields, query: IndexQuery) -> Iterator[dict[str, Any]]:
    if not _is_split(fields, query):
        yield {}
        return
    sort = query.sort[0]
    for is_there in (not sort.missing_first, sort.missing_first):
        yield {sort.field: {"$exists": is_there}}


def _is_split(fields: Fields, query: IndexQuery) -> bool:
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
    # The terms have an index, the fields themselves have not.
    return {"private.terms": _pattern(term), **of_field} if term.field in fields.termed else of_field


def _pattern(term: Term) -> Any:
    """How a lower-cased term is matched: as a plain value where it can be, which an index serves best."""
    return {"$regex": _regex(term), "$options": "s"} if term.open_start or term.open_end else term.text


def _regex(term: Term) -> str:
    return f"{'' if term.open_start else '^'}{re.escape(term.text)}{'' if term.open_end else '$'}"
