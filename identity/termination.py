"""Run a coroutine that starts servers, and cancel it on a termination signal so that it can stop them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")

_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` and return its result. SIGTERM, SIGHUP and SIGINT cancel it once; further ones are ignored.

    Raises SystemExit with 128 + the number of the signal, as shells do.
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
