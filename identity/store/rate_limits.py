"""Rate limits: counters of attempts in Redis.

An attempt is counted before it is made and refunded if it succeeds, so that concurrent attempts cannot exceed the
limit. A counter ends with its period and is never reset otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Sequence

from identity.errors import Unavailable
from identity.ids import TenantId, fingerprint
from identity.store.redis import RedisStore


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """At most `attempts` in `period_seconds`, for one `subject` (an account, an address) and `purpose`."""

    purpose: str
    subject: str
    attempts: int
    period_seconds: int


class RateLimits(RedisStore):
    """The counters of all tenants."""

    async def consume(self, tenant_id: TenantId, limits: Sequence[Limit]) -> int | None:
        """Count an attempt against every limit. If one is exhausted, count none and return the seconds to wait."""
        for index, limit in enumerate(limits):
            keys = [self._key(tenant_id, limit)]
            wait = await self._redis.run("rate_limit_consume", keys, limit.attempts, limit.period_seconds)
            if wait >= 0:
                await self.refund(tenant_id, limits[:index])
                return max(1, int(wait))
        return None

    async def count(self, tenant_id: TenantId, limits: Sequence[Limit], message: str) -> None:
        """Count an attempt. Raises Unavailable, with the message and the time to wait, if a limit is exhausted."""
        wait_seconds = await self.consume(tenant_id, limits)
        if wait_seconds is not None:
            raise Unavailable(f"{message} Try again in {wait_seconds} seconds.")

    @contextlib.asynccontextmanager
    async def attempt(self, tenant_id: TenantId, limits: Sequence[Limit], message: str) -> AsyncIterator[None]:
        """Count the block as an attempt, which is refunded unless it raises. Raises Unavailable as `count` does."""
        await self.count(tenant_id, limits, message)
        yield
        await self.refund(tenant_id, limits)

    async def refund(self, tenant_id: TenantId, limits: Sequence[Limit]) -> None:
        """Subtract an attempt that succeeded."""
        keys = [self._key(tenant_id, limit) for limit in limits]
        await asyncio.gather(*(self._redis.run("counter_decrement", [key]) for key in keys))

    def _key(self, tenant_id: TenantId, limit: Limit) -> str:
        return self._redis.key("limit", limit.purpose, tenant_id, fingerprint(limit.subject))
