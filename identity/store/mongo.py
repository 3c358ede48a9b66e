"""The MongoDB client: connection, transactions, and translation of errors.

motor is imported only in this module, so that it can be replaced here (docs/decisions).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import random
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from motor import motor_asyncio
from pymongo import IndexModel, ReadPreference, WriteConcern, errors
from pymongo.read_concern import ReadConcern

from identity.call import Document
from identity.errors import Duplicate, StartupError, Unavailable
from identity.store import outages
from identity.store.store_circuit_breaker import OPERATION_SECONDS, BreakerProxy, StoreCircuitBreaker, time_limit
from identity.store.telemetry import MongoCommands, StoreTelemetry

Session = motor_asyncio.AsyncIOMotorClientSession
Collection = motor_asyncio.AsyncIOMotorCollection[Document]
T = TypeVar("T")

Write = Callable[[Session | None], Awaitable[Any]]
"""A deferred write, such as `functools.partial(users.insert, tenant_id, user)`, to be called with a session or None."""

STORE_ERRORS = (errors.PyMongoError,)
"""The exceptions that a store method may raise when MongoDB fails."""

BULK_SECONDS = 60.0
"""The time limit for a change of very many documents; an interrupted one is found and repeated."""
_ABORT_SECONDS = 1.0
_MIN_BACKOFF_SECONDS = 0.002
_MAX_BACKOFF_SECONDS = 0.1
"""Conflicting transactions retry with exponential backoff and jitter."""

_INDEX_NOT_FOUND = 27

_WITHOUT_ELECTIONS = frozenset({"LoadBalanced", "Sharded", "Single"})
"""The types of a topology in which every known server accepts writes, as far as the driver knows."""

CHUNK = 1000
"""The number of documents per step of a bulk change."""

TTL_INDEX = IndexModel([("expiresAt", 1)], name="expiry", expireAfterSeconds=0)
"""Deletes each document at the date in its `expiresAt`."""

_DUPLICATE_KEY = 11000
"""MongoDB's error code for a violation of a unique index."""

_STANDALONE = (
    "MongoDB at {where} is a standalone server, but transactions and change streams need a replica set."
    " One member will do:\n"
    "  1. add to mongod.conf:   replication: {{ replSetName: rs0 }}   and restart mongod\n"
    "  2. run once:             mongosh --eval 'rs.initiate()'"
)


class KeyedLocks:
    """In-process locks by key, each held by one owner (a transaction) until it ends.

    Of several transactions that change the same document, MongoDB lets one continue and aborts the others at once. With
    many of them, most would exhaust their retries. These locks serialise the transactions of one process; conflicts
    between the few processes of an instance are left to MongoDB.
    """

    def __init__(self) -> None:
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._held: dict[int, dict[str, asyncio.Lock]] = {}

    async def acquire(self, owner: int, keys: Iterable[str], timeout_seconds: float) -> None:
        """Acquire the locks of these keys, always in the same order.

        After the timeout the owner continues without the lock: locks avoid retries, and MongoDB ensures isolation.
        """
        held = self._held.setdefault(owner, {})
        for key in sorted(set(keys) - held.keys()):
            lock = self._locks.setdefault(key, asyncio.Lock())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(lock.acquire(), timeout_seconds)
                held[key] = lock

    def release(self, owner: int) -> None:
        """Release all locks of an owner."""
        for lock in self._held.pop(owner, {}).values():
            lock.release()


