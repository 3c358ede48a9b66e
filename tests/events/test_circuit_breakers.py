"""Suspended deliveries: paused and disabled webhooks, open circuits, rate limits, ordered delivery."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from identity.domain.webhooks.webhook_health import percent
from identity.events.changes import Event
from identity.ids import EventId, WebhookId, new_id
from identity.instants import Instant, later
from identity.store.outbox_rows import DeliveryAttempt, DeliveryLease, DeliveryOutcome, EventRow, NewDelivery
from identity.workers import webhook_delivery
from identity.workers.circuit_breakers import BreakerSettings, CircuitBreaker
from tests.events.samples import PAYLOADS
from tests.receiver import answers, hangs, receiving

CREATED = Event("user.create.complete", PAYLOADS["user.create.complete"])


async def announce(engine: Any, count: int = 1) -> None:
    for _ in range(count):
        await engine.bus.announce(engine.call(), [CREATED])


async def webhook_for(engine: Any, url: str, **members: Any) -> dict[str, Any]:
    engine.enable("user.create.complete")
    return engine.add_webhook(url, "user.create.complete", **members)


def change(engine: Any, webhook: dict[str, Any], **members: Any) -> None:
    """Change a webhook as the cache does: a new list with a new document."""
    engine.webhooks = [{**each, **(members if each["id"] == webhook["id"] else {})} for each in engine.webhooks]


async def test_paused_webhook_gets_all_events_after_it_is_resumed(engine: Any) -> None:
    async with receiving() as receiver, receiving() as other:
        webhook = await webhook_for(engine, receiver.url, status="Active")
        await webhook_for(engine, other.url)
        change(engine, webhook, status="Paused")
        async with engine.working() as worker:
            await announce(engine, 3)
            await other.wait_for(3)
            assert receiver.requests == []
            assert worker._leases.room_for(webhook["id"]) == 0, "or each would be leased and postponed repeatedly"
            change(engine, webhook, status="Active")
            engine.wakeups.awake.set()
            await receiver.wait_for(3)
    assert sorted(await engine.states()) == [("succeeded", 1)] * 6


@pytest.mark.requirement("webhooks-own-4")
async def test_pausing_a_webhook_costs_no_attempt(engine: Any) -> None:
    async with receiving() as receiver:
        webhook = await webhook_for(engine, receiver.url)
        await announce(engine)
        worker = engine.worker()
        (lease,) = await engine.outbox.lease(engine.clock.now(), 30, lambda _webhook: 5, 5)
        change(engine, webhook, status="Paused")
        began = engine.clock.now()
        outcome = await worker._outcome(lease)
        assert receiver.requests == []
        assert outcome.next_attempt >= later(began, seconds=1), "or it would be looked at without a pause"
        assert (outcome.attempt, outcome.is_attempted_or_final) == (None, False)
        await engine.outbox.record_outcomes([outcome])
    assert await engine.states() == [("due", 0)]
    (event,) = await engine.log.find_all(None, {})
    assert event["result"] == "Running"


async def test_disabled_webhook_gets_no_events_and_its_deliveries_are_given_up(engine: Any) -> None:
    async with receiving() as receiver:
        webhook = await webhook_for(engine, receiver.url)
        await announce(engine)
        change(engine, webhook, status="Disabled")
        await announce(engine)
        assert await engine.states() == [("due", 0)]
        async with engine.working():
            await settled(engine, ("given up", 0))
        assert receiver.requests == []


async def settled(engine: Any, *states: tuple[str, int]) -> None:
    """Wait until the deliveries are in these states; the test's own time limit ends it otherwise."""
    while sorted(await engine.states()) != sorted(states):
        await _pause()


async def _pause() -> None:
    await asyncio.sleep(0.02)


async def test_response_410_disables_the_webhook(engine: Any) -> None:
    async with receiving(answers(410)) as receiver:
        await webhook_for(engine, receiver.url)
        await announce(engine)
        async with engine.working():
            await settled(engine, ("given up", 1))
            while not engine.outcomes:
                await _pause()
    assert [outcome.attempt.status for outcome in engine.outcomes] == [410]


