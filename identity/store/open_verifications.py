"""Verifications that are open, in Redis: which id and code a user was given last, for callers with an API key.

Everything is sealed: whoever reads it could verify in the user's place. The key names the owner, who is no secret. It
says only what was given; whether an id still counts, its ticket says.
"""

from __future__ import annotations

import json
from typing import Any

from identity.call import Document
from identity.ids import TenantId
from identity.store.redis import Redis
from identity.store.vault import Vault


class OpenVerifications:
    """The open verifications of all tenants."""

    def __init__(self, redis: Redis, vault: Vault) -> None:
        self._redis = redis
        self._vault = vault

    async def save(self, tenant_id: TenantId, kind: str, owner: str, document: Document, ttl_seconds: int) -> None:
        """Remember what an owner was given, in place of what it was given before."""
        key = self._key(tenant_id, kind, owner)
        await self._redis.client.set(key, self._vault.seal(json.dumps(document), key), ex=ttl_seconds)

    async def find(self, tenant_id: TenantId, kind: str, owner: str) -> Document | None:
        """What an owner was given last."""
        key = self._key(tenant_id, kind, owner)
        sealed: Any = await self._redis.client.get(key)
        if sealed is None:
            return None
        found: Document = json.loads(self._vault.unseal(sealed, key))
        return found

    async def delete(self, tenant_id: TenantId, kind: str, owner: str) -> None:
        """Forget what an owner was given."""
        await self._redis.client.delete(self._key(tenant_id, kind, owner))

    def _key(self, tenant_id: TenantId, kind: str, owner: str) -> str:
        return self._redis.key("open-verification", kind, tenant_id, owner)
