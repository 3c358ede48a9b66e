"""A bounded in-process cache of documents, invalidated by a change stream.

Concurrent misses of a key share one load. An invalidation during a load detaches it: its callers receive the value, but
it is not cached, and later callers start a new load.

Invalidated and expired values are retained as stale until they are loaded again. They are served only within
`stale_if_unavailable` and only while the store does not answer (like stale-if-error of RFC 5861).
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import contextvars
import dataclasses
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, Generic, TypeVar

from identity.store.outages import OUTAGES

V = TypeVar("V")

STREAM_DOWN_SECONDS = 1.0
"""The TTL of an entry while the change stream is down."""

STALE_WAIT_SECONDS: Final = 0.8
"""How long all reads of a block together wait for a silent store before stale values are served."""
_SHORTEST_WAIT_SECONDS: Final = 0.05

_UNAVAILABLE: Final[tuple[type[Exception], ...]] = (TimeoutError, *OUTAGES)

_stale_from: contextvars.ContextVar[float | None] = contextvars.ContextVar("stale_from", default=None)
"""The monotonic instant from which stale values may be served within `stale_if_unavailable`."""


@contextlib.contextmanager
def stale_if_unavailable() -> Iterator[None]:
    """Allow stale cached values in the block while MongoDB does not answer."""
    token = _stale_from.set(time.monotonic() + STALE_WAIT_SECONDS)
    try:
        yield
    finally:
        _stale_from.reset(token)


class ChangeStreamStatus:
    """Whether the change stream is running, and when MongoDB answered last; shared by all caches."""

    def __init__(self, last_answer: Callable[[], float] = lambda: -math.inf) -> None:
        self.is_streaming = False
        self.last_answer = last_answer


@dataclasses.dataclass(slots=True)
class CacheCounts:
    """How often a cache had the value of a key, and how often it loaded one."""

    hits: int = 0
    loads: int = 0


class Cache(Generic[V]):
    """A cache with least-recently-used eviction. `None` is never cached: a missing value is loaded again."""

    def __init__(self, size: int, stream_status: ChangeStreamStatus, *, keeps_stale: bool = False) -> None:
        self._size = size
        self.counts = CacheCounts()
        self._keeps_stale = keeps_stale
        self._stale: collections.OrderedDict[str, V] = collections.OrderedDict()
        self._stream_status = stream_status
        self._entries: collections.OrderedDict[str, tuple[V, float]] = collections.OrderedDict()
        self._loading: dict[str, asyncio.Task[V | None]] = {}
        self._invalidations = 0

    def __len__(self) -> int:
        return len(self._entries)

    def peek(self, key: str) -> V | None:
        """The cached value, if it is fresh."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if not self._stream_status.is_streaming and time.monotonic() - entry[1] > STREAM_DOWN_SECONDS:
            self._remove(key)
            return None
        self._entries.move_to_end(key)
        self.counts.hits += 1
        return entry[0]

    async def get(self, key: str, load: Callable[[], Awaitable[V | None]]) -> V | None:
        """The cached value, or the result of `load`, shared by concurrent callers. Raises what `load` raises."""
        value = self.peek(key)
        if value is not None:
            return value
        loading = self._loading.get(key)
        if loading is None:
            loading = self._loading[key] = asyncio.create_task(self._load(key, load))
        stale_from = _stale_from.get()
        if stale_from is not None and (stale := self._stale.get(key)) is not None:
            wait_seconds = max(stale_from - time.monotonic(), _SHORTEST_WAIT_SECONDS)
            return await self._unless_unavailable(loading, stale, wait_seconds)
        # Shielded: the cancellation of one caller must not cancel the load of the others.
        return await asyncio.shield(loading)

    async def _unless_unavailable(self, loading: asyncio.Task[V | None], stale: V, wait_seconds: float) -> V | None:
        """Return the value being read or, when MongoDB has not answered anything for a while, the stale value.

        A read that is merely slow is waited for: MongoDB answers other operations meanwhile.
        """
        # The read may outlive every caller: retrieve its exception, so that asyncio does not log it.
        loading.add_done_callback(lambda done: done.cancelled() or done.exception())
        while not loading.done():
            await asyncio.wait({loading}, timeout=wait_seconds)
            silent_seconds = time.monotonic() - self._stream_status.last_answer()
            if not loading.done() and silent_seconds > STALE_WAIT_SECONDS:
                return stale
        try:
            return await loading
        except _UNAVAILABLE:
            return stale

    async def _load(self, key: str, load: Callable[[], Awaitable[V | None]]) -> V | None:
        self.counts.loads += 1
        try:
            value = await load()
        finally:
            is_current = self._loading.get(key) is asyncio.current_task()
            if is_current:
                del self._loading[key]
        if is_current:
            self._stale.pop(key, None)
        if value is not None and is_current:
            self._put(key, value)
        return value

    def version(self) -> int:
        """Return the number of invalidations so far, for `put_loaded`."""
        return self._invalidations

    def put_loaded(self, key: str, value: V, version: int) -> None:
        """Cache a value that was loaded without its key, unless anything was invalidated since `version`."""
        if version == self._invalidations:
            self._stale.pop(key, None)
            self._put(key, value)

    def _put(self, key: str, value: V) -> None:
        self._entries[key] = (value, time.monotonic())
        self._entries.move_to_end(key)
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def drop(self, *keys: str) -> None:
        """Remove these keys."""
        self._invalidations += 1
        for key in keys:
            self._remove(key)
            self._loading.pop(key, None)

    def clear(self) -> None:
        """Remove all keys."""
        self._invalidations += 1
        for key in list(self._entries):
            self._remove(key)
        self._loading.clear()

    def _remove(self, key: str) -> None:
        """Remove an entry and retain its value as stale, if configured."""
        entry = self._entries.pop(key, None)
        if entry is not None and self._keeps_stale:
            self._stale[key] = entry[0]
            if len(self._stale) > self._size:
                self._stale.popitem(last=False)
