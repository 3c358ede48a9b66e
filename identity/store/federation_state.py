"""Browsers that are elsewhere in the middle of an authorization request, in Redis: each comes back once.

What is remembered belongs to one tenant and to one browser: without the browser's own secret an id is nothing, and
stays good for the browser that it belongs to. The key holds the SHA-256 of the id; what it stands for is sealed whole.
"""

from __future__ import annotations

import json
from typing import Any

from identity.call import Document
from identity.ids import TenantId, fingerprint
from identity.store.redis import Redis
from identity.store.vault import Vault

_CONSUME = """
if redis.call('HGET', KEYS[1], 'browser') ~= ARGV[1] then
  return false
end
local found = redis.call('HMGET', KEYS[1], 'tenant', 'detour')
redis.call('DEL', KEYS[1])
return found
"""


class FederationStates:
    """The detours of all tenants, of one kind: an id of one kind is nothing to another."""

    def __init__(self, redis: Redis, vault: Vault, kind: str) -> None:
        self._redis = redis
        self._vault = vault
        self._kind = kind
        self._consume = redis.client.register_script(_CONSUME)

    async def issue(
        self, tenant_id: TenantId, detour_id: str, browser: str, detour: Document, ttl_seconds: int
    ) -> None:
        """Remember a request under an id, for the browser with this secret, for a while."""
        key = self._key(detour_id)
        sealed = self._vault.seal(json.dumps(detour), self._context(detour_id))
        async with self._redis.client.pipeline(transaction=True) as pipeline:
            pipeline.hset(key, mapping={"tenant": tenant_id, "browser": fingerprint(browser), "detour": sealed})
            pipeline.expire(key, ttl_seconds)
            await self._redis.execute(pipeline)

    async def find_across_tenants(self, detour_id: str, browser: str) -> tuple[TenantId, Document] | None:
        """The tenant and what is remembered, for the browser that it belongs to: the id alone says whose it is."""
        fields: Any = self._redis.client.hmget(self._key(detour_id), ["tenant", "detour", "browser"])
        tenant_id, sealed, owner = await fields
        return None if sealed is None or owner != fingerprint(browser) else self._opened(detour_id, tenant_id, sealed)

    async def consume_across_tenants(self, detour_id: str, browser: str) -> tuple[TenantId, Document] | None:
        """As `find_across_tenants`, and use the id up: of all callers one gets an answer."""
        found: Any = await self._consume(keys=[self._key(detour_id)], args=[fingerprint(browser)])
        return None if found is None else self._opened(detour_id, *found)

    def _opened(self, detour_id: str, tenant_id: str, sealed: str) -> tuple[TenantId, Document]:
        return TenantId(tenant_id), json.loads(self._vault.unseal(sealed, self._context(detour_id)))

    def _key(self, detour_id: str) -> str:
        return self._redis.key("detour", self._kind, fingerprint(detour_id))

    def _context(self, detour_id: str) -> str:
        return f"detours.{self._kind}.{fingerprint(detour_id)}"
