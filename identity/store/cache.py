"""An in-process cache of documents, dropped by change streams, with bounded size.

A value that was being read while its document changed is not kept: `generation` moves at every drop, and a load
that saw it move is handed out but forgotten.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

V = TypeVar("V")

STREAM_DOWN_SECONDS = 1.0
"""How long an entry lives while nobody tells us of changes."""


class Freshness:
    """Whether the change stream is running, as all caches see it."""

    def __init__(self) -> None:
        self.is_streaming = False


class Cache(Generic[V]):
    """Key -> value, least recently used out first. `None` is never kept: absence is looked up again."""

    def __init__(self, size: int, freshness: Freshness) -> None:
        self._size = size
        self._freshness = freshness
        self._entries: collections.OrderedDict[str, tuple[V, float]] = collections.OrderedDict()
        self._generation = 0

    def __len__(self) -> int:
        return len(self._entries)

    def peek(self, key: str) -> V | None:
        """The cached value, if it may still be used."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if not self._freshness.is_streaming and time.monotonic() - entry[1] > STREAM_DOWN_SECONDS:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return entry[0]

    async def get(self, key: str, load: Callable[[], Awaitable[V | None]]) -> V | None:
        """The cached value, or the one that `load` finds."""
        value = self.peek(key)
        if value is not None:
            return value
        generation = self._generation
        value = await load()
        if value is not None and generation == self._generation:
            self._entries[key] = (value, time.monotonic())
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)
        return value

    def drop(self, *keys: str) -> None:
        """Forget these keys."""
        self._generation += 1
        for key in keys:
            self._entries.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        self._generation += 1
        self._entries.clear()
