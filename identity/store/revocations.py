"""The deny list of access tokens that were revoked before they expired, in Redis.

Access tokens are stored nowhere, so a revocation is stored instead, until the token would have expired.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable
from typing import Final

from identity.ids import TenantId
from identity.store.redis import RedisStore

_BATCH_SIZE: Final = 1000


class Revocations(RedisStore):
    """The revoked token ids of all tenants."""

    async def revoke(self, tenant_id: TenantId, token_ids: Iterable[str], ttl_seconds: int) -> None:
        """Deny these ids for `ttl_seconds`: a `jti`, or the `sid` of all tokens issued with a refresh token.

        Written in batches, because an application may have very many tokens.
        """
        remaining = iter(token_ids)
        while batch := list(itertools.islice(remaining, _BATCH_SIZE)):
            keys = [self._key(tenant_id, token_id) for token_id in batch]
            # The client sends these in one round trip.
            await asyncio.gather(*(self._redis.client.set(key, "1", ex=max(1, ttl_seconds)) for key in keys))

    async def is_revoked(self, tenant_id: TenantId, token_ids: Iterable[str]) -> bool:
        """Whether one of these ids is revoked, in one round trip."""
        keys = [self._key(tenant_id, token_id) for token_id in token_ids]
        return bool(keys) and await self._redis.client.exists(*keys) > 0

    def _key(self, tenant_id: TenantId, token_id: str) -> str:
        # The hash tag in braces puts all keys of a tenant on one cluster node, as EXISTS requires.
        return self._redis.key("revoked", f"{{{tenant_id}}}", token_id)
