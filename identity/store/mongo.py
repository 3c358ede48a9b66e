"""The connection to MongoDB: client, transactions, and the errors an operator may meet.

motor is imported in this room only (docs/decisions): the day it is replaced, the replacement happens here.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from motor.motor_asyncio import (
    AsyncIOMotorClient,
    AsyncIOMotorClientSession,
    AsyncIOMotorCollection,
    AsyncIOMotorDatabase,
)
from pymongo import ReadPreference, WriteConcern
from pymongo.errors import (
    BulkWriteError,
    ConfigurationError,
    ConnectionFailure,
    DuplicateKeyError,
    InvalidOperation,
    InvalidURI,
    OperationFailure,
    PyMongoError,
)
from pymongo.read_concern import ReadConcern

from identity.call import Document
from identity.errors import Duplicate, StartupError, Unavailable
from identity.store.keyed_locks import KeyedLocks
from identity.store.store_circuit_breaker import OPERATION_SECONDS, BreakerProxy, StoreCircuitBreaker, time_limit

Session = AsyncIOMotorClientSession
Collection = AsyncIOMotorCollection[Document]
T = TypeVar("T")

Write = Callable[[Session | None], Awaitable[object]]
"""A deferred write, such as `functools.partial(users.insert, tenant_id, user)`, to be called with a session or None."""

STORE_ERRORS = (PyMongoError,)
"""What a store method may raise when MongoDB itself fails."""

_SELECTION_MS = 3000
"""How long a server is looked for: longer than the embedded one takes to start again."""
BULK_SECONDS = 60.0
"""How long a change of very many documents may take; what is left over is found and done again."""
_PAUSE_SECONDS = 0.002
_LONGEST_PAUSE_SECONDS = 0.1
"""Transactions that met once part by waiting at random, each time longer."""

CHUNK = 1000
"""How many documents one step of a change of very many touches."""

_DUPLICATE_KEY = 11000
"""MongoDB's number for a value that a unique index holds already."""

_STANDALONE = (
    "MongoDB at {where} is a standalone server, but transactions and change streams need a replica set."
    " One member will do:\n"
    "  1. add to mongod.conf:   replication: {{ replSetName: rs0 }}   and restart mongod\n"
    "  2. run once:             mongosh --eval 'rs.initiate()'"
)


class Database:
    """One MongoDB database and its client."""

    def __init__(self, uri: str, name: str) -> None:
        try:
            self._client: AsyncIOMotorClient[Document] = AsyncIOMotorClient(
                uri,
                appname="identity",
                tz_aware=True,
                serverSelectionTimeoutMS=_SELECTION_MS,
                timeoutMS=round(OPERATION_SECONDS * 1000),
                retryWrites=True,
                maxPoolSize=64,
            )
        except (InvalidURI, ConfigurationError, ValueError) as error:
            raise StartupError(f"mongodb.uri is not usable: {error}") from error
        self._after_commit: dict[int, list[Callable[[], None]]] = {}
        self._locks = KeyedLocks()
        self.motor: AsyncIOMotorDatabase[Document] = self._client.get_database(
            name, read_preference=ReadPreference.PRIMARY, write_concern=WriteConcern("majority", j=True)
        )
        self._breaker = StoreCircuitBreaker(lambda: self.motor.command("ping"))

    def collection(self, name: str) -> Collection:
        """A collection of this database, behind the guard."""
        return cast("Collection", BreakerProxy(self.motor[name], self._breaker))

    async def check(self) -> None:
        """Raise StartupError unless a writable replica set answers."""
        try:
            hello = await self._client.admin.command("hello")
            where = hello.get("me") or "the configured address"
            if "setName" not in hello and hello.get("msg") != "isdbgrid":
                raise StartupError(_STANDALONE.format(where=where))
            await self.motor.command("ping")
        except ConnectionFailure as error:
            raise StartupError(f"MongoDB does not answer (mongodb.uri): {_short(error)}") from error
        except OperationFailure as error:
            raise StartupError(f"MongoDB refused the connection (mongodb.uri): {_short(error)}") from error

    async def ping(self) -> None:
        """One round trip; raises PyMongoError when the server is gone."""
        self._breaker.require_answering()
        await self._breaker.answer(self.motor.command("ping"))

    async def in_transaction(
        self, write: Callable[[Session], Coroutine[Any, Any, T]], patience_seconds: float = OPERATION_SECONDS
    ) -> T:
        """Run `write` in one transaction, again when the server calls a conflict transient.

        Whatever `write` raises aborts the transaction and reaches the caller; a duplicate key comes out as Duplicate.
        Raises Unavailable when conflicts or an outage do not end in time: the driver's own loop would go on for two
        minutes, and nobody waits that long; who makes very many changes at once may have more `patience_seconds`.
        """
        self._breaker.require_answering()
        deadline = time.monotonic() + patience_seconds
        async with await self._breaker.answer(self._client.start_session()) as session:
            actions = self._after_commit[id(session)] = []
            try:
                with duplicates(), time_limit(patience_seconds):
                    result = await _transacted(session, write, deadline, lambda: self._locks.release(id(session)))
            finally:
                del self._after_commit[id(session)]
            for action in actions:
                action()
            return result

    async def execute(
        self, writes: Sequence[Write], session: Session | None = None, patience_seconds: float = OPERATION_SECONDS
    ) -> list[Any]:
        """Run writes in order and return their results; without a session, several share a new transaction."""
        if session is None and len(writes) > 1:
            return await self.in_transaction(functools.partial(_run, writes), patience_seconds)
        return await _run(writes, session)

    async def lock_keys(self, session: Session, names: Iterable[str]) -> None:
        """Wait until no other transaction of this process works on these; until this one ends, none will."""
        await self._locks.acquire(id(session), names, OPERATION_SECONDS)

    def run_now_and_after_commit(self, session: Session | None, action: Callable[[], None]) -> None:
        """Do something now and, inside a transaction, once more when it has committed.

        What was forgotten before the commit may have been read, and remembered, again in its old form.
        """
        action()
        if session is not None:
            self._after_commit[id(session)].append(action)

    async def drop(self) -> None:
        """Remove the whole database; for tests and tools."""
        await self._client.drop_database(self.motor.name)

    def close(self) -> None:
        """Close every connection."""
        self._breaker.stop()
        self._client.close()