@pytest.mark.requirement("webhooks-15.2-5")
async def test_open_circuit_suspends_deliveries_and_a_probe_closes_it(engine: Any, monkeypatch: Any) -> None:
    seconds = [0.0]
    for module in ("delivery_leases", "circuit_breakers"):
        monkeypatch.setattr(f"identity.workers.{module}.monotonic", lambda: seconds[0])
    async with receiving(answers(500)) as receiver:
        await webhook_for(engine, receiver.url)
        await announce(engine, 20)
        async with engine.working(breaker_minimum_attempts=10, breaker_pause_seconds=30, concurrency_per_webhook=5):
            while len([state for state in await engine.states() if state == ("due", 1)]) < 10:
                await _pause()
            held_back = len(receiver.requests)
            assert held_back < 20
            receiver.behaviour = answers(200)
            seconds[0] = 31.0
            engine.wakeups.awake.set()
            await receiver.wait_for(20)
    succeeded = [state for state in await engine.states() if state == ("succeeded", 1)]
    assert len(succeeded) == 20 - held_back


async def test_deliveries_to_a_disabled_webhook_are_given_up_despite_an_open_circuit(engine: Any) -> None:
    webhook = await webhook_for(engine, "http://127.0.0.1:9/")
    worker = engine.worker(breaker_minimum_attempts=2)
    for _ in range(2):
        worker._breakers.note(webhook["id"], success=False)
    await worker._leases.refresh_webhooks()
    assert worker._leases.room_for(webhook["id"]) == 0
    change(engine, webhook, status="Disabled")
    await worker._leases.refresh_webhooks()
    assert worker._leases.room_for(webhook["id"]) > 1


async def test_rate_limit_postpones_deliveries_without_loss(engine: Any) -> None:
    async with receiving() as receiver:
        webhook = await webhook_for(engine, receiver.url)
        engine.waits[webhook["id"]] = 60
        await announce(engine, 2)
        async with engine.working():
            deliveries = engine.database.collection("deliveries")
            while await deliveries.count_documents({"nextAttempt": {"$gt": engine.clock.now() + 45_000}}) < 2:
                await _pause()
            assert receiver.requests == []
            engine.waits.clear()
            engine.clock.advance(seconds=61)
            engine.wakeups.awake.set()
            await receiver.wait_for(2)
    assert await engine.states() == [("succeeded", 1)] * 2


# Order


def row(subject: str, now: Instant) -> EventRow:
    return EventRow(EventId(new_id()), "user.update.complete", None, subject, b"{}", now)


async def record(engine: Any, subject: str, webhook: str = "ordered", *, ordered: bool = True) -> EventId:
    now = engine.clock.now()
    event = row(subject, now)
    delivery = NewDelivery(WebhookId(webhook), now, is_ordered=ordered)
    await engine.outbox.record(None, [(event, [delivery])], await engine.outbox.reserve_sequence(1))
    return event.event_id


async def lease_due(engine: Any, count: int = 100) -> list[DeliveryLease]:
    return await engine.outbox.lease(engine.clock.now(), 30, lambda _webhook: count, count)


def ended(engine: Any, lease: DeliveryLease, status: int, next_attempt: Instant | None = None) -> DeliveryOutcome:
    now = engine.clock.now()
    return DeliveryOutcome(lease, DeliveryAttempt(now, now, "http://example.com", status), next_attempt)


@pytest.mark.requirement("webhooks-15.2-9")
async def test_an_ordered_delivery_waits_for_the_one_before_it_about_the_same_object(engine: Any) -> None:
    first, second = await record(engine, "one"), await record(engine, "one")
    other = await record(engine, "two")
    leases = {lease.event_id: lease for lease in await lease_due(engine)}
    assert leases.keys() == {first, other}
    retry = later(engine.clock.now(), seconds=300)
    await engine.outbox.record_outcomes([ended(engine, leases[first], 500, retry), ended(engine, leases[other], 200)])
    engine.clock.advance(seconds=40)
    assert await lease_due(engine) == []
    engine.clock.advance(seconds=300)
    (again,) = await lease_due(engine)
    assert again.event_id == first
    await engine.outbox.record_outcomes([ended(engine, again, 200)])
    (last,) = await lease_due(engine)
    assert last.event_id == second


