"""Identity provider links to be completed by a login, in Redis. Each is consumed once, by its own tenant.

The key contains the SHA-256 of the id. The value is encrypted, because it may contain a token of the provider.
"""

from __future__ import annotations

from typing import Any

from identity.call import Document
from identity.ids import Secret, TenantId, fingerprint, new_secret
from identity.store.redis import SealedRedisStore


class PendingLinks(SealedRedisStore):
    """The pending links of all tenants."""

    async def issue(self, tenant_id: TenantId, link: Document, ttl_seconds: int) -> Secret:
        """Store a link and return the id that completes it."""
        pending_id = new_secret()
        sealed = self._seal(link, _context(pending_id))
        await self._redis.set_hash(self._key(pending_id), {"tenant": tenant_id, "link": sealed}, ttl_seconds)
        return pending_id

    async def find(self, tenant_id: TenantId, pending_id: str) -> Document | None:
        """The link with this id, if it belongs to the tenant."""
        found = await self.find_across_tenants(pending_id)
        return None if found is None or found[0] != tenant_id else found[1]

    async def find_across_tenants(self, pending_id: str) -> tuple[TenantId, Document] | None:
        """The tenant and the link; the id determines the tenant."""
        fields: Any = self._redis.client.hmget(self._key(pending_id), ["tenant", "link"])
        tenant_id, sealed = await fields
        return None if sealed is None else (TenantId(tenant_id), self._unseal(sealed, _context(pending_id)))

    async def consume(self, tenant_id: TenantId, pending_id: str) -> Document | None:
        """Atomically read and delete a link; only one of several callers receives it."""
        sealed = await self._redis.run("pending_link_consume", [self._key(pending_id)], tenant_id)
        return None if sealed is None else self._unseal(sealed, _context(pending_id))

    def _key(self, pending_id: str) -> str:
        return self._redis.key("pending-link", fingerprint(pending_id))


def _context(pending_id: str) -> str:
    return f"pending_links.{fingerprint(pending_id)}"
