"""The state of authorization requests while the browser is at another party, in Redis. Each is consumed once.

A state belongs to one tenant and one browser: a caller without the browser's secret can neither read nor consume it.
The key contains the SHA-256 of the state id; the value is encrypted.
"""

from __future__ import annotations

from typing import Any

from identity.call import Document
from identity.ids import TenantId, fingerprint
from identity.store.redis import Redis, SealedRedisStore
from identity.store.vault import Vault


class FederationStates(SealedRedisStore):
    """The states of all tenants of one kind; ids of different kinds are not interchangeable."""

    def __init__(self, redis: Redis, vault: Vault, kind: str) -> None:
        super().__init__(redis, vault)
        self._kind = kind

    async def issue(
        self, tenant_id: TenantId, state_id: str, browser_secret: str, state: Document, ttl_seconds: int
    ) -> None:
        """Store a state for the browser with this secret."""
        sealed = self._seal(state, self._context(state_id))
        fields = {"tenant": tenant_id, "browser": fingerprint(browser_secret), "detour": sealed}
        await self._redis.set_hash(self._key(state_id), fields, ttl_seconds)

    async def find_across_tenants(self, state_id: str, browser_secret: str) -> tuple[TenantId, Document] | None:
        """The tenant and the state, if it belongs to the browser; the id determines the tenant."""
        fields: Any = self._redis.client.hmget(self._key(state_id), ["tenant", "detour", "browser"])
        tenant_id, sealed, owner = await fields
        is_owner = sealed is not None and owner == fingerprint(browser_secret)
        return self._opened(state_id, tenant_id, sealed) if is_owner else None

    async def consume_across_tenants(self, state_id: str, browser_secret: str) -> tuple[TenantId, Document] | None:
        """As `find_across_tenants`, and delete the state; only one of several callers receives it."""
        found: Any = await self._redis.run(
            "federation_state_consume", [self._key(state_id)], fingerprint(browser_secret)
        )
        return None if found is None else self._opened(state_id, *found)

    def _opened(self, state_id: str, tenant_id: str, sealed: str) -> tuple[TenantId, Document]:
        return TenantId(tenant_id), self._unseal(sealed, self._context(state_id))

    def _key(self, state_id: str) -> str:
        return self._redis.key("detour", self._kind, fingerprint(state_id))

    def _context(self, state_id: str) -> str:
        return f"detours.{self._kind}.{fingerprint(state_id)}"
