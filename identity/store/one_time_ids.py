"""Ids that are accepted once, such as the `jti` of a client assertion, with a record of the used ones in Redis.

The key contains the SHA-256 of the id. It expires once the object that carries the id is no longer valid.
"""

from __future__ import annotations

from identity.ids import TenantId, fingerprint
from identity.store.redis import RedisStore


class OneTimeIds(RedisStore):
    """The used ids of all tenants by `purpose` and `owner` (a client or a key)."""

    async def mark_used(self, tenant_id: TenantId, purpose: str, owner: str, value: str, ttl_seconds: int) -> bool:
        """Atomically mark an id as used; True for the first caller only."""
        key = self._key(tenant_id, purpose, owner, value)
        return bool(await self._redis.client.set(key, "1", nx=True, ex=max(1, ttl_seconds)))

    async def is_used(self, tenant_id: TenantId, purpose: str, owner: str, value: str) -> bool:
        """Whether an id has been used; `mark_used` alone decides which caller may use it."""
        return bool(await self._redis.client.exists(self._key(tenant_id, purpose, owner, value)))

    def _key(self, tenant_id: TenantId, purpose: str, owner: str, value: str) -> str:
        # Two fingerprints, so that no other combination of owner and value results in the same key.
        return self._redis.key("used", purpose, tenant_id, fingerprint(owner), fingerprint(value))
