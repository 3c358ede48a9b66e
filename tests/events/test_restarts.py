"""Workers that die in every state of a delivery: nothing is lost, and repetitions have the same id."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pymongo.errors import AutoReconnect

from identity import background_tasks
from identity.events.changes import Event
from identity.store.outbox import Outbox
from tests.events.conftest import VAULT
from tests.events.samples import PAYLOADS
from tests.events.test_worker import has_state, move, raise_events
from tests.receiver import Received, answers, hangs, in_turn, receiving, until


def another(engine: Any) -> Any:
    """A worker with its own metrics."""
    return engine.worker(jitter=0.0)


async def die(worker: Any) -> None:
    """Stop a worker as if its process were killed: no outcome is written and no lease released."""
    await background_tasks.end(worker._loops)
    await background_tasks.end(list(worker._running))


class Unsettling(Outbox):
    """An outbox that can only be read."""

    async def record_outcomes(self, outcomes: Any) -> None:
        raise AutoReconnect("gone")

    async def release(self, leases: Any, now: Any) -> None:
        raise AutoReconnect("gone")


@pytest.mark.requirement("webhooks-15.3-38")
async def test_deliveries_of_a_dead_worker_continue_after_its_lease(
    engine: Any,
) -> None:
    engine.enable("user.create", "user.delete")
    async with receiving(in_turn(hangs, answers(200))) as receiver, receiving() as witness:
        engine.add_webhook(receiver.url, "user.create")
        engine.add_webhook(witness.url, "user.delete")
        await raise_events(engine)
        first = another(engine)
        await first.start()
        await receiver.wait_for(1)
        await die(first)
        second = another(engine)
        await second.start()
        move(engine, seconds=29)
        await engine.bus.announce(engine.call(), [Event("user.delete", PAYLOADS["user.delete"])])
        await witness.wait_for(1)
        assert len(receiver.requests) == 1
        move(engine, seconds=2)
        await receiver.wait_for(2)
        await second.stop()
    assert receiver.requests[0].body == receiver.requests[1].body
    assert await engine.states() == [("succeeded", 1)] * 2


def _ids(receiver: Any) -> set[str]:
    return {request.event["id"] for request in receiver.requests}


@pytest.mark.requirement("webhooks-15.3-38")
async def test_new_worker_continues_the_schedule(engine: Any) -> None:
    engine.enable("user.create")
    async with receiving(answers(500)) as receiver:
        engine.add_webhook(receiver.url, "user.create")
        await raise_events(engine)
        for made, pause in ((1, 6), (2, 301)):
            async with engine.working(jitter=0.0):
                await receiver.wait_for(made)
                await until(lambda made=made: has_state(engine, ("due", made)))
            move(engine, seconds=pause - 2)
            assert await engine.outbox.lease(engine.clock.now(), 30, lambda _webhook: 100, 100) == []
            move(engine, seconds=2)
        async with engine.working(jitter=0.0):
            await receiver.wait_for(3)
            await until(lambda: has_state(engine, ("given up", 3)))
    assert len({request.body for request in receiver.requests}) == 1
    (row,) = [dict(each) async for each in engine.database.collection("deliveries").find({})]
    assert [attempt.get("nextAttemptInstant") is None for attempt in row["attempts"]] == [False, False, True]


@pytest.mark.requirement("webhooks-15.3-28")
async def test_unrecorded_delivery_is_repeated_with_the_same_id(engine: Any) -> None:
    engine.enable("user.create")
    whole = engine.outbox
    async with receiving() as receiver:
        engine.add_webhook(receiver.url, "user.create")
        await raise_events(engine, 3)
        engine.outbox = Unsettling(engine.database, VAULT, schedule_seconds=86_400)
        async with engine.working(jitter=0.0):
            await receiver.wait_for(3)
        assert await engine.states() == [("due", 0)] * 3
        engine.outbox = whole
        move(engine, seconds=31)
        async with engine.working(jitter=0.0):
            await receiver.wait_for(6)
            await until(lambda: has_state(engine, *[("succeeded", 1)] * 3))
    bodies = [request.body for request in receiver.requests]
    assert len(set(bodies)) == 3
    assert {bodies.count(body) for body in bodies} == {2}
    assert {request.headers["webhook-id"] for request in receiver.requests} == _ids(receiver)


@pytest.mark.requirement("webhooks-15.3-28")
async def test_suspended_worker_does_not_overwrite_the_outcome_of_another(engine: Any) -> None:
    """It was suspended, and then receives a failure for a delivery that has already succeeded elsewhere."""
    engine.enable("user.create")
    go_on = asyncio.Event()

    async def behave(request: Received, writer: asyncio.StreamWriter) -> None:
        if len(receiver.requests) == 1:
            await go_on.wait()
            await answers(500)(request, writer)
        else:
            await answers(200)(request, writer)

    class Asleep(Outbox):
        async def renew(self, leases: Any, until: Any) -> None:
            """Its leases are not renewed."""

        async def lease(self, *arguments: Any, **members: Any) -> Any:
            """It leases nothing while it is suspended."""
            return [] if receiver.requests else await super().lease(*arguments, **members)

    whole = engine.outbox
    async with receiving(behave) as receiver:
        engine.add_webhook(receiver.url, "user.create", readTimeout=60_000)
        await raise_events(engine)
        engine.outbox = Asleep(engine.database, VAULT, schedule_seconds=86_400)
        async with engine.working(jitter=0.1):
            await receiver.wait_for(1)
            engine.outbox = whole
            move(engine, seconds=31)
            async with engine.working(jitter=0.0):
                await receiver.wait_for(2)
                await until(lambda: has_state(engine, ("succeeded", 1)))
            go_on.set()
            await until(lambda: engine.written)
    assert await engine.states() == [("succeeded", 1)]
    assert len(receiver.requests) == 2
