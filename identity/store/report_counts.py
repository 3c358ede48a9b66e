"""Counts for reports: of login records and of registrations, by hour, day, month or application.

They are counted when they are asked for, with a bound in time: a report may be refused, and never holds up a login.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from identity.call import Document
from identity.ids import TenantId
from identity.instants import Instant, as_datetime
from identity.store.login_records import id_of
from identity.store.mongo import Collection, Database
from identity.store.store_circuit_breaker import time_limit

REPORT_SECONDS = 20.0
"""How long a report may be counted."""

Unit = Literal["hour", "day", "month"]


@dataclasses.dataclass(frozen=True, slots=True)
class ReportRange:
    """From `start` until before `end`, counted in a unit since `epoch`, which is 1970 where the clocks show `zone`."""

    start: Instant
    end: Instant
    unit: Unit
    epoch: Instant
    zone: str

    def interval(self, instant: str) -> Document:
        """The number of the interval that the instant in a member belongs to."""
        dates = {"startDate": as_datetime(self.epoch), "endDate": {"$toDate": instant}}
        return {"$dateDiff": {**dates, "unit": self.unit, "timezone": self.zone}}


class ReportCounts:
    """Asks the collections `login_records` and `users`."""

    def __init__(self, database: Database) -> None:
        self._logins: Collection = database.collection("login_records")
        self._users: Collection = database.collection("users")

    async def logins(
        self, tenant_id: TenantId | None, wanted: ReportRange, where: Mapping[str, Any], *, users: bool = False
    ) -> list[Document]:
        """How many logins there were in each interval or, with `users`, how many different users logged in."""
        ids = {"_id": {"$gte": id_of(wanted.start), "$lt": id_of(wanted.end)}}
        group: Document = {"interval": wanted.interval("$instant"), **({"userId": "$userId"} if users else {})}
        stages: list[Document] = [
            {"$match": {**_of(tenant_id), **where, **ids}},
            {"$group": {"_id": group, "count": {"$sum": 1}}},
            {"$group": {"_id": "$_id.interval", "count": {"$sum": 1 if users else "$count"}}},
        ]
        return await _intervals(self._logins, stages)

    async def registrations(
        self, tenant_id: TenantId | None, wanted: ReportRange, application_id: str | None
    ) -> list[Document]:
        """How many of the registrations that there are were made in each interval."""
        made = {"insertInstant": {"$gte": wanted.start, "$lt": wanted.end}}
        named = {} if application_id is None else {"applicationId": application_id}
        stages: list[Document] = [
            {"$match": {**_of(tenant_id), "registrations": {"$elemMatch": {**made, **named}}}},
            {"$unwind": "$registrations"},
            {"$match": {f"registrations.{name}": value for name, value in {**made, **named}.items()}},
            {"$group": {"_id": wanted.interval("$registrations.insertInstant"), "count": {"$sum": 1}}},
        ]
        return await _intervals(self._users, stages)

    async def users(self, tenant_id: TenantId | None) -> int:
        """How many users there are."""
        with time_limit(REPORT_SECONDS):
            return await self._users.count_documents(_of(tenant_id))

    async def logins_by_application(self, tenant_id: TenantId | None) -> dict[str, int]:
        """How many logins are on record for each application."""
        stages = [{"$match": _of(tenant_id)}, {"$group": {"_id": "$applicationId", "count": {"$sum": 1}}}]
        return await _by_application(self._logins, stages)

    async def registrations_by_application(self, tenant_id: TenantId | None) -> dict[str, int]:
        """How many registrations each application has."""
        stages: list[Document] = [
            {"$match": _of(tenant_id)},
            {"$project": {"registrations.applicationId": 1}},
            {"$unwind": "$registrations"},
            {"$group": {"_id": "$registrations.applicationId", "count": {"$sum": 1}}},
        ]
        return await _by_application(self._users, stages)


def _of(tenant_id: TenantId | None) -> Document:
    return {} if tenant_id is None else {"tenantId": tenant_id}


async def _intervals(collection: Collection, stages: list[Document]) -> list[Document]:
    with time_limit(REPORT_SECONDS):
        rows = [row async for row in collection.aggregate([*stages, {"$sort": {"_id": 1}}], allowDiskUse=True)]
    return [{"interval": int(row["_id"]), "count": int(row["count"])} for row in rows]


async def _by_application(collection: Collection, stages: list[Document]) -> dict[str, int]:
    with time_limit(REPORT_SECONDS):
        rows = [row async for row in collection.aggregate(stages, allowDiskUse=True)]
    return {str(row["_id"]): int(row["count"]) for row in rows if row["_id"] is not None}
