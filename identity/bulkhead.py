"""A bulkhead: bounds a shared resource, such as memory or connections, in total and per owner."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import math
from collections.abc import AsyncIterator


@dataclasses.dataclass(slots=True, eq=False)
class _Request:
    owner: str
    size: int
    admitted: asyncio.Future[None]


class Bulkhead:
    """At most `limit` units in total and `limit_per_owner` for one owner, so that no owner can use all of it.

    A larger request is admitted when its owner, or the whole bulkhead, holds nothing else. Requests are admitted in
    order, except that requests blocked by the limit of their owner do not block others. The last `reserved` units are
    for owners that hold at most `reserved_per_owner`, and the last half of these for owners that hold at most half of
    that, so that many slow owners together cannot use all of it either.
    """

    def __init__(self, limit: int, limit_per_owner: int, *, reserved: int = 0, reserved_per_owner: int = 0) -> None:
        self._limit, self._limit_per_owner = limit, limit_per_owner
        self._reserved, self._reserved_per_owner = reserved, reserved_per_owner
        self._held = 0
        self._held_by: collections.Counter[str] = collections.Counter()
        self._queue: list[_Request] = []

    @contextlib.asynccontextmanager
    async def held(self, owner: str, size: int = 1) -> AsyncIterator[None]:
        """Hold `size` units during the block, once they are available."""
        request = _Request(owner, size, asyncio.get_running_loop().create_future())
        self._queue.append(request)
        self._admit()
        try:
            await request.admitted
            yield
        finally:
            self._release(request)

    def queue_length(self, owner: str) -> int:
        """The number of queued requests of an owner."""
        return sum(request.owner == owner for request in self._queue)

    def _release(self, request: _Request) -> None:
        if request in self._queue:
            self._queue.remove(request)
        else:
            self._held -= request.size
            self._held_by[request.owner] -= request.size
            if not self._held_by[request.owner]:
                del self._held_by[request.owner]
        self._admit()

    def _admit(self) -> None:
        for request in list(self._queue):
            held_by_owner = self._held_by[request.owner]
            if not _fits(held_by_owner, request.size, self._limit_per_owner):
                continue
            if not _fits(self._held, request.size, self._limit):
                return
            if self._held and held_by_owner + request.size > self._owner_limit(self._held + request.size):
                continue
            self._queue.remove(request)
            self._held += request.size
            self._held_by[request.owner] += request.size
            if not request.admitted.done():
                request.admitted.set_result(None)

    def _owner_limit(self, held: int) -> float:
        """How much one owner may hold when `held` units are held in total."""
        free = self._limit - held
        if free >= self._reserved:
            return math.inf
        return self._reserved_per_owner if free >= self._reserved // 2 else self._reserved_per_owner // 2


def _fits(held: int, size: int, limit: int) -> bool:
    return held == 0 or held + size <= limit
