"""Links that wait to be completed, in Redis: each is given out once, and only to its own tenant.

The key holds the SHA-256 of the id. What it stands for is sealed whole, because a token of the provider may be in it.
"""

from __future__ import annotations

import json
from typing import Any

from identity.call import Document
from identity.ids import Secret, TenantId, fingerprint, new_secret
from identity.store.redis import Redis
from identity.store.vault import Vault

_CONSUME = """
if redis.call('HGET', KEYS[1], 'tenant') ~= ARGV[1] then
  return false
end
local link = redis.call('HGET', KEYS[1], 'link')
redis.call('DEL', KEYS[1])
return link
"""


class PendingLinks:
    """The pending links of all tenants."""

    def __init__(self, redis: Redis, vault: Vault) -> None:
        self._redis = redis
        self._vault = vault
        self._consume = redis.client.register_script(_CONSUME)

    async def issue(self, tenant_id: TenantId, link: Document, ttl_seconds: int) -> Secret:
        """Remember a link for a while; answers the id by which it can be completed."""
        pending_id = new_secret()
        key = self._key(pending_id)
        sealed = self._vault.seal(json.dumps(link), self._context(pending_id))
        async with self._redis.client.pipeline(transaction=True) as pipeline:
            pipeline.hset(key, mapping={"tenant": tenant_id, "link": sealed})
            pipeline.expire(key, ttl_seconds)
            await self._redis.execute(pipeline)
        return pending_id

    async def find(self, tenant_id: TenantId, pending_id: str) -> Document | None:
        """What an id of this tenant stands for."""
        found = await self.find_across_tenants(pending_id)
        return None if found is None or found[0] != tenant_id else found[1]

    async def find_across_tenants(self, pending_id: str) -> tuple[TenantId, Document] | None:
        """The tenant of an id, and what it stands for: the id alone says whose it is."""
        fields: Any = self._redis.client.hmget(self._key(pending_id), ["tenant", "link"])
        tenant_id, sealed = await fields
        return None if sealed is None else (TenantId(tenant_id), self._opened(pending_id, sealed))

    async def consume(self, tenant_id: TenantId, pending_id: str) -> Document | None:
        """Use an id up: of all callers one gets what it stands for."""
        sealed = await self._consume(keys=[self._key(pending_id)], args=[tenant_id])
        return None if sealed is None else self._opened(pending_id, sealed)

    def _opened(self, pending_id: str, sealed: str) -> Document:
        opened: Document = json.loads(self._vault.unseal(sealed, self._context(pending_id)))
        return opened

    def _key(self, pending_id: str) -> str:
        return self._redis.key("pending-link", fingerprint(pending_id))

    def _context(self, pending_id: str) -> str:
        return f"pending_links.{fingerprint(pending_id)}"
