"""Access tokens that were revoked before their end: a deny list in Redis, by token id and by refresh token id.

An access token lives outside of every store, so what is kept is its revocation, for as long as it could be used.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Final

from identity.ids import TenantId
from identity.store.redis import Redis

_STEP: Final = 1000


class Revocations:
    """The deny list of all tenants."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def revoke(self, tenant_id: TenantId, token_ids: Iterable[str], ttl_seconds: int) -> None:
        """Deny these token ids (`jti`, or `sid` for all that came of a refresh token) for `ttl_seconds`.

        In steps: an application may have given out very many.
        """
        left = iter(token_ids)
        while step := list(itertools.islice(left, _STEP)):
            async with self._redis.client.pipeline(transaction=False) as pipeline:
                for token_id in step:
                    pipeline.set(self._key(tenant_id, token_id), "1", ex=max(1, ttl_seconds))
                await self._redis.execute(pipeline)

    async def is_revoked(self, tenant_id: TenantId, token_ids: Iterable[str]) -> bool:
        """Whether one of these ids is denied: one round trip."""
        keys = [self._key(tenant_id, token_id) for token_id in token_ids]
        return bool(keys) and await self._redis.client.exists(*keys) > 0

    def _key(self, tenant_id: TenantId, token_id: str) -> str:
        # Braces: in a cluster the keys of one question have to be on one node.
        return self._redis.key("revoked", f"{{{tenant_id}}}", token_id)
