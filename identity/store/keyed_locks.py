"""In-process locks by key, held until the end of a transaction.

Of several transactions that change the same document, MongoDB lets one continue and aborts the others at once. With
many of them, most would exhaust their retries. These locks serialise the transactions of one process; conflicts between
the few processes of an instance are left to MongoDB.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Iterable


class KeyedLocks:
    """Locks by key, each held by one owner (a transaction)."""

    def __init__(self) -> None:
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._held: dict[int, dict[str, asyncio.Lock]] = {}

    async def acquire(self, owner: int, keys: Iterable[str], timeout_seconds: float) -> None:
        """Acquire the locks of these keys, always in the same order.

        After the timeout the owner continues without the lock: locks avoid retries, and MongoDB ensures isolation.
        """
        held = self._held.setdefault(owner, {})
        for key in sorted(set(keys) - held.keys()):
            lock = self._locks.setdefault(key, asyncio.Lock())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(lock.acquire(), timeout_seconds)
                held[key] = lock

    def release(self, owner: int) -> None:
        """Release all locks of an owner."""
        for lock in self._held.pop(owner, {}).values():
            lock.release()
