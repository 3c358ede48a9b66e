"""Requests in flight, for a graceful shutdown."""

from __future__ import annotations

import asyncio


class InFlight:
    """Counts requests; `is_draining` makes every further response close its connection."""

    def __init__(self) -> None:
        self.is_draining = False
        self._count = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def __enter__(self) -> None:
        """Count one request until it is handled."""
        self._count += 1
        self._idle.clear()

    def __exit__(self, *_: object) -> None:
        self._count -= 1
        if self._count == 0:
            self._idle.set()

    async def drained(self, quiet_seconds: float) -> None:
        """Wait until no request has been in flight for `quiet_seconds`.

        A proxy may send one more request over an idle connection, whose response closes it; closing the connection
        before would fail that request.
        """
        self.is_draining = True
        while True:
            await self._idle.wait()
            await asyncio.sleep(quiet_seconds)
            if self._idle.is_set():
                return
