"""What is counted before an account is locked after failed logins, and the locks of accounts that do not exist.

Every attempt is counted before its password is compared, so that a thousand at once are no way around the limit. A
count ends with its window, with a success, or when the account is locked; MongoDB has the locks of those who exist.
"""

from __future__ import annotations

import json

from identity.ids import TenantId, fingerprint, new_id
from identity.instants import Instant
from identity.store.redis import Redis

_COUNT = """
local count = redis.call('INCR', KEYS[1])
if count == 1 then
  redis.call('EXPIRE', KEYS[1], ARGV[1])
end
return count
"""

_DISCOUNT = """
if tonumber(redis.call('GET', KEYS[1]) or '0') > 0 then
  redis.call('DECR', KEYS[1])
end
"""

_SETTLE_SECONDS = 10
"""How long a count outlives the lock it led to: for those who read the account before it was locked."""


class LockOuts:
    """The counts of all tenants; a `subject` is the id of a user, or a login id that is nobody's."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._count = redis.client.register_script(_COUNT)
        self._discount = redis.client.register_script(_DISCOUNT)

    async def count(self, tenant_id: TenantId, subject: str, window_seconds: int) -> int:
        """Count an attempt; answers how many there were in this window, with this one."""
        return int(await self._count(keys=[self._key(tenant_id, subject)], args=[window_seconds]))

    async def discount(self, tenant_id: TenantId, subject: str) -> None:
        """Count an attempt no more that came to nothing."""
        await self._discount(keys=[self._key(tenant_id, subject)])

    async def expire_soon(self, tenant_id: TenantId, subject: str) -> None:
        """The account is locked: from then on nothing is counted, but for those who do not know it yet."""
        await self._redis.client.expire(self._key(tenant_id, subject), _SETTLE_SECONDS)

    async def clear(self, tenant_id: TenantId, subject: str) -> None:
        """Forget the attempts on an account."""
        await self._redis.client.delete(self._key(tenant_id, subject))

    async def is_unknown_login_id_locked(self, tenant_id: TenantId, login_id: str) -> bool:
        """Whether a login id that is nobody's is locked."""
        return bool(await self._redis.client.exists(self._nobody(tenant_id, login_id)))

    async def lock_unknown_login_id(self, tenant_id: TenantId, login_id: str, expiry: int, now: Instant) -> str:
        """Lock a login id that is nobody's, or lock it longer; answers the id of the action that there is not."""
        key = self._nobody(tenant_id, login_id)
        found = await self._redis.client.get(key)
        action_id = json.loads(found) if found is not None else new_id()
        await self._redis.client.set(key, json.dumps(action_id), px=min(max(1, expiry - now), 31_536_000_000))
        return str(action_id)

    def _key(self, tenant_id: TenantId, subject: str) -> str:
        return self._redis.key("limit", "lock-out", tenant_id, fingerprint(subject))

    def _nobody(self, tenant_id: TenantId, login_id: str) -> str:
        return self._redis.key("lock-of-nobody", tenant_id, fingerprint(login_id))
