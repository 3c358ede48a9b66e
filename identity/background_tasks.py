"""Loops beside the requests, started under supervision, so that no surprise ends one silently, and surely ended.

And work that goes on after the answer to a request was given, or that lets others go on in between.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar

import structlog

_log = structlog.get_logger(__name__)

T = TypeVar("T")

_RESTART_SECONDS = 1.0
_PATIENCE_SECONDS = 0.05
_STEP_SECONDS = 0.003
"""For how long work goes on before others have their turn: a request waits this long for each of its own steps."""


class CooperativeYield:
    """Long work of many short steps, in which everybody else goes on: `await pace.step()` after each of them."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    async def step(self) -> None:
        """Let others go on, if this work has gone on for a few milliseconds."""
        if time.perf_counter() - self._began > _STEP_SECONDS:
            await asyncio.sleep(0)
            self._began = time.perf_counter()


class ShieldedTask(Generic[T]):
    """What a loop takes, such as leases: ending the loop in the midst of it loses nothing that was taken."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[T]] = set()

    async def take(self, work: Coroutine[Any, Any, T]) -> T:
        """What the work answers; it goes on when whoever waits for it is cancelled."""
        task = asyncio.create_task(work)
        self._running.add(task)
        try:
            found = await asyncio.shield(task)
        except Exception:
            self._running.discard(task)
            raise
        self._running.discard(task)
        return found

    async def left(self, seconds: float) -> list[T]:
        """What was taken and reached nobody, as far as it is there within so long."""
        if not self._running:
            return []
        done, late = await asyncio.wait(self._running, timeout=seconds)
        await end(late)
        self._running.clear()
        return [task.result() for task in done if not task.cancelled() and task.exception() is None]


class BackgroundWork:
    """Work of which the caller must not learn by how long it takes: it goes on when the answer is out.

    There is a bound to how much goes on at once; who would go beyond it waits, so that nothing is left undone.
    """

    def __init__(self, most: int = 1000) -> None:
        self._places = asyncio.Semaphore(most)
        self._running: set[asyncio.Task[None]] = set()

    async def begin(self, name: str, work: Coroutine[Any, Any, object]) -> None:
        """Let the work go on by itself, as soon as there is a place. What it raises is logged."""
        try:
            await self._places.acquire()
        except asyncio.CancelledError:
            work.close()
            raise
        task = asyncio.create_task(_logged(name, work), name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._places.release()

    async def finish(self) -> None:
        """Wait until everything is done that was begun."""
        while self._running:
            await asyncio.wait(self._running)


def start(name: str, loop: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
    """Run a loop until it is ended. An error that it does not handle itself is logged, and it begins again."""
    return asyncio.create_task(_supervised(name, loop), name=name)


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they are done.

    Again and again: a library that awaits with a time limit loses a cancellation that arrives just as its wait ends.
    """
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=_PATIENCE_SECONDS)


async def _logged(name: str, work: Coroutine[Any, Any, object]) -> None:
    try:
        await work
    except Exception:  # noqa: BLE001  # whatever it is: nobody waits for it
        _log.exception("work after an answer failed", work=name)


async def _supervised(name: str, loop: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await loop()
        except Exception:  # noqa: BLE001  # whatever it is: the loop must go on
            _log.exception("a loop failed and is started again", loop=name)
        await asyncio.sleep(_RESTART_SECONDS)
