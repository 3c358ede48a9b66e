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

_TTL_SECONDS: Final = 400 * 86_400
_WRITE_SECONDS: Final = 0.1
_ALL: Final = "all"
"""Stands for all tenants in a key."""


class ActivityCounts(RedisStore):
    """The counts of all tenants."""

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
