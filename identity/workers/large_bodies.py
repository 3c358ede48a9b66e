"""Room for large bodies: how many bytes of them a process has in memory at a time, however much is due."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
from collections.abc import AsyncIterator

from identity.ids import WebhookId

MOST_BYTES = 64 * 2**20
MOST_BYTES_OF_ONE = 32 * 2**20


@dataclasses.dataclass(slots=True, eq=False)
class _Waiting:
    webhook_id: WebhookId
    size: int
    admitted: asyncio.Future[None]


class LargeBodies:
    """So many bytes altogether, and so many of them for one webhook, so that one that hangs does not have them all.

    Whatever is larger than that has the room to itself. First come, first served, but nobody waits for those who wait
    for their own webhook.
    """

    def __init__(self, most: int = MOST_BYTES, most_of_one: int = MOST_BYTES_OF_ONE) -> None:
        self._most, self._most_of_one = most, most_of_one
        self._bytes = 0
        self._of: collections.Counter[WebhookId] = collections.Counter()
        self._waiting: list[_Waiting] = []

    @contextlib.asynccontextmanager
    async def held(self, webhook_id: WebhookId, size: int) -> AsyncIterator[None]:
        """Have a body of so many bytes in memory, as soon as there is room."""
        waiting = _Waiting(webhook_id, size, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._admit()
        try:
            await waiting.admitted
            yield
        finally:
            self._leave(waiting)

    def _leave(self, waiting: _Waiting) -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)
        else:
            self._bytes -= waiting.size
            self._of[waiting.webhook_id] -= waiting.size
            if not self._of[waiting.webhook_id]:
                del self._of[waiting.webhook_id]
        self._admit()

    def _admit(self) -> None:
        for waiting in list(self._waiting):
            if not _fits(self._of[waiting.webhook_id], waiting.size, self._most_of_one):
                continue
            if not _fits(self._bytes, waiting.size, self._most):
                return
            self._waiting.remove(waiting)
            self._bytes += waiting.size
            self._of[waiting.webhook_id] += waiting.size
            if not waiting.admitted.done():
                waiting.admitted.set_result(None)


def _fits(held: int, size: int, most: int) -> bool:
    return held == 0 or held + size <= most
