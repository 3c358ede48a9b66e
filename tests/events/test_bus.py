"""The event bus: approval, write, announcement, and vetoes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from identity.errors import Duplicate, WebhookTransactionFailed
from identity.events import bus
from identity.events.changes import Change, Event
from tests.events.samples import PAYLOADS
from tests.receiver import answers, hangs, in_turn, receiving

CREATE = Event("user.create", PAYLOADS["user.create"])
COMPLETE = Event("user.create.complete", PAYLOADS["user.create.complete"])
REGISTER = Event("user.registration.create", PAYLOADS["user.registration.create"])


class Things:
    """A collection that a change writes to, and the sessions it was written with."""

    def __init__(self, engine: Any) -> None:
        self.collection = engine.database.collection("things")
        self.sessions: list[Any] = []

    async def write(self, session: Any) -> str:
        self.sessions.append(session)
        await self.collection.insert_one({"_id": "thing"}, session=session)
        return "result"

    async def exists(self) -> bool:
        return await self.collection.count_documents({}) == 1


@pytest.fixture
def things(engine: Any) -> Things:
    return Things(engine)


@pytest.mark.requirement("design-state-21", "webhooks-10-12")
async def test_change_without_subscribers_needs_no_transaction(engine: Any, things: Things) -> None:
    results = await engine.bus.commit(engine.call(), Change([things.write], [CREATE], [COMPLETE]))
    assert results == ["result"]
    assert things.sessions == [None]
    assert await engine.log.find_all(None, {}) == []


@pytest.mark.requirement("design-state-21")
async def test_disabled_event_needs_no_transaction(engine: Any, things: Things) -> None:
    engine.add_webhook("http://127.0.0.1:9/", "user.create", "user.create.complete")
    engine.events["user.create"] = {"enabled": False, "transactionType": "Any"}
    await engine.bus.commit(engine.call(), Change([things.write], [CREATE], lambda _results: [COMPLETE]))
    assert things.sessions == [None]


@pytest.mark.requirement("design-state-13", "service-19", "webhooks-15.3-26", "webhooks-8-11")
async def test_change_and_its_events_are_written_together(engine: Any, things: Things) -> None:
    engine.enable("user.create", "user.create.complete")
    webhook = engine.add_webhook("http://127.0.0.1:9/", "user.create", "user.create.complete")
    seen: list[Any] = []

    def announced(results: Sequence[Any]) -> list[Event]:
        seen.extend(results)
        return [COMPLETE]

    await engine.bus.commit(engine.call(), Change([things.write], [CREATE], announced))
    assert things.sessions[0] is not None
    assert seen == ["result"]
    events = await engine.log.find_all(None, {})
    assert [event["type"] for event in events] == ["user.create", "user.create.complete"]
    for event in events:
        (delivery,) = event["deliveries"]
        assert (delivery["webhookId"], delivery["state"], delivery["attempts"]) == (webhook["id"], "due", [])


@pytest.mark.requirement("design-state-13")
async def test_failed_write_leaves_no_event(engine: Any, things: Things) -> None:
    engine.enable("user.create")
    engine.add_webhook("http://127.0.0.1:9/", "user.create")
    await things.collection.insert_one({"_id": "thing"})
    with pytest.raises(Duplicate):
        await engine.bus.commit(engine.call(), Change([things.write], [CREATE]))
    assert await engine.log.find_all(None, {}) == []


@pytest.mark.requirement("webhooks-8-11")
async def test_workers_are_woken_after_the_commit(engine: Any, things: Things) -> None:
    engine.enable("user.create")
    engine.add_webhook("http://127.0.0.1:9/", "user.create")
    engine.wakeups.awake.clear()
    await engine.bus.commit(engine.call(), Change([things.write], [CREATE]))
    assert engine.wakeups.awake.is_set()


async def vetoed(engine: Any) -> list[tuple[str, int]]:
    """The log of a rejected change: types and attempts of the approval requests, with no due deliveries."""
    found = await engine.log.find_all(None, {})
    assert all(event["result"] == "Failed" and event["untried"] == [] for event in found)
    deliveries = [delivery for event in found for delivery in event["deliveries"]]
    assert all(each["state"] == "vetoed" and "nextAttempt" not in each for each in deliveries)
    assert all(len(each["attempts"]) == 1 for each in deliveries)
    return [(event["type"], len(event["deliveries"])) for event in found]


@pytest.mark.requirement("design-state-13", "webhooks-8-9")
async def test_veto_leaves_no_trace_but_in_the_log(engine: Any, things: Things) -> None:
    engine.enable("user.create", transaction="AbsoluteMajority")
    engine.enable("user.create.complete")
    async with receiving() as good, receiving(answers(500)) as bad:
        for receiver in (good, bad):
            engine.add_webhook(receiver.url, "user.create", "user.create.complete")
        with pytest.raises(WebhookTransactionFailed) as caught:
            await engine.bus.commit(engine.call(), Change([things.write], [CREATE], [COMPLETE]))
        assert bad.url not in caught.value.message
        assert "status 500" in caught.value.log_detail
        assert (len(good.requests), len(bad.requests)) == (1, 1)
    assert things.sessions == []
    assert not await things.exists()
    assert await vetoed(engine) == [("user.create", 2)]


@pytest.mark.requirement("webhooks-15.2-15")
async def test_approval_request_of_a_failed_change_is_logged(engine: Any) -> None:
    """The request was sent, and the receiver may have acted on it; the log has to show it."""
    engine.enable("user.create", transaction="AbsoluteMajority")
    engine.enable("user.registration.create", "user.create.complete")

    async def write(_session: Any) -> None:
        raise Duplicate("unique_name")

    async with receiving() as receiver:
        engine.add_webhook(receiver.url, "user.create", "user.registration.create", "user.create.complete")
        with pytest.raises(Duplicate):
            await engine.bus.commit(engine.call(), Change([write], [CREATE, REGISTER], [COMPLETE]))
        assert [request.event["type"] for request in receiver.requests] == ["user.create"]
    assert await vetoed(engine) == [("user.create", 1)]


@pytest.mark.requirement("webhooks-8-8")
async def test_approved_change_is_written_and_failed_webhooks_are_retried(engine: Any, things: Things) -> None:
    engine.enable("user.create", transaction="Any")
    async with receiving() as good, receiving(answers(500)) as bad:
        well, ill = (engine.add_webhook(receiver.url, "user.create") for receiver in (good, bad))
        await engine.bus.commit(engine.call(), Change([things.write], [CREATE]))
        assert good.requests[0].body == bad.requests[0].body
    assert await things.exists()
    (event,) = await engine.log.find_all(None, {})
    assert event["body"].encode() == good.requests[0].body
    rows = {row["webhookId"]: row for row in event["deliveries"]}
    assert (rows[well["id"]]["state"], len(rows[well["id"]]["attempts"])) == ("succeeded", 1)
    failed = rows[ill["id"]]
    assert (failed["state"], failed["attempts"][0]["statusCode"]) == ("due", 500)
    assert 3900 <= failed["nextAttempt"] - failed["attempts"][0]["endInstant"] <= 6100


async def test_without_retries_the_approval_request_is_the_only_attempt(engine: Any, things: Things) -> None:
    engine.schedule = ()
    engine.enable("user.create", transaction="Any")
    async with receiving() as good, receiving(answers(500)) as bad:
        for receiver in (good, bad):
            engine.add_webhook(receiver.url, "user.create")
        await engine.bus.commit(engine.call(), Change([things.write], [CREATE]))
    assert sorted(await engine.states()) == [("given up", 1), ("succeeded", 1)]


@pytest.mark.requirement("webhooks-8-1")
@pytest.mark.parametrize(
    ("transaction", "failing", "passes"),
    [
        ("None", 3, True),
        ("Any", 2, True),
        ("Any", 3, False),
        ("SimpleMajority", 1, True),
        ("SimpleMajority", 2, False),
        ("SuperMajority", 1, True),
        ("SuperMajority", 2, False),
        ("AbsoluteMajority", 0, True),
        ("AbsoluteMajority", 1, False),
    ],
)
async def test_transaction_type_decides(
    engine: Any, things: Things, transaction: str, failing: int, passes: bool
) -> None:
    engine.enable("user.create", transaction=transaction)
    async with receiving() as good, receiving(answers(400)) as bad:
        for index in range(3):
            engine.add_webhook(bad.url if index < failing else good.url, "user.create")
        if passes:
            await engine.bus.commit(engine.call(), Change([things.write], [CREATE]))
        else:
            with pytest.raises(WebhookTransactionFailed):
                await engine.bus.commit(engine.call(), Change([things.write], [CREATE]))
        asked = len(good.requests) + len(bad.requests)
    assert await things.exists() == passes
    assert asked == (0 if transaction == "None" else 3)


@pytest.mark.requirement("webhooks-8-7")
async def test_approval_requests_are_sent_concurrently(engine: Any, things: Things) -> None:
    engine.enable("user.create", transaction="AbsoluteMajority")
    arrived = 0
    everybody = asyncio.Event()

    async def behave(request: Any, writer: asyncio.StreamWriter) -> None:
        nonlocal arrived
        arrived += 1
        if arrived == 5:
            everybody.set()
        await everybody.wait()
        await answers(200)(request, writer)

    async with receiving(behave) as receiver:
        for _ in range(5):
            engine.add_webhook(receiver.url, "user.create")
        await engine.bus.commit(engine.call(), Change([things.write], [CREATE]))
    assert await things.exists()


@pytest.mark.requirement("contract-webhook-timeouts", "webhooks-8-7")
async def test_receiver_that_hangs_vetoes_after_its_own_timeouts(engine: Any, things: Things) -> None:
    engine.enable("user.create", transaction="AbsoluteMajority")
    async with receiving(hangs) as receiver:
        engine.add_webhook(receiver.url, "user.create", connectTimeout=50, readTimeout=50)
        with pytest.raises(WebhookTransactionFailed):
            await engine.bus.commit(engine.call(), Change([things.write], [CREATE]))
    assert not await things.exists()


@pytest.mark.requirement("webhooks-15.3-36", "webhooks-8-10")
async def test_veto_of_the_second_event_undoes_the_first(engine: Any, things: Things) -> None:
    engine.enable("user.create", "user.registration.create", transaction="AbsoluteMajority")
    async with receiving(in_turn(answers(200), answers(403))) as receiver:
        engine.add_webhook(receiver.url, "user.create", "user.registration.create")
        with pytest.raises(WebhookTransactionFailed):
            await engine.bus.commit(engine.call(), Change([things.write], [CREATE, REGISTER]))
        assert [request.event["type"] for request in receiver.requests] == ["user.create", "user.registration.create"]
    assert not await things.exists()
    assert await vetoed(engine) == [("user.create", 1), ("user.registration.create", 1)]


async def test_veto_of_the_first_event_keeps_the_second_from_being_sent(engine: Any, things: Things) -> None:
    engine.enable("user.create", "user.registration.create", transaction="AbsoluteMajority")
    async with receiving(answers(403)) as receiver:
        engine.add_webhook(receiver.url, "user.create", "user.registration.create")
        with pytest.raises(WebhookTransactionFailed):
            await engine.bus.commit(engine.call(), Change([things.write], [CREATE, REGISTER]))
        assert len(receiver.requests) == 1


@pytest.mark.requirement("webhooks-8-6")
async def test_object_is_invisible_during_its_approval_request(engine: Any, things: Things) -> None:
    engine.enable("user.create", transaction="AbsoluteMajority")
    seen: list[bool] = []

    async def behave(request: Any, writer: asyncio.StreamWriter) -> None:
        seen.append(await things.exists())
        await answers(200)(request, writer)

    async with receiving(behave) as receiver:
        engine.add_webhook(receiver.url, "user.create")
        await engine.bus.commit(engine.call(), Change([things.write], [CREATE]))
    assert seen == [False]
    assert await things.exists()


async def test_login_is_vetoed_without_any_write(engine: Any) -> None:
    engine.enable("user.login.success", transaction="Any")
    async with receiving(answers(401)) as receiver:
        engine.add_webhook(receiver.url, "user.login.success")
        with pytest.raises(WebhookTransactionFailed):
            await engine.bus.request_approval(
                engine.call(), [Event("user.login.success", PAYLOADS["user.login.success"])]
            )
    assert await vetoed(engine) == [("user.login.success", 1)]


@pytest.mark.requirement("webhooks-8-5")
async def test_announced_event_cannot_be_vetoed(engine: Any) -> None:
    engine.enable("user.login.failed", transaction="AbsoluteMajority")
    async with receiving(answers(500)) as receiver:
        engine.add_webhook(receiver.url, "user.login.failed")
        await engine.bus.announce(engine.call(), [Event("user.login.failed", PAYLOADS["user.login.failed"])])
        assert receiver.requests == []
    assert await engine.states() == [("due", 0)]


async def test_call_of_another_tenant_reaches_no_webhook(engine: Any, things: Things) -> None:
    engine.enable("user.create")
    engine.add_webhook("http://127.0.0.1:9/", "user.create")
    other = engine.call("00000000-0000-4000-8000-000000000000")
    await engine.bus.commit(other, Change([things.write], [CREATE]))
    assert things.sessions == [None]


@pytest.mark.requirement("webhooks-7-5")
async def test_changed_webhook_takes_effect_at_once(engine: Any, things: Things) -> None:
    bus = engine.bus
    engine.enable("user.create")
    await bus.announce(engine.call(), [CREATE])
    engine.add_webhook("http://127.0.0.1:9/", "user.create")
    await bus.announce(engine.call(), [CREATE])
    engine.webhooks = []
    await bus.announce(engine.call(), [CREATE])
    assert len(await engine.log.find_all(None, {})) == 1


async def test_racing_changes_each_keep_their_events(engine: Any) -> None:
    engine.enable("user.create")
    engine.add_webhook("http://127.0.0.1:9/", "user.create")
    bus, counter = engine.bus, engine.database.collection("things")
    await counter.insert_one({"_id": "counter", "value": 0})

    async def write(session: Any) -> None:
        await counter.update_one({"_id": "counter"}, {"$inc": {"value": 1}}, session=session)

    await asyncio.gather(*(bus.commit(engine.call(), Change([write], [CREATE])) for _ in range(20)))
    stored = await counter.find_one({"_id": "counter"})
    assert stored["value"] == 20
    events = await engine.log.find_all(None, {})
    assert len({event["_id"] for event in events}) == 20
    assert len({event["sequence"] for event in events}) == 20


@pytest.mark.requirement("webhooks-15.2-11")
async def test_hanging_receiver_does_not_delay_other_approval_requests(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus, "MAX_APPROVAL_REQUESTS", 4)
    monkeypatch.setattr(bus, "_MAX_QUEUED_APPROVAL_REQUESTS", 3)
    engine.enable("user.create", "user.registration.create", transaction="AbsoluteMajority")
    async with receiving(hangs) as slow, receiving() as quick:
        engine.add_webhook(slow.url, "user.create", readTimeout=60_000)
        engine.add_webhook(quick.url, "user.registration.create")
        approving = engine.bus
        stuck = [asyncio.create_task(approving.request_approval(engine.call(), [CREATE])) for _ in range(5)]
        await slow.wait_for(2)
        with pytest.raises(WebhookTransactionFailed):
            await approving.request_approval(engine.call(), [CREATE])
        await approving.request_approval(engine.call(), [REGISTER])
        assert (len(slow.requests), len(quick.requests)) == (2, 1)
        assert not any(task.done() for task in stuck)
        slow.behaviour = answers(200)
        await slow.stop()
        await asyncio.gather(*stuck, return_exceptions=True)
    assert "busy: too many approval requests are queued for this webhook" in str(await engine.log.find_all(None, {}))
