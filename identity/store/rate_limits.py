"""Counters in Redis that say how often something may still be tried.

An attempt is taken before it is made and given back when it succeeded, so that a thousand attempts at once are no way
around the limit. Every counter ends with its period; nothing else resets it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from identity.ids import TenantId, fingerprint
from identity.store.redis import Redis

_CONSUME = """
local taken = redis.call('INCR', KEYS[1])
if taken == 1 then
  redis.call('EXPIRE', KEYS[1], ARGV[2])
end
if taken > tonumber(ARGV[1]) then
  redis.call('DECR', KEYS[1])
  return redis.call('TTL', KEYS[1])
end
return -1
"""

_REFUND = """
if tonumber(redis.call('GET', KEYS[1]) or '0') > 0 then
  redis.call('DECR', KEYS[1])
end
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """At most `attempts` in `period_seconds`, counted for one `subject` (an account, an address) of one `purpose`."""

    purpose: str
    subject: str
    attempts: int
    period_seconds: int


class RateLimits:
    """The counters of all tenants."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._consume = redis.client.register_script(_CONSUME)
        self._refund = redis.client.register_script(_REFUND)

    async def consume(self, tenant_id: TenantId, limits: Sequence[Limit]) -> int | None:
        """Take one attempt of each limit; or, when one has none left, of none, and answer the seconds to wait."""
        for index, limit in enumerate(limits):
            wait = await self._consume(keys=[self._key(tenant_id, limit)], args=[limit.attempts, limit.period_seconds])
            if wait >= 0:
                await self.refund(tenant_id, limits[:index])
                return max(1, int(wait))
        return None

    async def refund(self, tenant_id: TenantId, limits: Sequence[Limit]) -> None:
        """Give back what was taken for an attempt that succeeded."""
        for limit in limits:
            await self._refund(keys=[self._key(tenant_id, limit)])

    def _key(self, tenant_id: TenantId, limit: Limit) -> str:
        return self._redis.key("limit", limit.purpose, tenant_id, fingerprint(limit.subject))
