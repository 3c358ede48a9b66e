"""Deletion of the personal data of deleted users and tenants from Redis, by a scan of all keys.

Most keys expire within minutes, but the links in mails live for days. Sealed values, and values whose keys contain only
fingerprints, cannot be searched: they expire by themselves (docs/users/personal-data.md).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from identity.domain.users.personal_data import Traces
from identity.ids import TenantId
from identity.store.redis import Redis, RedisStore

_SCANNED: Final = 1000
_IMPERSONAL: Final = frozenset({"activity", "failed-api-keys", "previous-secret", "revoked", "used"})
"""The kinds of keys that contain counts and fingerprints only."""
_STRINGS: Final = frozenset({"login-intent", "pushed-request", "ticket"})
_HASHES: Final = frozenset({"code", "console", "device", "sso"})
_ENTRIES: Final = "refused-requests"


class PersonalKeys(RedisStore):
    """The keys of all stores."""

    def __init__(self, redis: Redis) -> None:
        super().__init__(redis)
        self._prefix = redis.key("")
        self._readers: Mapping[str, Callable[[str], Awaitable[Any]]] = {
            **dict.fromkeys(_STRINGS, self._redis.client.get),
            **dict.fromkeys(_HASHES, self._hash),
        }

    async def delete_of_users_across_tenants(self, traces: Traces) -> int:
        """Delete the keys that name a deleted user in the key or the value; return their number."""
        by_tenant = traces.by_tenant()

        async def erase(key: str) -> bool:
            if self._kind(key) == _ENTRIES:
                await self._remove_entries(key, traces)
                return False
            text = await self._text(key)
            # The same address may belong to another user in another tenant.
            return traces.ids_are_in(text) or any(
                tenant_id in text and own.are_in(text) for tenant_id, own in by_tenant.items()
            )

        return await self._delete_where(erase)

    async def delete_of_tenant(self, tenant_id: TenantId) -> int:
        """Delete the keys that name a deleted tenant in the key or the value; return their number."""

        async def erase(key: str) -> bool:
            return tenant_id in await self._text(key)

        return await self._delete_where(erase)

    async def _delete_where(self, is_erased: Callable[[str], Awaitable[bool]]) -> int:
        deleted, batch = 0, list[str]()
        async for key in self._redis.client.scan_iter(match=f"{self._prefix}*", count=_SCANNED):
            if self._kind(key) not in _IMPERSONAL:
                batch.append(key)
            if len(batch) == _SCANNED:
                deleted += await self._delete_batch(batch, is_erased)
                batch = []
        return deleted + await self._delete_batch(batch, is_erased)

    async def _delete_batch(self, keys: Sequence[str], is_erased: Callable[[str], Awaitable[bool]]) -> int:
        decisions = await asyncio.gather(*(is_erased(key) for key in keys))
        erased = [key for key, decision in zip(keys, decisions, strict=True) if decision]
        # The client sends these in one round trip; they may belong to several cluster nodes.
        return sum(await asyncio.gather(*(self._redis.client.delete(key) for key in erased)))

    async def _remove_entries(self, key: str, traces: Traces) -> None:
        """Remove the entries of a list that contain an IP address of a deleted user."""
        for text in await self._redis.client.lrange(key, 0, -1):
            if json.loads(text).get("ipAddress") in traces.ip_addresses:
                removal: Any = self._redis.client.lrem(key, 0, str(text))
                await removal

    async def _text(self, key: str) -> str:
        """The key and, if it can be searched, its value."""
        read = self._readers.get(self._kind(key))
        return key if read is None else f"{key} {json.dumps(await read(key), ensure_ascii=False)}"

    async def _hash(self, key: str) -> Any:
        found: Any = self._redis.client.hgetall(key)
        return await found

    def _kind(self, key: str) -> str:
        return key[len(self._prefix) :].partition(":")[0]
