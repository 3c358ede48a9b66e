"""Ids that count once, such as the `jti` of a client's assertion: Redis remembers those that were used.

The key holds the SHA-256 of the id, and lives for as long as what carries the id could be used again.
"""

from __future__ import annotations

from identity.ids import TenantId, fingerprint
from identity.store.redis import Redis


class OneTimeIds:
    """The used ids of all tenants, each of one `purpose` and of one `owner` (a client, a key)."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def mark_used(self, tenant_id: TenantId, purpose: str, owner: str, value: str, ttl_seconds: int) -> bool:
        """Use an id up: of all callers one is told True, whoever comes at the same time."""
        key = self._key(tenant_id, purpose, owner, value)
        return bool(await self._redis.client.set(key, "1", nx=True, ex=max(1, ttl_seconds)))

    async def is_used(self, tenant_id: TenantId, purpose: str, owner: str, value: str) -> bool:
        """Whether an id was used up before; only `use` decides who may use it."""
        return bool(await self._redis.client.exists(self._key(tenant_id, purpose, owner, value)))

    def _key(self, tenant_id: TenantId, purpose: str, owner: str, value: str) -> str:
        # Two fingerprints, so that no owner and value together look like another's.
        return self._redis.key("used", purpose, tenant_id, fingerprint(owner), fingerprint(value))
