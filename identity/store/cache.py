"""An in-process cache of documents, dropped by change streams, with bounded size.

Whoever misses a value while another reads it waits for the same reading: a thousand requests that meet an entry just
dropped cost one look-up. A drop ends that: what is being read then is handed out to those who wait for it already,
and forgotten, and whoever comes later reads anew.

Values that were dropped or that expired are kept as stale until they are read again. They are served only inside
`stale_if_unavailable`, and only while the store does not answer (as stale-if-error of RFC 5861).
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import contextvars
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, Generic, TypeVar

from identity.store.outages import OUTAGES

V = TypeVar("V")

STREAM_DOWN_SECONDS = 1.0
"""How long an entry lives while nobody tells us of changes."""


STALE_WAIT_SECONDS: Final = 0.8
"""How long the reads of one block wait for the store, together, when there are stale values to serve instead."""
_SHORTEST_WAIT_SECONDS: Final = 0.05

_UNAVAILABLE: Final[tuple[type[Exception], ...]] = (TimeoutError, *OUTAGES)

_stale_from: contextvars.ContextVar[float | None] = contextvars.ContextVar("stale_from", default=None)
"""The monotonic instant from which stale values may be served, inside of `stale_if_unavailable`."""


@contextlib.contextmanager
def stale_if_unavailable() -> Iterator[None]:
    """Serve the last known values of caches inside the block while MongoDB does not answer."""
    token = _stale_from.set(time.monotonic() + STALE_WAIT_SECONDS)
    try:
        yield
    finally:
        _stale_from.reset(token)


class ChangeStreamStatus:
    """Whether the change stream is running, as all caches see it."""

    def __init__(self) -> None:
        self.is_streaming = False


class Cache(Generic[V]):
    """Key -> value, least recently used out first. `None` is never kept: absence is looked up again."""

    def __init__(self, size: int, freshness: ChangeStreamStatus, *, keeps_stale: bool = False) -> None:
        self._size = size
        self._keeps_stale = keeps_stale
        self._stale: collections.OrderedDict[str, V] = collections.OrderedDict()
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
            self._forget(key)
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
        stale_from = _stale_from.get()
        if stale_from is not None and (stale := self._stale.get(key)) is not None:
            wait_seconds = max(stale_from - time.monotonic(), _SHORTEST_WAIT_SECONDS)
            return await _unless_unavailable(loading, stale, wait_seconds)
        # A caller that gives up must not take the value from the others.
        return await asyncio.shield(loading)

    async def _load(self, key: str, load: Callable[[], Awaitable[V | None]]) -> V | None:
        try:
            value = await load()
        finally:
            is_current = self._loading.get(key) is asyncio.current_task()
            if is_current:
                del self._loading[key]
        if is_current:
            self._stale.pop(key, None)
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
            self._forget(key)
            self._loading.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        for key in list(self._entries):
            self._forget(key)
        self._loading.clear()

    def _forget(self, key: str) -> None:
        """Remove an entry; where stale values are kept, it becomes one."""
        entry = self._entries.pop(key, None)
        if entry is not None and self._keeps_stale:
            self._stale[key] = entry[0]
            if len(self._stale) > self._size:
                self._stale.popitem(last=False)


async def _unless_unavailable(loading: asyncio.Task[V | None], stale: V, wait_seconds: float) -> V | None:
    """Return the value being read or, when the store does not answer in time, the stale value."""
    # The read may outlive every caller: retrieve its exception, so that asyncio does not log it.
    loading.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        async with asyncio.timeout(wait_seconds):
            return await asyncio.shield(loading)
    except _UNAVAILABLE:
        return stale
