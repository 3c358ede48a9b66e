"""Activity of users, for reports and the console: counts of logins and registrations, and the newest entries."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from identity.call import Document
from identity.ids import TenantId
from identity.instants import Instant, as_datetime
from identity.store.login_records import id_of
from identity.store.mongo import Collection, Database, tenant_filter
from identity.store.redis import Redis, RedisStore
from identity.store.store_circuit_breaker import time_limit

REPORT_SECONDS = 20.0
"""The time limit of a report."""

_TTL_SECONDS: Final = 400 * 86_400
_WRITE_SECONDS: Final = 0.1
_ALL: Final = "all"
"""Stands for all tenants in a key."""


Unit = Literal["hour", "day", "month"]


@dataclasses.dataclass(frozen=True, slots=True)
class ReportRange:
    """From `start` until before `end`, in units since `epoch`, the beginning of 1970 in the time zone `zone`."""

    start: Instant
    end: Instant
    unit: Unit
    epoch: Instant
    zone: str

    def interval(self, instant: str) -> Document:
        """The expression for the number of the interval that contains the instant of a member."""
        dates = {"startDate": as_datetime(self.epoch), "endDate": {"$toDate": instant}}
        return {"$dateDiff": {**dates, "unit": self.unit, "timezone": self.zone}}


class ReportCounts:
    """Aggregates the collections `login_records` and `users`.

    Reports are computed on request within a time limit, so that a report may fail, but never delays logins for long.
    """

    def __init__(self, database: Database) -> None:
        self._logins: Collection = database.collection("login_records")
        self._users: Collection = database.collection("users")

    async def logins(
        self, tenant_id: TenantId | None, report_range: ReportRange, where: Mapping[str, Any], *, users: bool = False
    ) -> list[Document]:
        """The number of logins in each interval or, with `users`, of distinct users who logged in."""
        ids = {"_id": {"$gte": id_of(report_range.start), "$lt": id_of(report_range.end)}}
        group: Document = {"interval": report_range.interval("$instant"), **({"userId": "$userId"} if users else {})}
        stages: list[Document] = [
            {"$match": {**tenant_filter(tenant_id), **where, **ids}},
            {"$group": {"_id": group, "count": {"$sum": 1}}},
            {"$group": {"_id": "$_id.interval", "count": {"$sum": 1 if users else "$count"}}},
        ]
        return await _intervals(self._logins, stages)

    async def registrations(
        self, tenant_id: TenantId | None, report_range: ReportRange, application_id: str | None
    ) -> list[Document]:
        """The number of existing registrations that were created in each interval."""
        created = {"insertInstant": {"$gte": report_range.start, "$lt": report_range.end}}
        named = {} if application_id is None else {"applicationId": application_id}
        stages: list[Document] = [
            {"$match": {**tenant_filter(tenant_id), "registrations": {"$elemMatch": {**created, **named}}}},
            {"$unwind": "$registrations"},
            {"$match": {f"registrations.{name}": value for name, value in {**created, **named}.items()}},
            {"$group": {"_id": report_range.interval("$registrations.insertInstant"), "count": {"$sum": 1}}},
        ]
        return await _intervals(self._users, stages)

    async def users(self, tenant_id: TenantId | None) -> int:
        """The number of users."""
        with time_limit(REPORT_SECONDS):
            return await self._users.count_documents(tenant_filter(tenant_id))

    async def logins_by_application(self, tenant_id: TenantId | None) -> dict[str, int]:
        """The number of login records for each application."""
        stages = [{"$match": tenant_filter(tenant_id)}, {"$group": {"_id": "$applicationId", "count": {"$sum": 1}}}]
        return await _by_application(self._logins, stages)

    async def registrations_by_application(self, tenant_id: TenantId | None) -> dict[str, int]:
        """The number of registrations for each application."""
        stages: list[Document] = [
            {"$match": tenant_filter(tenant_id)},
            {"$project": {"registrations.applicationId": 1}},
            {"$unwind": "$registrations"},
            {"$group": {"_id": "$registrations.applicationId", "count": {"$sum": 1}}},
        ]
        return await _by_application(self._users, stages)


async def _aggregate(collection: Collection, stages: list[Document]) -> list[Document]:
    with time_limit(REPORT_SECONDS):
        return [row async for row in collection.aggregate(stages, allowDiskUse=True)]


async def _intervals(collection: Collection, stages: list[Document]) -> list[Document]:
    rows = await _aggregate(collection, [*stages, {"$sort": {"_id": 1}}])
    return [{"interval": int(row["_id"]), "count": int(row["count"])} for row in rows]


async def _by_application(collection: Collection, stages: list[Document]) -> dict[str, int]:
    rows = await _aggregate(collection, stages)
    return {str(row["_id"]): int(row["count"]) for row in rows if row["_id"] is not None}


class ActivityCounts(RedisStore):
    """Counts of activities by day and tenant, such as failed logins and tokens by grant: small hashes in Redis.

    They serve charts: an outage of Redis loses counts and delays nothing.
    """

    def __init__(self, redis: Redis) -> None:
        super().__init__(redis)
        self._pending: dict[str, collections.Counter[str]] = {}

    async def add(self, tenant_id: TenantId, day: str, name: str) -> None:
        """Add one to the count of an activity on a day (`2026-01-31`)."""
        self.note(tenant_id, day, name)
        await self._write()

    def note(self, tenant_id: TenantId, day: str, name: str) -> bool:
        """Add one in memory; True for the first since the last `write_soon`, which the caller then has to begin."""
        is_first = not self._pending
        for owner in (tenant_id, _ALL):
            self._pending.setdefault(self._key(owner, day), collections.Counter())[name] += 1
        return is_first

    async def write_soon(self) -> None:
        """Write the activities that are noted within a moment together."""
        await asyncio.sleep(_WRITE_SECONDS)
        await self._write()

    async def _write(self) -> None:
        pending, self._pending = self._pending, {}
        increments = (
            self._redis.run("hash_increment", [key], _TTL_SECONDS, *(part for item in added.items() for part in item))
            for key, added in pending.items()
        )
        await asyncio.gather(*increments)

    async def by_day(self, tenant_id: TenantId | None, days: Sequence[str]) -> list[dict[str, int]]:
        """Return the counts of each day by name, of one tenant or of all."""
        await self._write()
        keys = [self._key(tenant_id or _ALL, day) for day in days]
        found = await asyncio.gather(*(self._redis.client.hgetall(key) for key in keys))
        return [{str(name): int(count) for name, count in counts.items()} for counts in found]

    def _key(self, owner: str, day: str) -> str:
        return self._redis.key("activity", owner, day)


class RecentEntries(RedisStore):
    """The newest entries of one kind about each subject, such as the failed logins of a user, in Redis.

    There are at most `maximum` of each subject, for `ttl_seconds` after the last.
    """

    def __init__(self, redis: Redis, kind: str, *, maximum: int, ttl_seconds: int) -> None:
        super().__init__(redis)
        self._kind = kind
        self._maximum = maximum
        self._ttl_seconds = ttl_seconds

    async def add(self, tenant_id: TenantId, subject: str, entry: Document) -> None:
        """Add an entry, and remove the oldest ones beyond the maximum."""
        key = self._key(tenant_id, subject)
        await self._redis.run("list_push", [key], json.dumps(entry), self._maximum, self._ttl_seconds)

    async def find(self, tenant_id: TenantId, subject: str) -> list[Document]:
        """Return the entries, newest first."""
        found = await self._redis.client.lrange(self._key(tenant_id, subject), 0, -1)
        return [json.loads(text) for text in found]

    async def remove(self, tenant_id: TenantId, subject: str) -> None:
        """Remove the entries of a subject."""
        await self._redis.client.delete(self._key(tenant_id, subject))

    def _key(self, tenant_id: TenantId, subject: str) -> str:
        return self._redis.key(self._kind, tenant_id, subject)
