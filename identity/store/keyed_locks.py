"""Turns: transactions of this process that are about to change the same document go one after the other.

MongoDB lets one of several through and refuses the others at once. Each would come back and meet the next: with many
of them most would run out of time. Between processes that is left to MongoDB; processes are few.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Iterable


class KeyedLocks:
    """Locks by name, held by transactions until they end."""

    def __init__(self) -> None:
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._held: dict[int, dict[str, asyncio.Lock]] = {}

    async def acquire(self, owner: int, names: Iterable[str], patience_seconds: float) -> None:
        """Wait for the turn at each of these, in an order that is always the same.

        Who waited too long goes on without: the turn saves work, and is not what keeps changes apart.
        """
        held = self._held.setdefault(owner, {})
        for name in sorted(set(names) - held.keys()):
            lock = self._locks.setdefault(name, asyncio.Lock())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(lock.acquire(), patience_seconds)
                held[name] = lock

    def release(self, owner: int) -> None:
        """End every turn of a owner."""
        for lock in self._held.pop(owner, {}).values():
            lock.release()
