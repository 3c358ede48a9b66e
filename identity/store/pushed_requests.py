"""Pushed authorization requests (RFC 9126), in Redis.

The key contains the tenant, the client and the SHA-256 of the secret part of the `request_uri`, so that no other client
can read or consume a request. Each step is one command.
"""

from __future__ import annotations

import json

from identity.call import Document
from identity.ids import ApplicationId, TenantId, fingerprint
from identity.store.redis import RedisStore, parse_document


class PushedRequests(RedisStore):
    """The pushed requests of all tenants."""

    async def save(
        self, tenant_id: TenantId, client_id: ApplicationId, secret: str, request: Document, ttl_seconds: int
    ) -> None:
        """Store a request under a new secret."""
        await self._redis.client.set(self._key(tenant_id, client_id, secret), json.dumps(request), ex=ttl_seconds)

    async def find(self, tenant_id: TenantId, client_id: ApplicationId, secret: str) -> Document | None:
        """The request with this secret; it remains stored."""
        return parse_document(await self._redis.client.get(self._key(tenant_id, client_id, secret)))

    async def consume(self, tenant_id: TenantId, client_id: ApplicationId, secret: str) -> Document | None:
        """Atomically read and delete a request; only one of several callers receives it."""
        return parse_document(await self._redis.client.getdel(self._key(tenant_id, client_id, secret)))

    async def delete(self, tenant_id: TenantId, client_id: ApplicationId, hashed_secret: str) -> None:
        """Delete the request whose secret has this SHA-256, if it exists."""
        await self._redis.client.delete(self._hashed_key(tenant_id, client_id, hashed_secret))

    def _key(self, tenant_id: TenantId, client_id: ApplicationId, secret: str) -> str:
        return self._hashed_key(tenant_id, client_id, fingerprint(secret))

    def _hashed_key(self, tenant_id: TenantId, client_id: ApplicationId, hashed_secret: str) -> str:
        return self._redis.key("pushed-request", tenant_id, client_id, hashed_secret)
