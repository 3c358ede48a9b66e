"""Keys, with a cache of their public halves, which key sets are built from."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from typing import Any, Final

from identity.call import Document
from identity.store.cache import Cache
from identity.store.documents import Documents

_PUBLIC_MEMBERS: Final = ("kid", "algorithm", "publicKey", "certificate", "hasPrivateKey", "insertInstant")
_MAX_CACHED_HALVES: Final = 20_000
_BATCH: Final = 500


class Keys(Documents):
    """The keys of the instance. A changed key is read again; the others stay in the caches."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._public_halves: Cache[Document] = Cache(_MAX_CACHED_HALVES, self._stream_status, keeps_stale=True)

    async def public_halves(self, _tenant: None, key_ids: Sequence[str]) -> list[Document]:
        """The existing ones of these keys, without their secrets. They are shared: callers must not change them."""
        found: list[Document] = []
        for start in range(0, len(key_ids), _BATCH):
            found += await self._read_through(key_ids[start : start + _BATCH])
        return found

    async def _read_through(self, key_ids: Sequence[str]) -> list[Document]:
        keys = {key_id: self._public_halves.peek(key_id) for key_id in key_ids}
        if missing := [key_id for key_id, key in keys.items() if key is None]:
            query = _Query(self, missing)
            loads = [self._public_halves.get(key_id, functools.partial(query.get, key_id)) for key_id in missing]
            keys |= zip(missing, await asyncio.gather(*loads), strict=True)
        return [key for key in keys.values() if key is not None]

    def invalidate(self, document_id: str) -> None:
        """See Documents; also the public half."""
        super().invalidate(document_id)
        self._public_halves.drop(document_id)

    def invalidate_all(self) -> None:
        """See Documents; also the public halves."""
        super().invalidate_all()
        self._public_halves.clear()


class _Query:
    """One query for several keys, which the first load of the cache starts."""

    def __init__(self, keys: Keys, key_ids: Sequence[str]) -> None:
        self._keys = keys
        self._key_ids = key_ids
        self._reading: asyncio.Task[dict[str, Document]] | None = None

    async def get(self, key_id: str) -> Document | None:
        """The key, if it exists."""
        self._reading = self._reading or asyncio.create_task(self._read())
        return (await self._reading).get(key_id)

    async def _read(self) -> dict[str, Document]:
        found = await self._keys.find_all(None, {"_id": {"$in": self._key_ids}}, _PUBLIC_MEMBERS)
        return {key["id"]: key for key in found}
