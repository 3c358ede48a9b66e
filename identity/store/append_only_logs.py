"""Logs that are only ever added to: rows with a number of their own, found by it, searched, and cut off at the old end.

A row may belong to a tenant; one that does not is of the instance, and only callers without a tenant see it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from pymongo import IndexModel, ReturnDocument

from identity.call import Document
from identity.domain.objects import search_indexes
from identity.domain.objects.resource_definition import SearchRules
from identity.domain.objects.search import SearchQuery
from identity.ids import TenantId
from identity.instants import Instant
from identity.store.documents import condition, plain
from identity.store.mongo import BULK_SECONDS, Collection, Database, Session
from identity.store.store_circuit_breaker import time_limit

Tenant = TenantId | None

_EXPORT_BATCH = 500


class AppendOnlyLog:
    """One such log."""

    def __init__(self, database: Database, name: str, searches: SearchRules, *, tenant_scoped: bool) -> None:
        """`searches` is what is asked of it; `tenant_scoped` whether a tenant may be asked for."""
        self.name = name
        self._rows: Collection = database.collection(name)
        self._counters: Collection = database.collection("counters")
        self._orders = search_indexes.of_searches(searches, (), tenant_scoped=tenant_scoped)

    async def ensure_indexes(self) -> None:
        """Create what is missing."""
        await self._rows.create_indexes([IndexModel(list(keys)) for keys in self._orders])

    async def next_id(self) -> int:
        """A fresh number, one higher than the one before. Gaps are possible, repeats are not.

        Outside of any transaction, because a counter inside one would make all of them wait for each other.
        """
        counter = await self._counters.find_one_and_update(
            {"_id": self.name}, {"$inc": {"value": 1}}, upsert=True, return_document=ReturnDocument.AFTER
        )
        return int(counter["value"])

    async def insert(self, tenant_id: Tenant, row: Document, session: Session | None = None) -> None:
        """Add a row under its number, for a tenant or for the instance."""
        own = {} if tenant_id is None else {"tenantId": tenant_id}
        stored = {**row, **own, "_id": row["id"]}
        del stored["id"]
        await self._rows.insert_one(stored, session=session)

    async def find(self, tenant_id: Tenant, row_id: int) -> Document | None:
        """The row, if this tenant may see it; without a tenant every row may be seen."""
        stored = await self._rows.find_one({**_of(tenant_id), "_id": row_id})
        return None if stored is None else _opened(stored)

    async def search(self, tenant_id: Tenant, query: SearchQuery) -> tuple[int, list[Document]]:
        """How many rows match, and one page of them."""
        where = _where(tenant_id, query)
        page: list[Document] = []
        if query.number_of_results > 0:
            cursor = self._rows.find(where).sort(list(query.order)).skip(query.start_row).limit(query.number_of_results)
            page = [_opened(stored) async for stored in cursor]
        # Counted last: a row that comes in between may be in the total alone, never in the page alone.
        return await self._rows.count_documents(where), page

    async def iterate(self, tenant_id: Tenant, query: SearchQuery) -> AsyncIterator[Document]:
        """Every row that matches, in order, whatever the page of the query."""
        cursor = self._rows.find(_where(tenant_id, query), batch_size=_EXPORT_BATCH).sort(list(query.order))
        async for stored in cursor:
            yield _opened(stored)

    async def keep_newest(self, count: int) -> int:
        """Remove all rows but this many, the oldest first; answers how many went."""
        async for row in self._rows.find({}, {"_id": 1}).sort("_id", -1).skip(count).limit(1):
            return await self._delete({"_id": {"$lte": row["_id"]}})
        return 0

    async def delete_before(self, instant: Instant) -> int:
        """Remove what is older than this; answers how many rows went."""
        return await self._delete({"insertInstant": {"$lt": instant}})

    async def _delete(self, where: Mapping[str, Any]) -> int:
        with time_limit(BULK_SECONDS):
            return (await self._rows.delete_many(where)).deleted_count


def _of(tenant_id: Tenant) -> Document:
    return {} if tenant_id is None else {"tenantId": tenant_id}


def _where(tenant_id: Tenant, query: SearchQuery) -> Document:
    return {"$and": [_of(tenant_id), *map(condition, query.criteria)]}


def _opened(stored: Mapping[str, Any]) -> Document:
    row = {name: plain(value) for name, value in stored.items()}
    row["id"] = row.pop("_id")
    return row