@contextlib.contextmanager
def duplicates() -> Iterator[None]:
    """Turn MongoDB's duplicate key error into Duplicate, which names the index."""
    try:
        yield
    except DuplicateKeyError as error:
        raise Duplicate(_index_of((error.details or {}).get("errmsg", error))) from error
    except BulkWriteError as error:
        # Not from the error: it holds whole documents, and may end up in the log.
        first = next(iter(error.details["writeErrors"]), {"code": None, "errmsg": "write concern"})
        if first["code"] == _DUPLICATE_KEY:
            raise Duplicate(_index_of(first["errmsg"])) from None
        raise _without_documents(error, first) from None


def _without_documents(error: BulkWriteError, first: Mapping[str, Any]) -> OperationFailure:
    """The first failure of many writes, with what it says of trying again."""
    labels = [label for label in ("TransientTransactionError", "RetryableWriteError") if error.has_error_label(label)]
    message = f"a bulk write failed with code {first['code']}"
    return OperationFailure(message, first["code"], {"errorLabels": labels, "writeErrors": [{"code": first["code"]}]})


def _index_of(message: object) -> str:
    """The name of the index that refused, out of the server's words."""
    return str(message).partition(" index: ")[2].partition(" ")[0] or "_id_"


async def _transacted(
    session: Session, write: Callable[[Session], Coroutine[Any, Any, T]], deadline: float, ended: Callable[[], None]
) -> T:
    for attempt in itertools.count():
        session.start_transaction(ReadConcern("snapshot"), WriteConcern("majority", j=True))
        try:
            result = await write(session)
            await _commit(session, deadline)
        except PyMongoError as error:
            await _abort(session)
            if not error.has_error_label("TransientTransactionError"):
                raise
            if time.monotonic() > deadline:
                raise Unavailable("The service cannot make this change now. Try again.") from error
            ended()
            await asyncio.sleep(min(_PAUSE_SECONDS * 2**attempt, _LONGEST_PAUSE_SECONDS) * random.random())  # noqa: S311
        except BaseException:
            await _abort(session)
            raise
        else:
            return result
        finally:
            ended()
    raise AssertionError("the loop above has no end")


async def _commit(session: Session, deadline: float) -> None:
    """Commit; again, which is safe, as long as it is not known whether that happened."""
    while True:
        try:
            await session.commit_transaction()
        except PyMongoError as error:
            if not error.has_error_label("UnknownTransactionCommitResult") or time.monotonic() > deadline:
                raise
        else:
            return


async def _abort(session: Session) -> None:
    with contextlib.suppress(InvalidOperation):  # a commit was tried already: there is nothing left to abort
        await session.abort_transaction()


def _short(error: Exception) -> str:
    return str(error).split(", Timeout:")[0].split(", full error:")[0][:300]


async def _run(writes: Sequence[Write], session: Session | None) -> list[Any]:
    return [await write(session) for write in writes]
