"""Coalesces concurrent requests into batches.

While one batch is processed, the next one collects, so that no request waits for more than one other batch. There is no
timer: before a batch starts, the event loop handles what is ready, and the requests that this submits join the batch.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

_GATHERING_ITERATIONS: Final = 8
"""Iterations of the event loop before a batch starts: an arrived request takes several until it is submitted."""

A = TypeVar("A")
R = TypeVar("R")


class RequestCoalescer(Generic[A, R]):
    """Passes up to `max_batch` requests at a time to `run_batch`, which returns their results in order."""

    def __init__(self, run_batch: Callable[[Sequence[A]], Awaitable[Sequence[R]]], max_batch: int = 500) -> None:
        self._run_batch = run_batch
        self._max_batch = max_batch
        self._pending: list[tuple[A, asyncio.Future[R]]] = []
        self._worker: asyncio.Task[None] | None = None

    async def submit(self, request: A) -> R:
        """The result of this request. Raises what `run_batch` raises."""
        result: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._pending.append((request, result))
        if self._worker is None:
            # A fresh context, so that each operation has its own time limit, whatever that of the first caller.
            self._worker = asyncio.create_task(self._run(), context=contextvars.Context())
        return await result

    async def _run(self) -> None:
        try:
            while self._pending:
                for _ in range(_GATHERING_ITERATIONS):
                    await asyncio.sleep(0)
                batch, self._pending = self._pending[: self._max_batch], self._pending[self._max_batch :]
                await self._process(batch)
        finally:
            self._worker = None

    async def _process(self, batch: Sequence[tuple[A, asyncio.Future[R]]]) -> None:
        try:
            results = await self._run_batch([request for request, _ in batch])
        except Exception as error:  # noqa: BLE001 (raised to every caller)
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)
