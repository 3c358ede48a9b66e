"""An in-process cache of documents, dropped by change streams, with bounded size.

Whoever misses a value while another reads it waits for the same reading: a thousand requests that meet an entry just
dropped cost one look-up. A drop ends that: what is being read then is handed out to those who wait for it already,
and forgotten, and whoever comes later reads anew.
"""

from __future__ import annotations

import asyncio
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
        self._loading: dict[str, asyncio.Task[V | None]] = {}

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
        """The cached value, or the one that `load` finds, for all who ask meanwhile. Raises what `load` raises."""
        value = self.peek(key)
        if value is not None:
            return value
        loading = self._loading.get(key)
        if loading is None:
            loading = self._loading[key] = asyncio.create_task(self._load(key, load))
        # A caller that gives up must not take the value from the others.
        return await asyncio.shield(loading)

    async def _load(self, key: str, load: Callable[[], Awaitable[V | None]]) -> V | None:
        try:
            value = await load()
        finally:
            is_current = self._loading.get(key) is asyncio.current_task()
            if is_current:
                del self._loading[key]
        if value is not None and is_current:
            self._keep(key, value)
        return value

    def _keep(self, key: str, value: V) -> None:
        self._entries[key] = (value, time.monotonic())
        self._entries.move_to_end(key)
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def drop(self, *keys: str) -> None:
        """Forget these keys."""
        for key in keys:
            self._entries.pop(key, None)
            self._loading.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._loading.clear()
