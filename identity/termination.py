"""Run a coroutine that starts servers, and let it stop them when the process is asked to end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")

_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def run(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`. The first SIGTERM, SIGHUP or SIGINT cancels it; later ones do not interrupt its cleanup.

    Raises SystemExit with 128 + the number of the signal, as shells report it.
    """
    result, number = uvloop.run(_cancellable(work))
    if number is not None:
        raise SystemExit(128 + number)
    return result  # type: ignore[return-value]


async def _cancellable(work: Coroutine[Any, Any, T]) -> tuple[T | None, int | None]:
    """The result of `work`, or the signal that cancelled it."""
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(work)
    received: list[int] = []

    def cancel(number: int) -> None:
        if not received:
            task.cancel()
        received.append(number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, cancel, number)
    try:
        return await task, None
    except asyncio.CancelledError:
        if not received:
            raise
        return None, received[0]
