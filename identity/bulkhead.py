"""Shares of something that a process has only so much of, such as memory or connections, for many who want some."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import math
from collections.abc import AsyncIterator


@dataclasses.dataclass(slots=True, eq=False)
class _Waiting:
    owner: str
    size: int
    admitted: asyncio.Future[None]


class Bulkhead:
    """So much altogether, and so much of it for one owner, so that one that hangs does not have it all.

    What is larger than that is given to one who then has it alone. First come, first served, but nobody waits for
    those who wait for their own owner. The last `kept` are for owners who have no more than a `little` with them, and
    the last half of those for owners with half of that, so that many that hang do not have it all either.
    """

    def __init__(self, most: int, most_of_one: int, *, kept: int = 0, little: int = 0) -> None:
        self._most, self._most_of_one = most, most_of_one
        self._kept, self._little = kept, little
        self._held = 0
        self._of: collections.Counter[str] = collections.Counter()
        self._waiting: list[_Waiting] = []

    @contextlib.asynccontextmanager
    async def held(self, owner: str, size: int = 1) -> AsyncIterator[None]:
        """Have so much, as soon as there is room."""
        waiting = _Waiting(owner, size, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._admit()
        try:
            await waiting.admitted
            yield
        finally:
            self._leave(waiting)

    def waiting(self, owner: str) -> int:
        """How many wait for a share of this owner."""
        return sum(waiting.owner == owner for waiting in self._waiting)

    def _leave(self, waiting: _Waiting) -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)
        else:
            self._held -= waiting.size
            self._of[waiting.owner] -= waiting.size
            if not self._of[waiting.owner]:
                del self._of[waiting.owner]
        self._admit()

    def _admit(self) -> None:
        for waiting in list(self._waiting):
            of_owner = self._of[waiting.owner]
            if not _fits(of_owner, waiting.size, self._most_of_one):
                continue
            if not _fits(self._held, waiting.size, self._most):
                return
            if self._held and of_owner + waiting.size > self._limit_after(self._held + waiting.size):
                continue
            self._waiting.remove(waiting)
            self._held += waiting.size
            self._of[waiting.owner] += waiting.size
            if not waiting.admitted.done():
                waiting.admitted.set_result(None)

    def _limit_after(self, held: int) -> float:
        """How much one owner may have when so much is held altogether."""
        free = self._most - held
        if free >= self._kept:
            return math.inf
        return self._little if free >= self._kept // 2 else self._little // 2


def _fits(held: int, size: int, most: int) -> bool:
    return held == 0 or held + size <= most
