"""The requests being answered right now, for a stop that cuts none of them off."""

from __future__ import annotations

import asyncio


class InFlight:
    """Counts requests; `is_draining` makes every further answer close its connection."""

    def __init__(self) -> None:
        self.is_draining = False
        self._count = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def __enter__(self) -> None:
        """Count one request while it is being answered."""
        self._count += 1
        self._idle.clear()

    def __exit__(self, *_: object) -> None:
        self._count -= 1
        if self._count == 0:
            self._idle.set()

    async def drained(self, quiet_seconds: float) -> None:
        """Wait until no request has been in flight for a while.

        A connection that a proxy keeps open may bring one more request, which is answered and closes it; closing
        an idle connection under a proxy that is about to use it would fail that request.
        """
        self.is_draining = True
        while True:
            await self._idle.wait()
            await asyncio.sleep(quiet_seconds)
            if self._idle.is_set():
                return
