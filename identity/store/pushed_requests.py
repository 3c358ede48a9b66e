"""Authorization requests that clients pushed, in Redis (RFC 9126): each for one client, for a while.

Tenant and client stand in the key beside the SHA-256 of the secret, so that nobody else's question can find, let alone
use up, what belongs to a client; and every step is one command.
"""

from __future__ import annotations

import json

from identity.call import Document
from identity.ids import ApplicationId, TenantId, fingerprint
from identity.store.redis import Redis


class PushedRequests:
    """The pushed requests of all tenants."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def save(
        self, tenant_id: TenantId, client_id: ApplicationId, secret: str, request: Document, ttl_seconds: int
    ) -> None:
        """Remember what a new secret stands for."""
        await self._redis.client.set(self._key(tenant_id, client_id, secret), json.dumps(request), ex=ttl_seconds)

    async def find(self, tenant_id: TenantId, client_id: ApplicationId, secret: str) -> Document | None:
        """What a secret of this client stands for; it may be asked again."""
        return _request(await self._redis.client.get(self._key(tenant_id, client_id, secret)))

    async def consume(self, tenant_id: TenantId, client_id: ApplicationId, secret: str) -> Document | None:
        """Use a secret up: of all callers one gets what it stands for."""
        return _request(await self._redis.client.getdel(self._key(tenant_id, client_id, secret)))

    async def delete(self, tenant_id: TenantId, client_id: ApplicationId, hashed_secret: str) -> None:
        """Delete what a secret with this fingerprint stands for, if it is there."""
        await self._redis.client.delete(self._hashed_key(tenant_id, client_id, hashed_secret))

    def _key(self, tenant_id: TenantId, client_id: ApplicationId, secret: str) -> str:
        return self._hashed_key(tenant_id, client_id, fingerprint(secret))

    def _hashed_key(self, tenant_id: TenantId, client_id: ApplicationId, hashed_secret: str) -> str:
        return self._redis.key("pushed-request", tenant_id, client_id, hashed_secret)


def _request(text: bytes | str | None) -> Document | None:
    request: Document | None = None if text is None else json.loads(text)
    return request