class Database:
    """One MongoDB database and its client."""

    def __init__(self, uri: str, name: str, telemetry: StoreTelemetry | None = None) -> None:
        try:
            self._client: motor_asyncio.AsyncIOMotorClient[Document] = motor_asyncio.AsyncIOMotorClient(
                uri,
                appname="identity",
                tz_aware=True,
                # As long as an operation: the driver repeats what a primary may have executed once there is a new one.
                serverSelectionTimeoutMS=round(OPERATION_SECONDS * 1000),
                timeoutMS=round(OPERATION_SECONDS * 1000),
                retryWrites=True,
                maxPoolSize=64,
                event_listeners=[] if telemetry is None else [MongoCommands(telemetry)],
            )
        except (errors.InvalidURI, errors.ConfigurationError, ValueError, OSError) as error:  # OSError: TLS files
            raise StartupError(f"mongodb.uri is not usable: {error}") from error
        self._after_commit: dict[int, list[Callable[[], None]]] = {}
        self._locks = KeyedLocks()
        self.motor: motor_asyncio.AsyncIOMotorDatabase[Document] = self._client.get_database(
            name, read_preference=ReadPreference.PRIMARY, write_concern=WriteConcern("majority", j=True)
        )
        self._breaker = StoreCircuitBreaker(lambda: self.motor.command("ping"), self.has_primary)

    def collection(self, name: str) -> Collection:
        """A collection of this database whose operations run through the circuit breaker."""
        return cast("Collection", BreakerProxy(self.motor[name], self._breaker))

    async def check(self) -> None:
        """Raise StartupError unless a replica set with a primary answers."""
        try:
            hello = await self.hello()
            where = hello.get("me") or "the configured address"
            if "setName" not in hello and hello.get("msg") != "isdbgrid":
                raise StartupError(_STANDALONE.format(where=where))
            await self.motor.command("ping")
        except errors.ConnectionFailure as error:
            raise StartupError(f"MongoDB does not answer (mongodb.uri): {short(error)}") from error
        except errors.OperationFailure as error:
            raise StartupError(f"MongoDB refused the connection (mongodb.uri): {short(error)}") from error

    async def hello(self) -> Document:
        """Return how the server describes itself."""
        return dict(await self._client.admin.command("hello"))

    async def run_as_administrator(self, command: Document) -> None:
        """Run a command of the database `admin`."""
        await self._client.admin.command(command)

    def last_answer(self) -> float:
        """Return the monotonic instant at which MongoDB answered last."""
        return self._breaker.last_answer

    async def ping(self) -> None:
        """One round trip; raises PyMongoError if the server is unavailable."""
        await self._breaker.call(lambda: self.motor.command("ping"))

    def has_primary(self) -> bool:
        """Return whether the driver knows a server that accepts writes."""
        description = self._client.delegate.topology_description
        if description.topology_type_name == "ReplicaSetWithPrimary":
            return True
        return description.topology_type_name in _WITHOUT_ELECTIONS and bool(description.known_servers)

    async def in_transaction(
        self, write: Callable[[Session], Coroutine[Any, Any, T]], limit_seconds: float = OPERATION_SECONDS
    ) -> T:
        """Run `write` in a transaction and retry transient conflicts.

        An exception of `write` aborts the transaction and is raised. Raises Duplicate for a duplicate key and
        Unavailable if conflicts last longer than `limit_seconds` (the driver would retry for two minutes). The time of
        an election does not count.
        """
        self._breaker.require_closed()
        async with await self._breaker.run(self._client.start_session()) as session:
            actions = self._after_commit[id(session)] = []
            release_locks = functools.partial(self._locks.release, id(session))
            try:
                with duplicates():
                    result = await self._run_with_retries(session, write, limit_seconds, release_locks)
            finally:
                del self._after_commit[id(session)]
            for action in actions:
                action()
            return result

    async def _run_with_retries(
        self,
        session: Session,
        write: Callable[[Session], Coroutine[Any, Any, T]],
        limit_seconds: float,
        release_locks: Callable[[], None],
    ) -> T:
        deadline = time.monotonic() + limit_seconds
        for attempt in itertools.count():
            if await self._breaker.wait_for_primary():
                deadline = time.monotonic() + limit_seconds
            session.start_transaction(ReadConcern("snapshot"), WriteConcern("majority", j=True))
            try:
                with time_limit(max(deadline - time.monotonic(), _MIN_BACKOFF_SECONDS)):
                    result = await write(session)
                await self._commit(session, deadline)
            except errors.PyMongoError as error:
                await _abort(session)
                if not error.has_error_label("TransientTransactionError"):
                    raise _as_outage(error) from None
                if time.monotonic() > deadline and self.has_primary():
                    message = "The service cannot make this change now. Try again."
                    raise Unavailable(message, retry_after_seconds=1) from error
            except BaseException:
                await _abort(session)
                raise
            else:
                return result
            finally:
                release_locks()
            backoff_seconds = min(_MIN_BACKOFF_SECONDS * 2**attempt, _MAX_BACKOFF_SECONDS)
            await asyncio.sleep(backoff_seconds * random.random())  # noqa: S311
        raise AssertionError("unreachable")

    async def _commit(self, session: Session, deadline: float) -> None:
        """Commit, and retry, which is safe, while the result is unknown and there is time or an election."""
        while True:
            try:
                with time_limit(OPERATION_SECONDS):
                    await session.commit_transaction()
            except errors.PyMongoError as error:
                if not error.has_error_label("UnknownTransactionCommitResult"):
                    raise
                if await self._breaker.wait_for_primary():
                    deadline = time.monotonic() + OPERATION_SECONDS
                elif time.monotonic() > deadline:
                    raise
                await asyncio.sleep(_MAX_BACKOFF_SECONDS * random.random())  # noqa: S311
            else:
                return

    async def execute(
        self, writes: Sequence[Write], session: Session | None = None, limit_seconds: float = OPERATION_SECONDS
    ) -> list[Any]:
        """Run writes in order and return their results; without a session, several share a new transaction."""
        if session is None and len(writes) > 1:
            return await self.in_transaction(functools.partial(_run, writes), limit_seconds)
        return await _run(writes, session)

    async def lock_keys(self, session: Session, keys: Iterable[str]) -> None:
        """Lock these keys against other transactions of this process until the transaction ends."""
        await self._locks.acquire(id(session), keys, OPERATION_SECONDS)

    def run_now_and_after_commit(self, session: Session | None, action: Callable[[], None]) -> None:
        """Run `action` now and, in a transaction, again after the commit.

        For cache invalidation: between the two, another request may cache the old document again.
        """
        action()
        if session is not None:
            self._after_commit[id(session)].append(action)

    async def drop(self) -> None:
        """Drop the database; for tests and tools."""
        await self._client.drop_database(self.motor.name)

    def close(self) -> None:
        """Close every connection."""
        self._breaker.stop()
        self._client.close()


