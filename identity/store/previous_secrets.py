"""The previous secret of a client, which is accepted for a while after a rotation: a hash in Redis that expires."""

from __future__ import annotations

import hashlib

from identity.ids import TenantId, same_secret
from identity.store.redis import RedisStore


class PreviousSecrets(RedisStore):
    """The previous secrets of the clients of all tenants, one for each client."""

    async def keep(self, tenant_id: TenantId, client_id: str, secret: str, ttl_seconds: int) -> None:
        """Accept a secret for a while; it replaces the one before it."""
        await self._redis.client.set(self._key(tenant_id, client_id), _hash(secret), ex=ttl_seconds)

    async def is_accepted(self, tenant_id: TenantId, client_id: str, secret: str) -> bool:
        """Whether a secret is the previous one, within its time."""
        stored = await self._redis.client.get(self._key(tenant_id, client_id))
        return stored is not None and same_secret(str(stored), _hash(secret))

    async def remove(self, tenant_id: TenantId, client_id: str) -> None:
        """End the acceptance of the previous secret."""
        await self._redis.client.delete(self._key(tenant_id, client_id))

    def _key(self, tenant_id: TenantId, client_id: str) -> str:
        return self._redis.key("previous-secret", tenant_id, client_id)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
