"""The circuit breaker: one timeout opens it for all callers, and one successful ping closes it again."""

from __future__ import annotations

import asyncio

import pytest
from pymongo.errors import AutoReconnect, NetworkTimeout, OperationFailure

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
            things.find_one("refused")
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