async def test_ordered_deliveries_follow_each_other_without_waiting_for_leases(engine: Any) -> None:
    expected = [await record(engine, "one") for _ in range(5)]
    found = []
    for _ in expected:
        (lease,) = await lease_due(engine)
        assert await lease_due(engine) == []
        found.append(lease.event_id)
        await engine.outbox.record_outcomes([ended(engine, lease, 200)])
    assert found == expected
    assert await lease_due(engine) == []


async def test_long_ordered_queues_do_not_hide_other_objects(engine: Any) -> None:
    """More deliveries are waiting than one query examines, and the first by sequence is not the first due."""
    blocked = [await record(engine, "one") for _ in range(30)]
    (lease,) = await lease_due(engine, 1)
    assert lease.event_id == blocked[0]
    await engine.outbox.record_outcomes([ended(engine, lease, 500, later(engine.clock.now(), seconds=1))])
    blocked += [await record(engine, "one") for _ in range(10)]
    other = [await record(engine, "two") for _ in range(30)]
    engine.clock.advance(seconds=2)
    assert {each.event_id for each in await lease_due(engine, 4)} == {blocked[0]}
    assert {each.event_id for each in await lease_due(engine, 4)} == {other[0]}
    assert await lease_due(engine, 4) == []


async def test_given_up_delivery_unblocks_the_next(engine: Any) -> None:
    first, second = await record(engine, "one"), await record(engine, "one")
    (lease,) = await lease_due(engine)
    assert lease.event_id == first
    await engine.outbox.record_outcomes([ended(engine, lease, 500)])
    (lease,) = await lease_due(engine)
    assert lease.event_id == second


@pytest.mark.requirement("webhooks-15.2-9")
async def test_blocked_object_does_not_starve_the_others(engine: Any) -> None:
    await record(engine, "one")
    (blocker,) = await lease_due(engine, 1)
    await engine.outbox.record_outcomes([ended(engine, blocker, 500, later(engine.clock.now(), seconds=3600))])
    for _ in range(5):
        await record(engine, "one")
    other = await record(engine, "two")
    found: list[EventId] = []
    for _ in range(5):
        found += [lease.event_id for lease in await lease_due(engine, 2)]
    assert found == [other]


async def test_next_ordered_delivery_follows_at_once(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_delivery, "_POLL_SECONDS", 3600.0)
    async with receiving() as receiver:
        webhook = await webhook_for(engine, receiver.url, ordered=True)
        expected = [await record(engine, "one", webhook["id"]) for _ in range(5)]
        async with engine.working():
            await receiver.wait_for(5)
    assert [request.headers["webhook-id"] for request in receiver.requests] == expected


async def test_waiting_ordered_deliveries_are_measured(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_delivery, "_BACKLOG_METRICS_SECONDS", 0.02)
    async with receiving(hangs) as receiver, engine.working(stop_seconds=0.0):
        webhook = await webhook_for(engine, receiver.url, ordered=True, readTimeout=60_000)
        for _ in range(4):
            await record(engine, "one", webhook["id"])
        while engine.registry.get_sample_value("identity_webhook_deliveries_waiting") != 3:
            await _pause()
        await receiver.wait_for(1)
    assert len(receiver.requests) == 1


async def test_unordered_deliveries_do_not_wait(engine: Any) -> None:
    await record(engine, "one", ordered=False)
    await record(engine, "one", ordered=False)
    assert len(await lease_due(engine)) == 2


async def test_ordered_webhook_gets_ordered_deliveries(engine: Any) -> None:
    await webhook_for(engine, "http://127.0.0.1:9/", ordered=True)
    await webhook_for(engine, "http://127.0.0.1:9/")
    await announce(engine)
    rows = [dict(each) async for each in engine.database.collection("deliveries").find({})]
    assert sorted(each.get("isOrdered", False) for each in rows) == [False, True]
    assert {each["linkedObjectId"] for each in rows} == {CREATED.payload["user"]["id"]}


