"""Loops beside the requests: started under supervision, so that no surprise ends one silently, and surely ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import structlog

_log = structlog.get_logger(__name__)

_RESTART_SECONDS = 1.0
_PATIENCE_SECONDS = 0.05


def start(name: str, loop: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
    """Run a loop until it is ended. An error that it does not handle itself is logged, and it begins again."""
    return asyncio.create_task(_supervised(name, loop), name=name)


async def end(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait until they are done.

    Again and again: a library that awaits with a time limit loses a cancellation that arrives just as its wait ends.
    """
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=_PATIENCE_SECONDS)


async def _supervised(name: str, loop: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await loop()
        except Exception:  # noqa: BLE001  # whatever it is: the loop must go on
            _log.exception("a loop failed and is started again", loop=name)
        await asyncio.sleep(_RESTART_SECONDS)
