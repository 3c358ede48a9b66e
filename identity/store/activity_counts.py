"""Counts of activities by day and tenant, such as failed logins and tokens by grant: small hashes in Redis.

They serve charts: an outage of Redis loses counts and delays nothing.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Sequence
from typing import Final

from identity.ids import TenantId
from identity.store.redis import Redis, RedisStore
from identity.store.request_coalescing import RequestCoalescer

_TTL_SECONDS: Final = 400 * 86_400
_ALL: Final = "all"
"""Stands for all tenants in a key."""


class ActivityCounts(RedisStore):
    """The counts of all tenants."""

    def __init__(self, redis: Redis) -> None:
        super().__init__(redis)
        self._increments: RequestCoalescer[tuple[TenantId, str, str], None] = RequestCoalescer(self._increment)

    async def add(self, tenant_id: TenantId, day: str, name: str) -> None:
        """Add one to the count of an activity on a day (`2026-01-31`). Concurrent callers share the commands."""
        await self._increments.submit((tenant_id, day, name))

    async def _increment(self, activities: Sequence[tuple[TenantId, str, str]]) -> Sequence[None]:
        counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        for tenant_id, day, name in activities:
            for owner in (tenant_id, _ALL):
                counts[self._key(owner, day)][name] += 1
        increments = (
            self._redis.run("hash_increment", [key], _TTL_SECONDS, *(part for item in added.items() for part in item))
            for key, added in counts.items()
        )
        await asyncio.gather(*increments)
        return [None] * len(activities)

    async def by_day(self, tenant_id: TenantId | None, days: Sequence[str]) -> list[dict[str, int]]:
        """Return the counts of each day by name, of one tenant or of all."""
        keys = [self._key(tenant_id or _ALL, day) for day in days]
        found = await asyncio.gather(*(self._redis.client.hgetall(key) for key in keys))
        return [{str(name): int(count) for name, count in counts.items()} for counts in found]

    def _key(self, owner: str, day: str) -> str:
        return self._redis.key("activity", owner, day)
