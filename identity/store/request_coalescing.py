"""Asks MongoDB once for what many want at the same time.

While one batch is on its way the next one gathers, and nobody waits for more than that. A batch begins after all who
are in it have asked.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from identity.store.store_circuit_breaker import OPERATION_SECONDS, time_limit

A = TypeVar("A")
R = TypeVar("R")


class RequestCoalescer(Generic[A, R]):
    """`do` takes what is wanted, at most `most` at a time, and answers each in its order."""

    def __init__(self, do: Callable[[Sequence[A]], Awaitable[Sequence[R]]], most: int = 500) -> None:
        self._do = do
        self._most = most
        self._waiting: list[tuple[A, asyncio.Future[R]]] = []
        self._doing: asyncio.Task[None] | None = None

    async def ask(self, wanted: A) -> R:
        """The answer to this, which comes with those to others. Raises what `do` raises."""
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, answer))
        if self._doing is None:
            # Not in the context of the first who came: the others have more time than is left for that one.
            self._doing = asyncio.create_task(self._do_all(), context=contextvars.Context())
        return await answer

    async def _do_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                await self._do_batch(batch)
        finally:
            self._doing = None

    async def _do_batch(self, batch: Sequence[tuple[A, asyncio.Future[R]]]) -> None:
        try:
            with time_limit(OPERATION_SECONDS):
                answers = await self._do([wanted for wanted, _ in batch])
        except Exception as error:  # noqa: BLE001 (each of those who wait raises it)
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
            return
        for (_, answer), found in zip(batch, answers, strict=True):
            if not answer.done():
                answer.set_result(found)
