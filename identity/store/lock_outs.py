"""Failed login counters in Redis, and lock-outs of login ids without an account.

Every attempt is counted before its password is verified, so that concurrent attempts cannot exceed the limit. A counter
ends with its window, after a successful login, or when the account is locked. MongoDB stores the lock-outs of existing
users.
"""

from __future__ import annotations

import json

from identity.ids import TenantId, fingerprint, new_id
from identity.instants import Instant
from identity.store.redis import RedisStore

_GRACE_SECONDS = 10
"""How long a counter remains after the lock-out, for logins that read the user before it was locked."""
_MAX_TTL_MILLISECONDS = 31_536_000_000


class LockOuts(RedisStore):
    """The counters of all tenants. A `subject` is a user id, or a login id without an account."""

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
