"""The newest entries about a subject, such as the failed logins of a user: a bounded list in Redis that expires."""

from __future__ import annotations

import json

from identity.call import Document
from identity.ids import TenantId
from identity.store.redis import Redis, RedisStore


class RecentEntries(RedisStore):
    """The entries of one kind, of all tenants: at most `maximum` of each subject, for `ttl_seconds` after the last."""

    def __init__(self, redis: Redis, kind: str, *, maximum: int, ttl_seconds: int) -> None:
        super().__init__(redis)
        self._kind = kind
        self._maximum = maximum
        self._ttl_seconds = ttl_seconds

    async def add(self, tenant_id: TenantId, subject: str, entry: Document) -> None:
        """Add an entry, and remove the oldest ones beyond the maximum."""
        key = self._key(tenant_id, subject)
        await self._redis.run("list_push", [key], json.dumps(entry), self._maximum, self._ttl_seconds)

    async def find(self, tenant_id: TenantId, subject: str) -> list[Document]:
        """Return the entries, newest first."""
        found = await self._redis.client.lrange(self._key(tenant_id, subject), 0, -1)
        return [json.loads(text) for text in found]

    async def remove(self, tenant_id: TenantId, subject: str) -> None:
        """Remove the entries of a subject."""
        await self._redis.client.delete(self._key(tenant_id, subject))

    def _key(self, tenant_id: TenantId, subject: str) -> str:
        return self._redis.key(self._kind, tenant_id, subject)
