"""The circuit breaker: one timeout opens it for all callers, and one successful ping closes it again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    NetworkTimeout,
    OperationFailure,
    ServerSelectionTimeoutError,
)

from identity.store import outages, store_circuit_breaker
from identity.store.store_circuit_breaker import BreakerProxy, StoreCircuitBreaker, time_limit


class _Server:
    """Answers, fails, or hangs; counts its calls."""

    name = "things"

    def __init__(self) -> None:
        self.hangs = False
        self.asked = 0
        self.back = asyncio.Event()

    async def find_one(self, answer: object) -> object:
        self.asked += 1
        if self.hangs:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def ping(self) -> None:
        await self.back.wait()


async def test_timeout_opens_the_breaker_until_a_ping_succeeds() -> None:
    server = _Server()
    breaker = StoreCircuitBreaker(server.ping)
    things = BreakerProxy(server, breaker)
    assert await things.find_one("first") == "first"
    server.hangs = True
    with time_limit(0.01), pytest.raises(NetworkTimeout):
        await things.find_one("lost")
    for _ in range(100):
        with pytest.raises(AutoReconnect):
            await things.find_one("refused")
    assert server.asked == 2
    server.hangs = False
    server.back.set()
    while True:
        try:
            assert await things.find_one("again") == "again"
            break
        except AutoReconnect:
            await asyncio.sleep(0)


@pytest.mark.parametrize("error", [OperationFailure("refused"), AutoReconnect("the connection was closed")])
async def test_immediate_error_does_not_open_the_breaker(error: Exception) -> None:
    server = _Server()
    things = BreakerProxy(server, StoreCircuitBreaker(server.ping))
    with pytest.raises(type(error)):
        await things.find_one(error)
    assert await things.find_one("next") == "next"
    assert things.name == "things"


async def test_longer_time_limit_applies_within_its_block() -> None:
    server = _Server()
    things = BreakerProxy(server, StoreCircuitBreaker(server.ping))
    server.hangs = True
    with time_limit(0):
        asked = asyncio.ensure_future(things.find_one("long"))
    done, _ = await asyncio.wait({asked}, timeout=0.05)
    assert not done
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)


class _Set:
    """A replica set that may have no primary; its collection counts what it was sent."""

    name = "things"

    def __init__(self) -> None:
        self.has_primary = True
        self.sent = 0
        self.errors: list[Exception] = []
        self.breaker = StoreCircuitBreaker(self.ping, lambda: self.has_primary)
        self.things = BreakerProxy(self, self.breaker)

    async def ping(self) -> None:
        """Answer."""

    async def find_one(self, session: object = None) -> str:
        self.sent += 1
        if self.errors:
            raise self.errors.pop(0)
        return "found"

    insert_one = update_one = bulk_write = find_one


class _Transaction:
    in_transaction = True


@pytest.fixture
async def replica_set() -> AsyncIterator[_Set]:
    found = _Set()
    await found.things.find_one()
    yield found
    found.breaker.stop()


async def test_operation_waits_for_the_election_of_a_primary(replica_set: _Set) -> None:
    replica_set.has_primary = False
    waiting = asyncio.ensure_future(replica_set.things.insert_one())
    await asyncio.sleep(0.05)
    assert (waiting.done(), replica_set.sent) == (False, 1)
    replica_set.has_primary = True
    assert await waiting == "found"


async def test_first_operation_does_not_wait_for_a_primary_because_it_makes_the_driver_connect() -> None:
    fresh = _Set()
    fresh.has_primary = False
    await fresh.breaker.run(fresh.ping())
    assert await fresh.things.find_one() == "found"


async def test_operations_fail_at_once_when_no_primary_was_elected_in_time(
    replica_set: _Set, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_circuit_breaker, "ELECTION_SECONDS", 0.05)
    replica_set.has_primary = False
    for _ in range(3):
        with pytest.raises(AutoReconnect):
            await replica_set.things.find_one()
    assert replica_set.sent == 1


async def test_no_more_than_a_bounded_number_of_operations_waits(
    replica_set: _Set, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_circuit_breaker, "_MOST_WAITING", 2)
    replica_set.has_primary = False
    waiting = [asyncio.ensure_future(replica_set.things.find_one()) for _ in range(5)]
    await asyncio.sleep(0.05)
    assert [task.done() for task in waiting] == [False, False, True, True, True]
    replica_set.has_primary = True
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert results[:2] == ["found", "found"]
    assert all(isinstance(result, AutoReconnect) for result in results[2:])


@pytest.mark.parametrize(
    ("method", "error", "times"),
    [
        ("find_one", AutoReconnect("closed"), 2),
        ("find_one", ServerSelectionTimeoutError("no primary"), 2),
        ("insert_one", ServerSelectionTimeoutError("no primary"), 2),
        ("insert_one", AutoReconnect("closed"), 1),
        ("bulk_write", ServerSelectionTimeoutError("no primary"), 1),
    ],
)
async def test_what_the_old_primary_may_have_executed_is_not_repeated(
    replica_set: _Set, method: str, error: Exception, times: int
) -> None:
    """Reads are repeated, and what no server has received."""
    replica_set.errors = [error]
    replica_set.has_primary = False
    running = asyncio.ensure_future(getattr(replica_set.things, method)())
    await asyncio.sleep(0)
    replica_set.has_primary = True
    before = replica_set.sent
    result = (await asyncio.gather(running, return_exceptions=True))[0]
    assert replica_set.sent - before == times
    assert result == "found" if times == 2 else result is error


async def test_transaction_is_repeated_as_a_whole_after_an_election(replica_set: _Set) -> None:
    replica_set.has_primary = False
    running = asyncio.ensure_future(replica_set.things.update_one(session=_Transaction()))
    await asyncio.sleep(0.05)
    replica_set.has_primary = True
    with pytest.raises(OperationFailure) as raised:
        await running
    assert raised.value.has_error_label("TransientTransactionError")
    assert replica_set.sent == 1


def test_refusal_of_a_bulk_write_has_no_documents() -> None:
    details = {"writeErrors": [{"code": 262, "errmsg": "secret", "op": {"password": "secret"}}]}
    refusal = outages.of_mongodb(BulkWriteError(details))
    assert isinstance(refusal, outages.OUTAGES)
    assert (refusal.code, outages.reason(refusal)) == (262, "262: ExceededTimeLimit")
    assert "secret" not in f"{refusal} {refusal.details}"
