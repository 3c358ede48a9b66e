"""A circuit breaker for MongoDB: after one timeout, all operations fail at once until a ping succeeds.

motor runs operations in a few threads. If every request had to time out against a hanging server, the others would
queue behind it for minutes. `OUTAGES` are the exceptions that mean a store is unavailable or too slow.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final, TypeVar

import pymongo
import structlog
from pymongo import errors
from redis import exceptions as redis_errors

from identity.errors import Invalid

T = TypeVar("T")

OPERATION_SECONDS = 5.0
"""The time limit for an operation, or for a transaction with all its retries."""

OUTAGES: Final[tuple[type[Exception], ...]] = (
    errors.ConnectionFailure,
    errors.ExecutionTimeout,
    errors.WTimeoutError,
    redis_errors.ClusterError,
    redis_errors.ConnectionError,
    redis_errors.OutOfMemoryError,
    redis_errors.ReadOnlyError,
    redis_errors.TimeoutError,
    redis_errors.TryAgainError,
)
"""The command may or may not have been executed; the caller may retry it later."""

_QUEUE_SECONDS = 1.0
"""How much longer an operation may take because it first waits for a thread."""
_PROBE_SECONDS = 0.2
_TOO_LARGE = frozenset({10334, 17419, 17420})
"""MongoDB's error codes for a document that is, or would become, larger than 16 MB."""

_log = structlog.get_logger(__name__)
_limit_seconds: contextvars.ContextVar[float] = contextvars.ContextVar("limit_seconds", default=OPERATION_SECONDS)


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Limit the time of all MongoDB operations in the block; 0 means no limit."""
    token = _limit_seconds.set(seconds)
    try:
        with pymongo.timeout(seconds):
            yield
    finally:
        _limit_seconds.reset(token)


@contextlib.contextmanager
def server_time_limit(seconds: float) -> Iterator[None]:
    """Leave the time limit of the MongoDB operations in the block to their `maxTimeMS`; wait `seconds` for the server.

    With a deadline, the driver would give up at the moment at which the server does, and an expensive query would look
    like an outage.
    """
    token = _limit_seconds.set(seconds)
    try:
        with pymongo.timeout(0):
            yield
    finally:
        _limit_seconds.reset(token)


def _codes(error: errors.OperationFailure) -> set[int | None]:
    """The error codes of a command and of the parts of a bulk write."""
    writes = (error.details or {}).get("writeErrors", ())
    return {error.code, *(write["code"] for write in writes)}


class StoreCircuitBreaker:
    """The breaker of a database, shared by all of its collections."""

    def __init__(self, ping: Callable[[], Awaitable[object]]) -> None:
        self._ping = ping
        self._probe: asyncio.Task[None] | None = None
        self.last_answer = -math.inf
        """The monotonic instant of the last answer."""

    def require_closed(self) -> None:
        """Raise AutoReconnect while the breaker is open."""
        if self._probe is not None:
            raise errors.AutoReconnect("MongoDB did not answer; waiting for a successful ping")

    async def run(self, operation: Awaitable[T]) -> T:
        """Await an operation within the time limit; a timeout opens the breaker.

        Raises NetworkTimeout after the time limit, and Invalid if a document would exceed MongoDB's size limit, which
        many small changes can cause although no single request is too large.
        """
        seconds = _limit_seconds.get()
        try:
            async with asyncio.timeout(seconds + _QUEUE_SECONDS if seconds else None):
                result = await operation
        except TimeoutError as error:
            self._open()
            raise errors.NetworkTimeout("no answer in time") from error
        except errors.ConnectionFailure as error:
            if error.timeout:
                self._open()
            raise
        except (errors.DocumentTooLarge, errors.OperationFailure) as error:
            if isinstance(error, errors.OperationFailure) and not _TOO_LARGE & _codes(error):
                raise
            raise Invalid.whole("[TooLarge]", "The object would be larger than what can be stored.") from error
        self.last_answer = time.monotonic()
        return result

    def stop(self) -> None:
        """Stop probing."""
        if self._probe is not None:
            self._probe.cancel()

    def _open(self) -> None:
        if self._probe is None:
            _log.warning("MongoDB does not answer")
            # A fresh context: the time limit of the failed operation must not apply to the probe.
            self._probe = asyncio.create_task(
                self._ping_until_up(), name="probe MongoDB", context=contextvars.Context()
            )

    async def _ping_until_up(self) -> None:
        while True:
            with contextlib.suppress(errors.PyMongoError):
                await self._ping()
                break
            await asyncio.sleep(_PROBE_SECONDS)
        self._probe = None
        _log.info("MongoDB answers again")


class BreakerProxy:
    """A proxy of a motor collection or cursor that runs its operations through the breaker."""

    def __init__(self, target: Any, breaker: StoreCircuitBreaker) -> None:
        self._target = target
        self._breaker = breaker

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if isinstance(found, str):
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            self._breaker.require_closed()
            result = found(*arguments, **options)
            return self._breaker.run(result) if inspect.isawaitable(result) else BreakerProxy(result, self._breaker)

        return call

    async def __aiter__(self) -> AsyncIterator[Any]:
        rows = aiter(self._target)
        while True:
            try:
                yield await self._breaker.run(anext(rows))
            except StopAsyncIteration:
                return
