"""DPoP proofs that were used, in Redis: each counts once (RFC 9449 section 11.1)."""

from __future__ import annotations

from identity.ids import TenantId, fingerprint
from identity.store.redis import Redis


class DpopProofs:
    """The used proofs of all tenants."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def use(self, tenant_id: TenantId, thumbprint: str, token_id: str, ttl_seconds: int) -> bool:
        """Note the use of a proof, by its key and its `jti`; of all callers with one proof, one is told True."""
        key = self._redis.key("dpop-proof", tenant_id, fingerprint(f"{thumbprint} {token_id}"))
        return bool(await self._redis.client.set(key, "", ex=ttl_seconds, nx=True))