async def test_outcome_of_an_expired_lease_is_recorded_once(engine: Any) -> None:
    """Updates of the event are idempotent."""
    event_id = await record(engine, "one", ordered=False)
    (lease,) = await lease_due(engine)
    for _ in range(2):
        await engine.outbox.record_outcomes([ended(engine, dataclasses.replace(lease), 200)])
    (event,) = await engine.log.find_all(None, {"_id": event_id})
    assert (event["result"], event["untried"], len(event["deliveries"][0]["attempts"])) == ("Succeeded", [], 1)


@pytest.mark.requirement("webhooks-15.2-10")
async def test_deliveries_to_a_paused_webhook_do_not_expire(engine: Any) -> None:
    async with receiving() as receiver:
        webhook = await webhook_for(engine, receiver.url)
        await announce(engine)
        change(engine, webhook, status="Paused")
        engine.clock.advance(seconds=60 * 86_400)
        async with engine.working():
            rows = [engine.database.collection(name) for name in ("events", "deliveries")]
            now = engine.clock.now()
            while not all([(await one.find_one({}))["expiresAt"].timestamp() * 1000 > now for one in rows]):
                await _pause()
            change(engine, webhook, status="Active")
            engine.wakeups.awake.set()
            await receiver.wait_for(1)


RULES = BreakerSettings(failure_ratio=0.7, minimum_attempts=10, window_seconds=300, pause_seconds=30)


def after(outcomes: str, rules: BreakerSettings = RULES, every: float = 1.0) -> CircuitBreaker:
    """A breaker after these outcomes, `s` or `f`, one every `every` seconds."""
    breaker = CircuitBreaker(rules)
    for index, outcome in enumerate(outcomes):
        breaker.note(index * every, success=outcome == "s")
    return breaker


@pytest.mark.requirement("webhooks-15.2-5", "webhooks-15.3-30")
@pytest.mark.parametrize(
    ("outcomes", "is_open"),
    [
        ("", False),
        ("fffffffff", False),
        ("ffffffffff", True),
        ("sssfffffff", True),
        ("ssssffffff", False),
        ("s" * 90 + "f" * 10, False),
    ],
)
def test_breaker_opens_after_enough_failures(outcomes, is_open):
    assert after(outcomes).is_open is is_open


def test_old_attempts_do_not_count():
    assert not after("ffffffffff", every=40).is_open
    assert after("ffffffffff", every=30).is_open


def test_disabled_breaker_never_opens():
    assert not after("f" * 100, BreakerSettings(minimum_attempts=0)).is_open


def test_closed_breaker_permits_all_attempts():
    assert CircuitBreaker(RULES).room(0, held=5) is None


@pytest.mark.requirement("webhooks-15.3-30")
def test_open_breaker_permits_one_probe_after_the_pause():
    breaker = after("ffffffffff")
    opened = 9.0
    assert breaker.room(opened + 29, held=0) == 0
    assert breaker.room(opened + 30, held=0) == 1
    assert breaker.room(opened + 30, held=1) == 0


def test_failed_probe_restarts_the_pause():
    breaker = after("ffffffffff")
    breaker.note(40, success=False)
    assert breaker.is_open
    assert (breaker.room(69, held=0), breaker.room(70, held=0)) == (0, 1)


def test_successful_probe_resets_the_breaker():
    breaker = after("ffffffffff")
    breaker.note(40, success=True)
    assert (breaker.is_open, breaker.room(40, held=7)) == (False, None)
    breaker.note(41, success=False)
    assert not breaker.is_open


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, 0), (49, 0), (50, 50), (69, 50), (70, 70), (90, 90), (99, 90), (100, 100), (500, 100)]
)
def test_health_thresholds_precede_disabling(seconds, expected):
    assert percent(seconds, 100) == expected
    assert percent(seconds, 0) == 0
