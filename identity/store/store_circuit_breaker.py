"""A circuit breaker for MongoDB: after one timeout, all operations fail at once until a ping succeeds.

motor runs operations in a few threads. If every request had to time out against a hanging server, the others would
queue behind it for minutes.

While a replica set elects a primary, operations wait for it on the event loop, for as long as an election takes with
MongoDB's defaults. Those that the old primary cannot have executed, and reads, are repeated (docs/decisions/0078).
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final, TypeVar

import pymongo
import structlog
from pymongo import errors

from identity.errors import Invalid
from identity.store import outages

T = TypeVar("T")

OPERATION_SECONDS = 5.0
"""The time limit for an operation, or for a transaction with all its retries."""

_QUEUE_SECONDS = 1.0
"""How much longer an operation may take because it first waits for a thread."""
_PROBE_SECONDS = 0.2
_PROBE_LIMIT_SECONDS = 1.0
ELECTION_SECONDS: Final = 12.0
"""How long operations wait for a primary after the loss of one: an election takes ten to eleven seconds by default."""
_MOST_WAITING: Final = 1000
"""How many operations of a process wait for a primary; more would only occupy memory."""
_POLL_SECONDS: Final = 0.02
_READS: Final = frozenset({"count_documents", "distinct", "estimated_document_count", "find_one", "index_information"})
"""The methods of a collection that change nothing."""
_SENT_BY_CURSORS: Final = frozenset({"to_list"})
"""The methods of a cursor that send a command, and that motor does not declare as such."""
_IN_PARTS: Final = frozenset({"bulk_write", "insert_many"})
"""The methods that send several commands: an error does not mean that none of them was executed."""
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

    def __init__(self, ping: Callable[[], Awaitable[object]], has_primary: Callable[[], bool] = lambda: True) -> None:
        """`has_primary` returns whether the driver knows a server that accepts writes."""
        self._ping = ping
        self._has_primary = has_primary
        self._probe: asyncio.Task[None] | None = None
        self._election: asyncio.Task[None] | None = None
        self._lost_at = -math.inf
        self._waiting = 0
        self._had_primary = False
        self.last_answer = -math.inf
        """The monotonic instant of the last answer."""

    def require_closed(self) -> None:
        """Raise AutoReconnect while the breaker is open."""
        if self._probe is not None:
            raise errors.AutoReconnect("MongoDB did not answer; waiting for a successful ping")

    async def wait_for_primary(self) -> bool:
        """Wait while a primary is elected; return whether there was anything to wait for.

        Raises AutoReconnect if the election takes too long, if too many operations wait already, or if the breaker is
        open. Before the first command there is no primary, because the driver connects on demand.
        """
        self.require_closed()
        has_primary = self._has_primary()
        self._had_primary |= has_primary
        if has_primary or not self._had_primary:
            return False
        if self._election is None:
            self._lost_at = time.monotonic()
            self._election = asyncio.create_task(
                self._await_election(), name="await election", context=contextvars.Context()
            )
        seconds = self._lost_at + ELECTION_SECONDS - time.monotonic()
        if seconds > 0 and self._waiting < _MOST_WAITING:
            self._waiting += 1
            try:
                await asyncio.wait({self._election}, timeout=seconds)
            finally:
                self._waiting -= 1
        if not self._has_primary():
            raise errors.AutoReconnect("MongoDB has no primary")
        return True

    async def call(self, start: Callable[[], Awaitable[T]], method: str = "", session: Any = None) -> T:
        """Start an operation and await it, after an election if there is one, and again if that is safe.

        It is safe for reads, and for operations that the driver could not send to any server. An operation of a
        transaction is not repeated by itself: the transaction ended with the old primary, and the error makes
        `Database.in_transaction` repeat the whole.
        """
        began = time.monotonic()
        is_in_transaction = session is not None and session.in_transaction
        while True:
            has_waited = await self.wait_for_primary()
            if has_waited and is_in_transaction:
                raise outages.TransactionInterrupted
            try:
                return await self.run(start())
            except errors.ConnectionFailure as error:
                is_unsent = isinstance(error, errors.ServerSelectionTimeoutError) and method not in _IN_PARTS
                is_read = method in _READS and self._was_lost_since(began)
                if is_in_transaction or not (is_unsent or is_read) or not self._may_repeat(began):
                    raise

    def _was_lost_since(self, instant: float) -> bool:
        return self._lost_at >= instant or not self._has_primary()

    def _may_repeat(self, began: float) -> bool:
        """Return whether an operation that began then may start again; a time limit of the caller has expired."""
        is_in_time = time.monotonic() < began + ELECTION_SECONDS and _limit_seconds.get() == OPERATION_SECONDS
        return is_in_time and self._probe is None and self._had_primary

    async def run(self, operation: Awaitable[T]) -> T:
        """Await an operation within the time limit; a timeout opens the breaker, unless it was one of an election.

        Raises NetworkTimeout after the time limit, one of OUTAGES for a refusal that is one, and Invalid if a document
        would exceed MongoDB's size limit, which many small changes can cause although no single request is too large.
        """
        seconds = _limit_seconds.get()
        try:
            async with asyncio.timeout(seconds + _QUEUE_SECONDS if seconds else None):
                result = await operation
        except TimeoutError as error:
            self._open()
            raise errors.NetworkTimeout("no answer in time") from error
        except errors.ConnectionFailure as error:
            if error.timeout and not isinstance(error, errors.ServerSelectionTimeoutError):
                self._open()
            raise
        except errors.OperationFailure as error:
            if _TOO_LARGE & _codes(error):
                raise _too_large() from error
            refusal = outages.of_mongodb(error)
            if refusal is error:
                raise
            raise refusal from None
        except errors.DocumentTooLarge as error:
            raise _too_large() from error
        self.last_answer = time.monotonic()
        return result

    def stop(self) -> None:
        """Stop probing."""
        for task in (self._probe, self._election):
            if task is not None:
                task.cancel()

    def _open(self) -> None:
        if self._probe is None and self._has_primary():
            _log.warning("MongoDB does not answer")
            # A fresh context: the time limit of the failed operation must not apply to the probe.
            self._probe = asyncio.create_task(
                self._ping_until_up(), name="probe MongoDB", context=contextvars.Context()
            )

    async def _ping_until_up(self) -> None:
        while True:
            # A short limit: a ping to a primary that hangs must not delay the first one to its successor.
            with contextlib.suppress(errors.PyMongoError), pymongo.timeout(_PROBE_LIMIT_SECONDS):
                await self._ping()
                break
            await asyncio.sleep(_PROBE_SECONDS)
        self._probe = None
        _log.info("MongoDB answers again")

    async def _await_election(self) -> None:
        _log.warning("MongoDB has no primary")
        while True:
            if self._has_primary():
                break
            await asyncio.sleep(_POLL_SECONDS)
        self._election = None
        _log.info("MongoDB has a primary again")


def _too_large() -> Invalid:
    return Invalid.whole("[TooLarge]", "The object would be larger than what can be stored.")


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
            if _is_operation(found):
                start = functools.partial(found, *arguments, **options)
                return self._breaker.call(start, name, options.get("session"))
            return BreakerProxy(found(*arguments, **options), self._breaker)

        return call

    async def __aiter__(self) -> AsyncIterator[Any]:
        await self._breaker.wait_for_primary()
        rows = aiter(self._target)
        while True:
            try:
                yield await self._breaker.run(anext(rows))
            except StopAsyncIteration:
                return


def _is_operation(method: Any) -> bool:
    """Return whether a method of a collection or cursor sends a command, rather than describe a cursor."""
    return (
        getattr(method, "is_async_method", False)
        or inspect.iscoroutinefunction(method)
        or method.__name__ in _SENT_BY_CURSORS
    )
