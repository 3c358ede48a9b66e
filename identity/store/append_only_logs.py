"""Append-only logs: numbered rows, which are searched, and deleted in the order of their age.

A row may belong to a tenant. Rows of the instance are visible only to callers without a tenant.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from pymongo import IndexModel, ReturnDocument

from identity.call import Document
from identity.domain.objects import search_indexes
from identity.domain.objects.resource_definition import SearchRules
from identity.domain.objects.search import Criterion, SearchQuery
from identity.domain.objects.search_indexes import Order
from identity.ids import TenantId
from identity.instants import Instant
from identity.store.document_queries import condition
from identity.store.documents import plain
from identity.store.mongo import Collection, Database, Session, delete_many, tenant_filter
from identity.store.store_circuit_breaker import time_limit

Tenant = TenantId | None

_EXPORT_BATCH = 500
_REWRITE_BATCH = 200


class SearchableLog:
    """A collection of rows that are searched and exported."""

    def __init__(self, database: Database, name: str) -> None:
        self._rows: Collection = database.collection(name)

    async def find_page(self, tenant_id: Tenant, query: SearchQuery) -> list[Document]:
        """The requested page of the matching rows."""
        if query.number_of_results == 0:
            return []
        cursor = self._rows.find(self._where(tenant_id, query)).sort(list(self._order(query)))
        page = cursor.skip(query.start_row).limit(query.number_of_results)
        return [self._decode(stored) async for stored in page]

    async def count(self, tenant_id: Tenant, query: SearchQuery) -> int:
        """The number of matching rows."""
        return await self._rows.count_documents(self._where(tenant_id, query))

    async def iterate(self, tenant_id: Tenant, query: SearchQuery) -> AsyncIterator[Document]:
        """All matching rows in order, regardless of the page of the query."""
        cursor = self._rows.find(self._where(tenant_id, query), batch_size=_EXPORT_BATCH)
        async for stored in cursor.sort(list(self._order(query))):
            yield self._decode(stored)

    def _where(self, tenant_id: Tenant, query: SearchQuery) -> Document:
        return {"$and": [tenant_filter(tenant_id), *map(self._condition, query.criteria)]}

    def _condition(self, criterion: Criterion) -> Document:
        return condition(criterion)

    def _order(self, query: SearchQuery) -> Order:
        return query.order

    def _decode(self, stored: Mapping[str, Any]) -> Document:
        row = {name: plain(value) for name, value in stored.items()}
        row["id"] = row.pop("_id")
        return row


class AppendOnlyLog(SearchableLog):
    """A log whose rows have consecutive numbers."""

    def __init__(self, database: Database, name: str, searches: SearchRules, *, tenant_scoped: bool) -> None:
        """`searches` determines the indexes; `tenant_scoped` whether they include the tenant."""
        super().__init__(database, name)
        self.name = name
        self._counters: Collection = database.collection("counters")
        self._orders = search_indexes.of_searches(searches, (), tenant_scoped=tenant_scoped)

    async def ensure_indexes(self) -> None:
        """Create missing indexes."""
        await self._rows.create_indexes([IndexModel(list(keys)) for keys in self._orders])

    async def next_id(self) -> int:
        """A new number, greater than all before. Numbers may be skipped, but never repeat.

        Incremented outside transactions, which would conflict on the counter.
        """
        counter = await self._counters.find_one_and_update(
            {"_id": self.name}, {"$inc": {"value": 1}}, upsert=True, return_document=ReturnDocument.AFTER
        )
        return int(counter["value"])

    async def insert(self, tenant_id: Tenant, row: Document, session: Session | None = None) -> None:
        """Insert a row with its number, for a tenant or for the instance."""
        stored = {**row, **tenant_filter(tenant_id), "_id": row["id"]}
        del stored["id"]
        await self._rows.insert_one(stored, session=session)

    async def find(self, tenant_id: Tenant, row_id: int) -> Document | None:
        """The row with this number, if it is visible to the tenant."""
        stored = await self._rows.find_one({**tenant_filter(tenant_id), "_id": row_id})
        return None if stored is None else self._decode(stored)

    async def search(self, tenant_id: Tenant, query: SearchQuery) -> tuple[int, list[Document]]:
        """The number of matching rows, and one page of them."""
        page = await self.find_page(tenant_id, query)
        # Counted last: the total then includes every row of the page, even if rows are inserted meanwhile.
        return await self.count(tenant_id, query), page

    async def find_matching(
        self, tenant_id: Tenant, members: Sequence[str], pattern: str, limit: int
    ) -> list[Document]:
        """The newest rows in which a member matches a pattern, ignoring case."""
        where = {**tenant_filter(tenant_id), **_any_member(members, pattern)}
        return [self._decode(stored) async for stored in self._rows.find(where).sort("_id", -1).limit(limit)]

    async def rewrite_across_tenants(self, rewrite: Callable[[Document], Document]) -> int:
        """Rewrite the rows that a function changes; return their number."""
        return await self._rewrite({}, rewrite)

    async def rewrite_of_tenant(self, tenant_id: TenantId, rewrite: Callable[[Document], Document]) -> int:
        """As `rewrite_across_tenants` for one tenant."""
        return await self._rewrite({"tenantId": tenant_id}, rewrite)

    async def _rewrite(self, where: Document, rewrite: Callable[[Document], Document]) -> int:
        changed = 0
        with time_limit(0):  # a log may have millions of rows, and whoever rewrites repeats what was interrupted
            async for stored in self._rows.find(where, batch_size=_REWRITE_BATCH):
                row = self._decode(stored)
                if (fresh := rewrite(row)) != row:
                    content = {name: value for name, value in fresh.items() if name != "id"}
                    changed += (await self._rows.replace_one({"_id": row["id"]}, content)).modified_count
        return changed

    async def keep_newest(self, count: int) -> int:
        """Delete all but the newest `count` rows; returns the number of deleted rows."""
        async for row in self._rows.find({}, {"_id": 1}).sort("_id", -1).skip(count).limit(1):
            return await delete_many(self._rows, {"_id": {"$lte": row["_id"]}})
        return 0

    async def delete_before(self, instant: Instant) -> int:
        """Delete rows older than an instant; returns their number."""
        return await delete_many(self._rows, {"insertInstant": {"$lt": instant}})


def _any_member(members: Sequence[str], pattern: str) -> Document:
    """The filter of rows in which a member matches a pattern, ignoring case."""
    return {"$or": [{member: {"$regex": pattern, "$options": "i"}} for member in members]}
