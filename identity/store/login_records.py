"""Login records: who logged in when, from where, and to which application.

The id of a record begins with its instant, so that one index finds, sorts and expires records. A record is inserted
before the login is answered. Records outside transactions are inserted in batches: while one batch is inserted the next
one collects, so that a login waits for at most one other batch.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pymongo import IndexModel

from identity.call import Document
from identity.domain.objects.search import Criterion, SearchQuery
from identity.domain.objects.search_indexes import Order
from identity.ids import ApplicationId, TenantId, UserId
from identity.instants import Instant
from identity.store.append_only_logs import SearchableLog, Tenant
from identity.store.document_queries import condition
from identity.store.documents import plain
from identity.store.mongo import Database, Session, delete_in_chunks, delete_many
from identity.store.request_coalescing import RequestCoalescer

_MAX_ADDRESSES: Final = 1000


class LoginRecords(SearchableLog):
    """The records of all tenants."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "login_records")
        self._inserts = RequestCoalescer(self._insert_many)

    async def ensure_indexes(self) -> None:
        """Create missing indexes."""
        await self._rows.create_indexes(
            [
                IndexModel([("tenantId", 1), ("_id", 1)], name="tenant"),
                IndexModel([("tenantId", 1), ("userId", 1), ("_id", 1)], name="user"),
                IndexModel([("tenantId", 1), ("applicationId", 1), ("_id", 1)], name="application"),
            ]
        )

    async def add(self, tenant_id: TenantId, row: Document, session: Session | None = None) -> None:
        """Insert a record, which has an `instant`: in the transaction, or in a batch with concurrent ones."""
        stored = {**row, "_id": id_of(row["instant"], random.getrandbits(80)), "tenantId": tenant_id}
        if session is not None:
            await self._rows.insert_one(stored, session=session)
            return
        await self._inserts.submit(stored)

    async def search(
        self, tenant_id: Tenant, query: SearchQuery, *, with_total: bool
    ) -> tuple[int | None, list[Document]]:
        """The number of matching records, if requested, and one page of them, newest first."""
        page = await self.find_page(tenant_id, query)
        return (await self.count(tenant_id, query) if with_total else None), page

    async def find_ip_addresses(self, tenant_id: TenantId, user_id: UserId) -> set[str]:
        """The IP addresses in the newest records of a user."""
        where = {"tenantId": tenant_id, "userId": user_id}
        cursor = self._rows.find(where, {"ipAddress": 1}).sort("_id", -1).limit(_MAX_ADDRESSES)
        return {row["ipAddress"] async for row in cursor if row.get("ipAddress")}

    async def erase(self, tenant_id: TenantId, user_id: UserId) -> None:
        """Delete the records of a user in short steps."""
        await delete_in_chunks(self._rows, {"tenantId": tenant_id, "userId": user_id})

    async def delete_of_application(self, tenant_id: TenantId, application_id: ApplicationId) -> None:
        """Delete the records of logins to an application."""
        await delete_in_chunks(self._rows, {"tenantId": tenant_id, "applicationId": application_id})

    async def delete_of_tenant(self, tenant_id: TenantId) -> None:
        """Delete the records of a tenant."""
        await delete_in_chunks(self._rows, {"tenantId": tenant_id})

    async def delete_before(self, instant: Instant) -> int:
        """Delete records older than an instant; returns their number."""
        return await delete_many(self._rows, {"_id": {"$lt": id_of(instant)}})

    async def _insert_many(self, rows: Sequence[Document]) -> Sequence[None]:
        await self._rows.insert_many(rows, ordered=False)
        return [None] * len(rows)

    def _condition(self, criterion: Criterion) -> Document:
        """See SearchableLog; a condition on the instant becomes one on the id, which has the index."""
        if criterion.field != "instant":
            return condition(criterion)
        if criterion.kind == "from":
            return {"_id": {"$gte": id_of(Instant(int(criterion.value)))}}
        return {"_id": {"$lt": id_of(Instant(int(criterion.value) + 1))}}

    def _order(self, _query: SearchQuery) -> Order:
        """Always newest first."""
        return (("_id", -1),)

    def _decode(self, stored: Mapping[str, Any]) -> Document:
        return {name: plain(value) for name, value in stored.items() if name != "_id"}


def id_of(instant: Instant, random_bits: int = 0) -> str:
    """An id of this instant; without random bits, the smallest one."""
    return f"{instant:012x}{random_bits:020x}"
