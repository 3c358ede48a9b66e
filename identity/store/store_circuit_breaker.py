"""What keeps an outage of MongoDB short for everybody: once it has not answered in time, nothing is asked of it.

motor asks from a few threads. Were each request to find out for itself that the server hangs, the others would queue up
behind it, for minutes. So the first timeout closes the way, everybody is told at once, and one ping after the other
looks whether the server is back.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pymongo
import structlog
from pymongo.errors import (
    AutoReconnect,
    ConnectionFailure,
    DocumentTooLarge,
    NetworkTimeout,
    OperationFailure,
    PyMongoError,
)

from identity.errors import Invalid

T = TypeVar("T")

OPERATION_SECONDS = 5.0
"""How long one operation, or one transaction with all its repetitions, may take: somebody waits for the answer."""

_QUEUE_SECONDS = 1.0
"""How much longer an operation may take that has to wait for a thread first."""
_PROBE_SECONDS = 0.2
_TOO_LARGE = frozenset({10334, 17419, 17420})
"""MongoDB's numbers for a document that is, or would become by an update, larger than 16 MB."""

_log = structlog.get_logger(__name__)
_patience: contextvars.ContextVar[float] = contextvars.ContextVar("patience", default=OPERATION_SECONDS)


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Give what is asked of MongoDB inside the block this long in all; 0 for as long as it takes."""
    before = _patience.set(seconds)
    try:
        with pymongo.timeout(seconds):
            yield
    finally:
        _patience.reset(before)


def _codes(error: OperationFailure) -> set[int | None]:
    """MongoDB's numbers for what is wrong with a command, or with the parts of a bulk write."""
    writes = (error.details or {}).get("writeErrors", ())
    return {error.code, *(write["code"] for write in writes)}


class StoreCircuitBreaker:
    """Whether MongoDB answers, as all collections of a database see it."""

    def __init__(self, ping: Callable[[], Awaitable[object]]) -> None:
        self._ping = ping
        self._probe: asyncio.Task[None] | None = None

    def require_answering(self) -> None:
        """Raise AutoReconnect while MongoDB is known to be away."""
        if self._probe is not None:
            raise AutoReconnect("MongoDB did not answer; it is looked for")

    async def answer(self, asked: Awaitable[T]) -> T:
        """What was asked for.

        Raises NetworkTimeout when there is no answer in time, wherever it got stuck, and Invalid for a change that
        would make a document larger than MongoDB keeps: many small requests can make what no single one could.
        """
        seconds = _patience.get()
        try:
            async with asyncio.timeout(seconds + _QUEUE_SECONDS if seconds else None):
                return await asked
        except TimeoutError as error:
            self._close_way()
            raise NetworkTimeout("no answer in time") from error
        except ConnectionFailure as error:
            if error.timeout:
                self._close_way()
            raise
        except (DocumentTooLarge, OperationFailure) as error:
            if isinstance(error, OperationFailure) and not _TOO_LARGE & _codes(error):
                raise
            raise Invalid.whole("[TooLarge]", "The object would be larger than what can be stored.") from error

    def stop(self) -> None:
        """Look for the server no longer."""
        if self._probe is not None:
            self._probe.cancel()

    def _close_way(self) -> None:
        if self._probe is None:
            _log.warning("MongoDB does not answer")
            # Not in the context of whoever found out: his time is up.
            self._probe = asyncio.create_task(self._look(), name="look for MongoDB", context=contextvars.Context())

    async def _look(self) -> None:
        while True:
            with contextlib.suppress(PyMongoError):
                await self._ping()
                break
            await asyncio.sleep(_PROBE_SECONDS)
        self._probe = None
        _log.info("MongoDB answers again")


class BreakerProxy:
    """Stands in front of one of motor's collections or cursors, and asks the guard before it asks MongoDB."""

    def __init__(self, target: Any, guard: StoreCircuitBreaker) -> None:
        self._target = target
        self._guard = guard

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if isinstance(found, str):
            return found

        def ask(*arguments: Any, **options: Any) -> Any:
            self._guard.require_answering()
            asked = found(*arguments, **options)
            return self._guard.answer(asked) if inspect.isawaitable(asked) else BreakerProxy(asked, self._guard)

        return ask

    async def __aiter__(self) -> AsyncIterator[Any]:
        rows = aiter(self._target)
        while True:
            try:
                yield await self._guard.answer(anext(rows))
            except StopAsyncIteration:
                return
