"""Supervised background loops, work that continues after a response, and cooperative yielding in long work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar

import structlog

_log = structlog.get_logger(__name__)

T = TypeVar("T")

_RESTART_SECONDS = 1.0
_CANCEL_INTERVAL_SECONDS = 0.05
_STEP_SECONDS = 0.003
"""How long work may run before it yields to the event loop."""


class CooperativeYield:
    """Yields to the event loop during long work: call `await cooperative.step()` after each short step."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    async def step(self) -> None:
        """Yield if the work has run for a few milliseconds since the last yield."""
        if time.perf_counter() - self._began > _STEP_SECONDS:
            await asyncio.sleep(0)
            self._began = time.perf_counter()


class ShieldedTask(Generic[T]):
    """Runs work, such as leasing, whose result must not be lost when the calling loop is cancelled."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[T]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of the work, which continues when the caller is cancelled."""
        task = asyncio.create_task(work)
        self._running.add(task)
        try:
            result = await asyncio.shield(task)
        except Exception:
            self._running.discard(task)
            raise
        self._running.discard(task)
        return result

    async def unclaimed(self, seconds: float) -> list[T]:
        """The results that no caller received, of work that ends within `seconds`."""
        if not self._running:
            return []
        done, late = await asyncio.wait(self._running, timeout=seconds)
        await end(late)
        self._running.clear()
        return [task.result() for task in done if not task.cancelled() and task.exception() is None]


class BackgroundWork:
    """Work that continues after the response, so that the response time reveals nothing about it.

    The number of concurrent tasks is bounded; `begin` waits for a slot, so that no work is dropped.
    """

    def __init__(self, max_concurrency: int = 1000) -> None:
        self._slots = asyncio.Semaphore(max_concurrency)
        self._running: set[asyncio.Task[None]] = set()

    async def begin(self, name: str, work: Coroutine[Any, Any, object]) -> None:
        """Start the work as soon as a slot is free. Its exceptions are logged."""
        try:
            await self._slots.acquire()
        except asyncio.CancelledError:
            work.close()
            raise
        task = asyncio.create_task(_logged(name, work), name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._slots.release()

    async def finish(self) -> None:
        """Wait until all work is done."""
        while self._running:
            await asyncio.wait(self._running)


def start(name: str, loop: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
    """Run a loop until it is cancelled. An unhandled error is logged and the loop restarts."""
    return asyncio.create_task(_supervised(name, loop), name=name)


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they are done.

    Cancels repeatedly, because a library may lose a cancellation that arrives just as its own timeout ends.
    """
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=_CANCEL_INTERVAL_SECONDS)


async def _logged(name: str, work: Coroutine[Any, Any, object]) -> None:
    try:
        await work
    except Exception:  # noqa: BLE001  # no caller would receive it
        _log.exception("work after an answer failed", work=name)


async def _supervised(name: str, loop: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await loop()
        except Exception:  # noqa: BLE001  # the loop must continue
            _log.exception("a loop failed and is started again", loop=name)
        await asyncio.sleep(_RESTART_SECONDS)