@contextlib.contextmanager
def duplicates() -> Iterator[None]:
    """Translate MongoDB's duplicate key error to Duplicate with the name of the index."""
    try:
        yield
    except errors.DuplicateKeyError as error:
        raise Duplicate(_index_of((error.details or {}).get("errmsg", error))) from error
    except errors.BulkWriteError as error:
        # Without a cause: the error contains whole documents and could be logged.
        first = next(iter(error.details["writeErrors"]), {"code": None, "errmsg": "write concern"})
        if first["code"] == _DUPLICATE_KEY:
            raise Duplicate(_index_of(first["errmsg"])) from None
        raise _without_documents(error, first) from None


def _without_documents(error: errors.BulkWriteError, first: Mapping[str, Any]) -> errors.OperationFailure:
    """The first failure of a bulk write, with its retry labels."""
    labels = [label for label in ("TransientTransactionError", "RetryableWriteError") if error.has_error_label(label)]
    message = f"a bulk write failed with code {first['code']}"
    return errors.OperationFailure(
        message, first["code"], {"errorLabels": labels, "writeErrors": [{"code": first["code"]}]}
    )


def _index_of(message: object) -> str:
    """The name of the violated index, from the server's message."""
    return str(message).partition(" index: ")[2].partition(" ")[0] or "_id_"


async def drop_obsolete_index(collection: Collection, name: str) -> None:
    """Drop an index of earlier releases, if it exists; another process may do the same.

    Queries first: dropping an index blocks all writes, even if the index does not exist.
    """
    if name in await collection.index_information():
        try:
            await collection.drop_index(name)
        except errors.OperationFailure as error:
            if error.code != _INDEX_NOT_FOUND:
                raise


async def delete_many(collection: Collection, where: Mapping[str, Any], session: Session | None = None) -> int:
    """Delete all matching documents within `BULK_SECONDS` and return their number."""
    with time_limit(BULK_SECONDS):
        return int((await collection.delete_many(where, session=session)).deleted_count)


async def delete_in_chunks(collection: Collection, where: Mapping[str, Any]) -> int:
    """Delete all matching documents in short steps and return their number."""
    deleted = 0
    async for ids in id_chunks(collection, where):
        deleted += await delete_many(collection, {"_id": {"$in": ids}})
    return deleted


async def id_chunks(collection: Collection, where: Mapping[str, Any]) -> AsyncIterator[list[str]]:
    """The ids of matching documents in chunks; the caller changes or deletes each chunk so that it matches no more."""
    while ids := [found["_id"] async for found in collection.find(where, {"_id": 1}).limit(CHUNK)]:
        yield ids


def tenant_filter(tenant_id: str | None) -> Document:
    """The filter for one tenant, or for all tenants when it is None."""
    return {} if tenant_id is None else {"tenantId": tenant_id}


async def _abort(session: Session) -> None:
    # After a commit attempt there is nothing to abort; without a primary the transaction is gone.
    with contextlib.suppress(errors.InvalidOperation), time_limit(_ABORT_SECONDS):
        await session.abort_transaction()


def _as_outage(error: errors.PyMongoError) -> errors.PyMongoError:
    """Return the failure of a commit as one of OUTAGES, if it is one: commits do not pass the circuit breaker."""
    return outages.of_mongodb(error) if isinstance(error, errors.OperationFailure) else error


def short(error: Exception) -> str:
    """Return the message of an error on one line, without the description of every server."""
    return " ".join(str(error).split(", Timeout:")[0].split(", full error:")[0].split())[:300]


async def _run(writes: Sequence[Write], session: Session | None) -> list[Any]:
    return [await write(session) for write in writes]
