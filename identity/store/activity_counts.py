"""Counts of activities by day and tenant, such as failed logins and tokens by grant: small hashes in Redis.

They serve charts: an outage of Redis loses counts and delays nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from identity.ids import TenantId
from identity.store.redis import RedisStore

_TTL_SECONDS: Final = 400 * 86_400
_ALL: Final = "all"
"""Stands for all tenants in a key."""


class ActivityCounts(RedisStore):
    """The counts of all tenants."""

    async def add(self, tenant_id: TenantId, day: str, name: str) -> None:
        """Add one to the count of an activity on a day (`2026-01-31`)."""
        keys = [self._key(owner, day) for owner in (tenant_id, _ALL)]
        await asyncio.gather(*(self._redis.run("hash_increment", [key], name, _TTL_SECONDS) for key in keys))

    async def by_day(self, tenant_id: TenantId | None, days: Sequence[str]) -> list[dict[str, int]]:
        """Return the counts of each day by name, of one tenant or of all."""
        keys = [self._key(tenant_id or _ALL, day) for day in days]
        found = await asyncio.gather(*(self._redis.client.hgetall(key) for key in keys))
        return [{str(name): int(count) for name, count in counts.items()} for counts in found]

    def _key(self, owner: str, day: str) -> str:
        return self._redis.key("activity", owner, day)
