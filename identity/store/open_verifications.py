"""The latest verification id and code of each owner, in Redis, for callers with an API key.

Values are encrypted, because they allow verification in the user's place. The key names the owner, which is not
secret. An entry does not imply that its id is still valid: the one-time token decides.
"""

from __future__ import annotations

from typing import Any

from identity.call import Document
from identity.ids import TenantId
from identity.store.redis import SealedRedisStore


class OpenVerifications(SealedRedisStore):
    """The open verifications of all tenants."""

    async def save(self, tenant_id: TenantId, kind: str, owner: str, document: Document, ttl_seconds: int) -> None:
        """Store the latest verification of an owner, replacing the previous one."""
        key = self._key(tenant_id, kind, owner)
        await self._redis.client.set(key, self._seal(document, key), ex=ttl_seconds)

    async def find(self, tenant_id: TenantId, kind: str, owner: str) -> Document | None:
        """The latest verification of an owner."""
        key = self._key(tenant_id, kind, owner)
        sealed: Any = await self._redis.client.get(key)
        return None if sealed is None else self._unseal(sealed, key)

    async def delete(self, tenant_id: TenantId, kind: str, owner: str) -> None:
        """Delete the verification of an owner."""
        await self._redis.client.delete(self._key(tenant_id, kind, owner))

    def _key(self, tenant_id: TenantId, kind: str, owner: str) -> str:
        return self._redis.key("open-verification", kind, tenant_id, owner)
