"""Rate limits and lock-outs: counters of attempts in Redis."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import AsyncIterator, Sequence
from typing import Final

from cachetools import LRUCache

from identity.errors import Unavailable
from identity.ids import TenantId, fingerprint, new_id
from identity.instants import Instant
from identity.store.redis import Redis, RedisStore

DIFFERENT_KEYS: Final = 100
"""The maximum number of distinct unknown keys of a network per window."""
WINDOW_SECONDS: Final = 900
_MAX_ACCEPTED: Final = 10_000

_GRACE_SECONDS = 10
"""How long a counter remains after the lock-out, for logins that read the user before it was locked."""
_MAX_TTL_MILLISECONDS = 31_536_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """At most `attempts` in `period_seconds`, for one `subject` (an account, an address) and `purpose`."""

    purpose: str
    subject: str
    attempts: int
    period_seconds: int


class RateLimits(RedisStore):
    """The counters of all tenants.

    An attempt is counted before it is made and refunded if it succeeds, so that concurrent attempts cannot exceed the
    limit. A counter ends with its period and is never reset otherwise.
    """

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
            raise Unavailable.for_seconds(wait_seconds, message)

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


class FailedApiKeys(RedisStore):
    """The unknown API keys of every network, and the valid keys accepted from each network.

    Distinct values are counted, so that a client with an outdated key uses only one attempt, however often it calls.
    Only fingerprints are stored, for the duration of the window.
    """

    def __init__(self, redis: Redis) -> None:
        super().__init__(redis)
        self._accepted: LRUCache[tuple[str, str], bool] = LRUCache(_MAX_ACCEPTED)

    async def add(self, network: str, key_fingerprint: str) -> int | None:
        """Count an unknown key; returns the seconds to wait if the limit of its network is reached."""
        args = (fingerprint(key_fingerprint), DIFFERENT_KEYS, WINDOW_SECONDS)
        return _seconds(await self._redis.run("failed_key_add", [self._key(network)], *args))

    async def wait_seconds(self, network: str, key_id: str) -> int | None:
        """The seconds until a valid key of guessable length is accepted from a network; None if it is accepted now.

        A key that this process has accepted from the network before remains accepted.
        """
        if self._accepted.get((network, key_id)):
            return None
        wait = _seconds(await self._redis.run("failed_key_wait", [self._key(network)], DIFFERENT_KEYS))
        if wait is None:
            self._accepted[network, key_id] = True
        return wait

    def _key(self, network: str) -> str:
        return self._redis.key("failed-api-keys", fingerprint(network))


def _seconds(wait: int) -> int | None:
    return None if wait < 0 else max(1, int(wait))


class LockOuts(RedisStore):
    """Failed login counters, and lock-outs of login ids without an account; MongoDB stores those of existing users.

    Every attempt is counted before its password is verified, so that concurrent attempts cannot exceed the limit. A
    counter ends with its window, after a successful login, or when the account is locked. A `subject` is a user id, or
    a login id without an account.
    """

    async def count(self, tenant_id: TenantId, subject: str, window_seconds: int) -> int:
        """Count an attempt and return the number of attempts in this window."""
        return int(await self._redis.run("counter_increment", [self._key(tenant_id, subject)], window_seconds))

    async def discount(self, tenant_id: TenantId, subject: str) -> None:
        """Subtract an attempt that was not completed."""
        await self._redis.run("counter_decrement", [self._key(tenant_id, subject)])

    async def expire_soon(self, tenant_id: TenantId, subject: str) -> None:
        """Let the counter of a locked account expire after a grace period."""
        await self._redis.client.expire(self._key(tenant_id, subject), _GRACE_SECONDS)

    async def clear(self, tenant_id: TenantId, subject: str) -> None:
        """Delete the counter of an account."""
        await self._redis.client.delete(self._key(tenant_id, subject))

    async def is_unknown_login_id_locked(self, tenant_id: TenantId, login_id: str) -> bool:
        """Whether a login id without an account is locked."""
        return bool(await self._redis.client.exists(self._lock_key(tenant_id, login_id)))

    async def lock_unknown_login_id(self, tenant_id: TenantId, login_id: str, expiry: int, now: Instant) -> str:
        """Lock a login id without an account, or extend its lock; returns the id of the pretended user action."""
        key = self._lock_key(tenant_id, login_id)
        found = await self._redis.client.get(key)
        action_id = json.loads(found) if found is not None else new_id()
        ttl_milliseconds = min(max(1, expiry - now), _MAX_TTL_MILLISECONDS)
        await self._redis.client.set(key, json.dumps(action_id), px=ttl_milliseconds)
        return str(action_id)

    def _key(self, tenant_id: TenantId, subject: str) -> str:
        return self._redis.key("limit", "lock-out", tenant_id, fingerprint(subject))

    def _lock_key(self, tenant_id: TenantId, login_id: str) -> str:
        return self._redis.key("lock-of-nobody", tenant_id, fingerprint(login_id))
