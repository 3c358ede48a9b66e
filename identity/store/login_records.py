"""Who logged in when, from where and to what: rows that are only ever added, and go when their time or their user ends.

The id of a row begins with its instant, so that the order of ids is the order of time: one index finds, sorts and cuts
off. Rows are written before a login is answered. Those that come at the same time, outside of any transaction, go to
MongoDB together: while one batch is on its way the next one gathers, and nobody waits for more than that.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from pymongo import IndexModel

from identity.call import Document
from identity.domain.objects.search import Criterion, SearchQuery
from identity.ids import ApplicationId, TenantId, UserId
from identity.instants import Instant
from identity.store.documents import condition, plain
from identity.store.mongo import BULK_SECONDS, CHUNK, Collection, Database, Session
from identity.store.request_coalescing import RequestCoalescer
from identity.store.store_circuit_breaker import time_limit

Tenant = TenantId | None
_NEWEST_FIRST = [("_id", -1)]
_EXPORT_BATCH = 500


class LoginRecords:
    """The records of all tenants."""

    def __init__(self, database: Database) -> None:
        self._rows: Collection = database.collection("login_records")
        self._erasures: Collection = database.collection("login_record_erasures")
        self._written = RequestCoalescer(self._write)

    async def ensure_indexes(self) -> None:
        """Create what is missing."""
        await self._rows.create_indexes(
            [
                IndexModel([("tenantId", 1), ("_id", 1)], name="tenant"),
                IndexModel([("tenantId", 1), ("userId", 1), ("_id", 1)], name="user"),
                IndexModel([("tenantId", 1), ("applicationId", 1), ("_id", 1)], name="application"),
            ]
        )
        await self._erasures.create_indexes([IndexModel([("tenantId", 1)], name="tenant")])

    async def add(self, tenant_id: TenantId, row: Document, session: Session | None = None) -> None:
        """Write a row, which has an `instant`: in the transaction, or with those that come at the same time."""
        stored = {**row, "_id": id_of(row["instant"], random.getrandbits(80)), "tenantId": tenant_id}
        if session is not None:
            await self._rows.insert_one(stored, session=session)
            return
        await self._written.submit(stored)

    async def search(
        self, tenant_id: Tenant, query: SearchQuery, *, with_total: bool
    ) -> tuple[int | None, list[Document]]:
        """One page of the rows that match, the newest first, and how many match where that is asked for."""
        where = _where(tenant_id, query.criteria)
        page: list[Document] = []
        if query.number_of_results > 0:
            cursor = self._rows.find(where).sort(_NEWEST_FIRST).skip(query.start_row).limit(query.number_of_results)
            page = [_opened(stored) async for stored in cursor]
        return (await self._rows.count_documents(where) if with_total else None), page

    async def iterate(self, tenant_id: Tenant, query: SearchQuery) -> AsyncIterator[Document]:
        """Every row that matches, the newest first, whatever the page of the query."""
        where = _where(tenant_id, query.criteria)
        async for stored in self._rows.find(where, batch_size=_EXPORT_BATCH).sort(_NEWEST_FIRST):
            yield _opened(stored)

    async def mark_for_erasure(self, tenant_id: TenantId, user_id: UserId, session: Session | None) -> None:
        """Note that the rows of a user have to go; `erase` removes them, now or after an interruption."""
        await self._erasures.update_one(
            {"_id": user_id}, {"$set": {"tenantId": tenant_id}}, upsert=True, session=session
        )

    async def erase(self, tenant_id: TenantId, user_id: UserId) -> None:
        """Remove the rows of a user, in steps of which each is short."""
        await self._delete_in_chunks({"tenantId": tenant_id, "userId": user_id})
        await self._erasures.delete_one({"_id": user_id, "tenantId": tenant_id})

    async def finish_erasures(self) -> None:
        """Remove what was noted by `forget` and not removed since."""
        async for left in self._erasures.find({}):
            await self.erase(TenantId(left["tenantId"]), UserId(left["_id"]))

    async def delete_of_application(self, tenant_id: TenantId, application_id: ApplicationId) -> None:
        """Remove the rows of logins to an application."""
        await self._delete_in_chunks({"tenantId": tenant_id, "applicationId": application_id})

    async def delete_of_tenant(self, tenant_id: TenantId) -> None:
        """Remove the rows of a tenant."""
        await self._delete_in_chunks({"tenantId": tenant_id})
        await self._erasures.delete_many({"tenantId": tenant_id})

    async def delete_before(self, instant: Instant) -> int:
        """Remove what is older than this; answers how many rows went."""
        with time_limit(BULK_SECONDS):
            return (await self._rows.delete_many({"_id": {"$lt": id_of(instant)}})).deleted_count

    async def _write(self, rows: Sequence[Document]) -> Sequence[None]:
        await self._rows.insert_many(rows, ordered=False)
        return [None] * len(rows)

    async def _delete_in_chunks(self, where: Mapping[str, Any]) -> None:
        while ids := [found["_id"] async for found in self._rows.find(where, {"_id": 1}).limit(CHUNK)]:
            await self._rows.delete_many({"_id": {"$in": ids}})


def id_of(instant: Instant, chance: int = 0) -> str:
    """An id of this instant; without a chance the first that there can be."""
    return f"{instant:012x}{chance:020x}"


def _where(tenant_id: Tenant, criteria: Sequence[Criterion]) -> Document:
    own = {} if tenant_id is None else {"tenantId": tenant_id}
    return {"$and": [own, *map(_condition, criteria)]}


def _condition(criterion: Criterion) -> Document:
    """A criterion; one about the instant as one about the id, which has the index."""
    if criterion.field != "instant":
        return condition(criterion)
    if criterion.kind == "from":
        return {"_id": {"$gte": id_of(Instant(int(criterion.value)))}}
    return {"_id": {"$lt": id_of(Instant(int(criterion.value) + 1))}}


def _opened(stored: Mapping[str, Any]) -> Document:
    return {name: plain(value) for name, value in stored.items() if name != "_id"}
