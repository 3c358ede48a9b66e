"""Login intents in Redis: logins that wait for a page of ours to be answered. Each is used up once.

The key holds the SHA-256 of a secret that only the browser's cookie holds.
"""

from __future__ import annotations

import json
from typing import Any

from identity.call import Document
from identity.ids import Secret, TenantId, fingerprint, new_secret
from identity.store.redis import Redis


class LoginIntents:
    """The login intents of all tenants."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def issue(self, tenant_id: TenantId, intent: Document, ttl_seconds: int) -> Secret:
        """Remember an intent for a while; answers the secret by which it is found."""
        secret = new_secret()
        await self._redis.client.set(self._key(tenant_id, secret), json.dumps(intent), ex=ttl_seconds)
        return secret

    async def find(self, tenant_id: TenantId, secret: str) -> Document | None:
        """What a secret of this tenant stands for."""
        return _read(await self._redis.client.get(self._key(tenant_id, secret)))

    async def consume(self, tenant_id: TenantId, secret: str) -> Document | None:
        """Use an intent up: of all callers one gets what it stands for."""
        return _read(await self._redis.client.getdel(self._key(tenant_id, secret)))

    async def replace(self, tenant_id: TenantId, secret: str, intent: Document) -> bool:
        """Let a secret stand for something else, for as long as it has left; False when it was used up meanwhile."""
        key, value = self._key(tenant_id, secret), json.dumps(intent)
        return bool(await self._redis.client.set(key, value, xx=True, keepttl=True))

    def _key(self, tenant_id: TenantId, secret: str) -> str:
        return self._redis.key("login-intent", tenant_id, fingerprint(secret))


def _read(text: Any) -> Document | None:
    return None if text is None else dict(json.loads(text))
