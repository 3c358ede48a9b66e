"""The delivery worker: no loss and no blocking, whatever fails."""

from __future__ import annotations

import asyncio
import collections
from typing import Any

import pytest
from pymongo.errors import AutoReconnect

from identity import background_tasks
from identity.events.changes import Event
from identity.events.delivery import Deliverer
from identity.ids import EventId
from identity.store.outbox import Outbox
from identity.store.outbox_rows import DeliveryLease
from identity.workers import delivery_backlog, webhook_delivery
from identity.workers.delivery_leases import BACKLOG_AGE_SECONDS
from tests.events.conftest import VAULT
from tests.events.samples import PAYLOADS
from tests.receiver import Receiver, answers, hangs, in_turn, receiving, until

CREATE = Event("user.create", PAYLOADS["user.create"])


@pytest.fixture(autouse=True)
def enabled(engine: Any) -> None:
    engine.enable("user.create")


async def raise_events(engine: Any, count: int = 1) -> None:
    for _ in range(count):
        await engine.bus.announce(engine.call(), [CREATE])


def move(engine: Any, *, seconds: float) -> None:
    """Advance the clock and wake the worker."""
    engine.clock.advance(seconds=seconds)
    engine.wakeups.awake.set()


@pytest.mark.requirement("webhooks-7-5", "webhooks-9-1")
async def test_every_webhook_gets_the_same_bytes(engine: Any) -> None:
    async with receiving() as receiver, engine.working():
        for _ in range(3):
            engine.add_webhook(receiver.url, "user.create")
        await raise_events(engine)
        await receiver.wait_for(3)
    assert len({request.body for request in receiver.requests}) == 1
    assert await engine.states() == [("succeeded", 1)] * 3


@pytest.mark.requirement("webhooks-7-5")
async def test_subscribers_are_resolved_when_the_event_is_raised(engine: Any) -> None:
    """Not at delivery: a webhook created meanwhile receives only later events."""
    async with receiving() as early, receiving() as late:
        engine.add_webhook(early.url, "user.create")
        await raise_events(engine)
        engine.add_webhook(late.url, "user.create")
        async with engine.working():
            (before,) = await early.wait_for(1)
            await raise_events(engine)
            after = (await late.wait_for(1))[0]
            await early.wait_for(2)
    assert before.event["id"] != after.event["id"]
    assert [request.event["id"] for request in early.requests] == [before.event["id"], after.event["id"]]
    assert [request.event["id"] for request in late.requests] == [after.event["id"]]
    assert await engine.states() == [("succeeded", 1)] * 3


@pytest.mark.requirement("service-24", "webhooks-15.3-38")
async def test_event_that_was_committed_before_the_worker_started_is_delivered(engine: Any) -> None:
    """As after `kill -9` between commit and delivery."""
    async with receiving() as receiver:
        engine.add_webhook(receiver.url, "user.create")
        await raise_events(engine, 5)
        async with engine.working():
            await receiver.wait_for(5)
    ids = [request.event["id"] for request in receiver.requests]
    assert len(set(ids)) == len(ids) == 5


@pytest.mark.requirement("service-24")
async def test_lease_of_a_killed_process_runs_out_and_another_takes_over(engine: Any) -> None:
    async with receiving() as receiver:
        engine.add_webhook(receiver.url, "user.create")
        await raise_events(engine, 3)
        assert len(await engine.outbox.lease(engine.clock.now(), 30, lambda _webhook: 100, 100)) == 3
        async with engine.working():
            assert await engine.outbox.lease(engine.clock.now(), 30, lambda _webhook: 100, 100) == []
            move(engine, seconds=31)
            await receiver.wait_for(3)
    assert len({request.event["id"] for request in receiver.requests}) == 3


@pytest.mark.requirement("service-23")
async def test_receiver_that_is_down_gets_the_event_after_it_is_back(engine: Any) -> None:
    receiver = Receiver()
    await receiver.start()
    port = receiver.port
    await receiver.stop()
    engine.add_webhook(receiver.url, "user.create")
    async with engine.working():
        await raise_events(engine)
        await until(lambda: has_state(engine, ("due", 1)))
        back = Receiver()
        await back.start(port)
        move(engine, seconds=6)
        await back.wait_for(1)
        await until(lambda: has_state(engine, ("succeeded", 2)))
        await back.stop()


async def has_state(engine: Any, *expected: tuple[str, int]) -> bool:
    return await engine.states() == list(expected)


@pytest.mark.requirement("demo-7", "webhooks-10-1", "webhooks-15.3-17", "webhooks-9-10")
async def test_retries_carry_the_same_event_and_end_with_the_schedule(engine: Any) -> None:
    async with receiving(answers(500)) as receiver, engine.working():
        engine.add_webhook(receiver.url, "user.create")
        await raise_events(engine)
        await receiver.wait_for(1)
        await until(lambda: has_state(engine, ("due", 1)))
        move(engine, seconds=6)
        await receiver.wait_for(2)
        await until(lambda: has_state(engine, ("due", 2)))
        move(engine, seconds=301)
        await receiver.wait_for(3)
        await until(lambda: has_state(engine, ("given up", 3)))
        move(engine, seconds=100_000)
    assert len({request.body for request in receiver.requests}) == 1
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1
    assert len({request.headers["webhook-timestamp"] for request in receiver.requests}) == 3


@pytest.mark.requirement("webhooks-10-2")
async def test_as_published_an_event_without_approval_is_attempted_once(engine: Any) -> None:
    engine.retries = "published"
    async with receiving(answers(500)) as receiver, engine.working():
        engine.add_webhook(receiver.url, "user.create")
        await raise_events(engine)
        await until(lambda: has_state(engine, ("given up", 1)))
    assert len(receiver.requests) == 1


@pytest.mark.requirement("webhooks-10-2")
async def test_as_published_a_failed_webhook_of_an_approved_change_gets_three_immediate_retries(engine: Any) -> None:
    engine.retries = "published"
    async with receiving(answers(500)) as failing, receiving(answers(200)) as agreeing, engine.working():
        engine.add_webhook(failing.url, "user.create")
        engine.add_webhook(agreeing.url, "user.create")
        engine.enable("user.create", transaction="Any")
        await engine.bus.request_approval(engine.call(), [CREATE])
        await failing.wait_for(4)
        await until(lambda: is_given_up(engine))
    assert (len(failing.requests), len(agreeing.requests)) == (4, 1)


async def is_given_up(engine: Any) -> bool:
    return sorted(await engine.states()) == [("given up", 4), ("succeeded", 1)]


@pytest.mark.requirement("webhooks-15.2-2", "webhooks-15.3-9")
async def test_retry_after_is_waited_for(engine: Any) -> None:
    async with (
        receiving(in_turn(answers(503, headers=["Retry-After: 100"]), answers(200))) as receiver,
        engine.working(),
    ):
        engine.add_webhook(receiver.url, "user.create")
        await raise_events(engine)
        await until(lambda: has_state(engine, ("due", 1)))
        move(engine, seconds=95)
        assert await engine.outbox.lease(engine.clock.now(), 30, lambda _webhook: 100, 100) == []
        move(engine, seconds=6)
        await receiver.wait_for(2)


@pytest.mark.requirement("attack-64", "webhooks-15.3-41")
async def test_attack_64_hanging_webhook_blocks_no_other(engine: Any) -> None:
    async with (
        receiving(hangs) as dead,
        receiving() as alive,
        engine.working(concurrency_per_webhook=2, stop_seconds=0.0),
    ):
        engine.add_webhook(dead.url, "user.create", readTimeout=60_000)
        engine.add_webhook(alive.url, "user.create")
        await raise_events(engine, 30)
        await alive.wait_for(30)
        assert len(dead.requests) <= 2


@pytest.mark.parametrize("due_at_once", [True, False])
async def test_many_hanging_webhooks_block_no_other(engine: Any, due_at_once: bool) -> None:
    """More than all slots and leases of a process, whether leased together or separately."""
    settings = {"concurrency_per_webhook": 4, "max_concurrency": 16, "stop_seconds": 0.0}
    async with receiving(hangs) as dead, receiving() as alive:
        for _ in range(5):
            engine.add_webhook(dead.url, "user.create", readTimeout=60_000)
        if due_at_once:
            await raise_events(engine, 8)
        async with engine.working(**settings):
            if not due_at_once:
                await raise_events(engine, 8)
            await dead.wait_for(12)
            for _ in range(2):
                engine.add_webhook(alive.url, "user.create")
            await raise_events(engine, 8)
            await alive.wait_for(16)
            assert len(dead.requests) < 16


@pytest.mark.requirement("design-state-16")
@pytest.mark.parametrize(("per_second", "most"), [(4, 1), (0, 40)])
async def test_live_events_overtake_the_backlog(engine: Any, per_second: int, most: int) -> None:
    async with receiving() as receiver:
        engine.add_webhook(receiver.url, "user.create")
        await raise_events(engine, 40)
        engine.clock.advance(seconds=BACKLOG_AGE_SECONDS + 1)
        await raise_events(engine, 3)
        started = engine.clock.now()
        async with engine.working(concurrency_per_webhook=50, backlog_per_second=per_second):
            await until(lambda: len([one for one in receiver.requests if created(one) >= started - 5_000]) == 3)
            early = [one for one in receiver.requests if created(one) < started - 5_000]
            assert len(early) <= most
            await receiver.wait_for(43 if per_second == 0 else 5)
    assert len({request.event["id"] for request in receiver.requests}) == len(receiver.requests)


async def test_backlog_is_drained_at_a_bounded_rate(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [0.0]
    monkeypatch.setattr(delivery_backlog, "monotonic", lambda: seconds[0])
    engine.add_webhook("http://127.0.0.1:9/", "user.create")
    await raise_events(engine, 5)
    engine.clock.advance(seconds=BACKLOG_AGE_SECONDS + 1)
    worker = engine.worker(backlog_per_second=4)
    assert len(await worker._backlog.acquire()) == 1
    assert await worker._backlog.acquire() is None
    seconds[0] = 0.25
    assert len(await worker._backlog.acquire()) == 1
    assert await worker._backlog.acquire() is None


@pytest.mark.requirement("webhooks-15.2-12")
async def test_half_of_the_capacity_of_a_webhook_is_reserved_for_live_events(engine: Any) -> None:
    webhook = engine.add_webhook("http://127.0.0.1:9/", "user.create")
    await raise_events(engine, 20)
    engine.clock.advance(seconds=BACKLOG_AGE_SECONDS + 1)
    await raise_events(engine, 20)
    worker = engine.worker()
    await worker._leases.refresh_webhooks()
    room = worker._leases.room_for(webhook["id"])
    worker._start_all(late := await worker._backlog.acquire())
    assert len(late) == room // 2 > 1
    await worker.stop()


@pytest.mark.requirement("webhooks-15.2-12")
async def test_quarter_of_the_leases_is_reserved(engine: Any) -> None:
    busy, quiet = (engine.add_webhook("http://127.0.0.1:9/", "user.create")["id"] for _ in range(2))
    worker = engine.worker(max_concurrency=4, concurrency_per_webhook=2)
    lease = DeliveryLease("", EventId(""), busy, 0, "", b"", engine.clock.now(), "")
    for held, of_busy, expected in ((0, 0, 4), (4, 0, 2), (6, 1, 1), (6, 2, 0), (8, 2, 0)):
        worker._leases.held = {f"{number}": lease for number in range(held)}
        worker._leases.counts = collections.Counter({busy: of_busy})
        assert worker._leases.room_for(busy) == expected, (held, of_busy)
    worker._leases.held = {f"{number}": lease for number in range(6)}
    assert worker._leases.room_for(quiet) == 2


async def test_delivery_leased_again_during_the_write_is_attempted(engine: Any) -> None:
    class Slow(Outbox):
        """The delivery is requested again and leased by this process before its write has returned."""

        is_slow = True

        async def record_outcomes(self, outcomes: Any) -> bool:
            found = await super().record_outcomes(outcomes)
            if self.is_slow and outcomes:
                self.is_slow = False
                (row,) = [one.lease for one in outcomes]
                await engine.log.redeliver(None, row.event_id, row.webhook_id, engine.clock.now())
                worker._start_all(await super().lease(engine.clock.now(), 30, lambda _webhook: 5, 5))
            return found

    engine.outbox = Slow(engine.database, VAULT, schedule_seconds=86_400)
    async with receiving() as receiver, engine.working() as worker:
        engine.add_webhook(receiver.url, "user.create")
        await raise_events(engine)
        await receiver.wait_for(2)
        await until(lambda: has_state(engine, ("succeeded", 2)))
        await until(lambda: _later(not worker._leases.held))


def created(request: Any) -> int:
    return int(request.event["createInstant"])


@pytest.mark.requirement("design-state-14", "webhooks-15.2-6")
async def test_no_more_requests_at_a_time_than_a_webhook_may_have(engine: Any) -> None:
    running = most = 0

    async def behave(request: Any, writer: asyncio.StreamWriter) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.005)
        running -= 1
        await answers(200)(request, writer)

    async with receiving(behave) as receiver:
        engine.add_webhook(receiver.url, "user.create")
        await raise_events(engine, 30)
        async with engine.working(concurrency_per_webhook=3):
            await receiver.wait_for(30)
    assert most == 3


@pytest.mark.requirement("design-state-15")
async def test_hanging_receiver_holds_few_leases(engine: Any) -> None:
    counts: dict[str, int] = {}
    async with receiving() as fast, receiving(hangs) as dead:
        webhooks = [engine.add_webhook(each.url, "user.create", readTimeout=60_000) for each in (fast, dead)]
        async with engine.working(concurrency_per_webhook=2, stop_seconds=0.0) as worker:
            for _ in range(10):
                await raise_events(engine, 5)
                held = collections.Counter(lease.webhook_id for lease in worker._leases.held.values())
                counts = {w["id"]: max(counts.get(w["id"], 0), held[w["id"]]) for w in webhooks}
            await fast.wait_for(50)
    assert counts[webhooks[1]["id"]] <= 4
    assert len({request.event["id"] for request in fast.requests}) == len(fast.requests) == 50


@pytest.mark.requirement("webhooks-15.3-8")
async def test_several_workers_deliver_each_event_once(engine: Any) -> None:
    async with receiving() as receiver:
        for _ in range(4):
            engine.add_webhook(receiver.url, "user.create")
        await raise_events(engine, 25)
        async with engine.working(), engine.working(jitter=0.1), engine.working(jitter=0.2):
            await receiver.wait_for(100)
    counts = collections.Counter(request.event["id"] for request in receiver.requests)
    assert set(counts.values()) == {4}
    assert set(await engine.states()) == {("succeeded", 1)}


@pytest.mark.requirement("project-11")
async def test_stopping_worker_finishes_attempts_and_releases_leases(engine: Any) -> None:
    arrived, go = asyncio.Event(), asyncio.Event()

    async def behave(request: Any, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await go.wait()
        await answers(200)(request, writer)

    async with receiving(behave) as receiver:
        engine.add_webhook(receiver.url, "user.create")
        await raise_events(engine, 4)
        worker = engine.worker(concurrency_per_webhook=1)
        await worker.start()
        await arrived.wait()
        stopping = asyncio.create_task(worker.stop())
        await asyncio.sleep(0)
        go.set()
        await stopping
        assert sorted(await engine.states()) == [("due", 0)] * 3 + [("succeeded", 1)]
        assert len(await engine.outbox.lease(engine.clock.now(), 30, lambda _webhook: 100, 100)) == 3


@pytest.mark.requirement("webhooks-15.2-13")
@pytest.mark.parametrize("seconds_ago", [0, BACKLOG_AGE_SECONDS + 1])
async def test_stopping_worker_releases_pending_leases(engine: Any, seconds_ago: int) -> None:
    """Otherwise each restart would delay deliveries until their leases expire."""
    leased, go = asyncio.Event(), asyncio.Event()

    class Slow(Outbox):
        async def lease(self, *arguments: Any, **options: Any) -> Any:
            found = await super().lease(*arguments, **options)
            if found:
                leased.set()
                await go.wait()
            return found

    await engine_with_one(engine)
    engine.clock.advance(seconds=seconds_ago)
    engine.outbox = Slow(engine.database, VAULT, schedule_seconds=86_400)
    worker = engine.worker(stop_seconds=5.0)
    await worker.start()
    await leased.wait()
    stopping = asyncio.create_task(worker.stop())
    await until(lambda: _later(all(one.done() for one in worker._loops)))
    go.set()
    await stopping
    row = await engine.database.collection("deliveries").find_one({})
    assert (row["state"], row["attempts"], row.get("lease")) == ("due", [], None)
    assert row["nextAttempt"] <= engine.clock.now()


async def engine_with_one(engine: Any) -> None:
    """An event for a receiver that is not running."""
    engine.add_webhook("http://127.0.0.1:9/", "user.create")
    await raise_events(engine)


async def test_stopping_worker_does_not_wait_for_ever(engine: Any) -> None:
    async with receiving(hangs) as receiver:
        engine.add_webhook(receiver.url, "user.create", readTimeout=100_000)
        await raise_events(engine)
        worker = engine.worker(stop_seconds=0.05)
        await worker.start()
        await receiver.wait_for(1)
        await worker.stop()
        assert len(await engine.outbox.lease(engine.clock.now(), 30, lambda _webhook: 100, 100)) == 1


async def test_lease_is_renewed_while_a_slow_receiver_takes_its_time(engine: Any) -> None:
    renewals: list[int] = []

    class Watched(Outbox):
        async def renew(self, leases: Any, until: Any) -> None:
            await super().renew(leases, until)
            renewals.append(len(leases))

    engine.outbox = Watched(engine.database, VAULT, schedule_seconds=86_400)
    async with receiving(hangs) as receiver, engine.working(lease_seconds=1, stop_seconds=0.0):
        engine.add_webhook(receiver.url, "user.create", readTimeout=60_000)
        await raise_events(engine)
        await receiver.wait_for(1)
        await until(lambda: sum(renewals) >= 4)
        assert await engine.outbox.lease(engine.clock.now(), 30, lambda _webhook: 100, 100) == []
        assert len(receiver.requests) == 1


async def test_delivery_to_a_webhook_that_was_removed_is_dropped(engine: Any) -> None:
    async with receiving() as receiver:
        engine.add_webhook(receiver.url, "user.create")
        await raise_events(engine)
        engine.webhooks = []
        async with engine.working():
            await until(lambda: has_state(engine, ("given up", 0)))
    assert receiver.requests == []


async def test_missing_recent_event_is_retried_before_its_delivery_is_dropped(engine: Any) -> None:
    """As during an election of MongoDB."""
    events = engine.database.collection("events")
    async with receiving() as receiver:
        engine.add_webhook(receiver.url, "user.create")
        await raise_events(engine, 2)
        first, second = [row async for row in events.find({}).sort("sequence", 1)]
        await events.delete_many({})
        async with engine.working():
            await until(lambda: was_put_off(engine, 2))
            await events.insert_one(first)
            move(engine, seconds=2)
            await receiver.wait_for(1)
            move(engine, seconds=60)
            await until(lambda: has_outcomes(engine, {first["_id"]: "succeeded", second["_id"]: "given up"}))
    assert [request.event["id"] for request in receiver.requests] == [first["_id"]]


async def was_put_off(engine: Any, count: int) -> bool:
    deliveries = engine.database.collection("deliveries")
    put_off = {"state": "due", "lease": {"$exists": False}, "nextAttempt": {"$gt": engine.clock.now()}}
    return await deliveries.count_documents(put_off) == count


async def has_outcomes(engine: Any, states: dict[str, str]) -> bool:
    rows = [row async for row in engine.database.collection("deliveries").find({})]
    return {row["eventId"]: row["state"] for row in rows} == states


async def test_idle_webhook_uses_no_memory(engine: Any) -> None:
    async with receiving() as receiver, engine.working() as worker:
        engine.add_webhook(receiver.url, "user.create")
        await raise_events(engine, 3)
        await receiver.wait_for(3)
        await until(lambda: _later(not worker._leases.held))
        assert (worker._semaphores, dict(worker._leases.counts), worker._outcomes) == ({}, {}, [])
        assert (worker._requests._queue, worker._requests._held, dict(worker._requests._held_by)) == ([], 0, {})


async def test_changed_webhook_applies_to_due_deliveries(engine: Any) -> None:
    async with receiving() as receiver:
        webhook = engine.add_webhook("http://127.0.0.1:9/", "user.create")
        await raise_events(engine)
        engine.webhooks = [{**webhook, "url": receiver.url}]
        async with engine.working():
            await receiver.wait_for(1)


class Failing(Outbox):
    """An outbox whose MongoDB becomes unavailable."""

    is_away = False
    unsettled = 0
    error: type[Exception] = AutoReconnect

    async def lease(self, *arguments: Any, **options: Any) -> Any:
        self._check()
        return await super().lease(*arguments, **options)

    async def record_outcomes(self, outcomes: Any) -> bool:
        self.unsettled += self.is_away
        self._check()
        return await super().record_outcomes(outcomes)

    def _check(self) -> None:
        if self.is_away:
            raise self.error("gone")


@pytest.mark.requirement("webhooks-15.2-13")
@pytest.mark.parametrize("error", [AutoReconnect, RuntimeError])
async def test_outage_of_mongodb_is_survived(
    engine: Any, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """Outcomes are retained until they are written, whatever error occurs."""
    monkeypatch.setattr(webhook_delivery, "_BACK_OFF_SECONDS", 0.01)
    monkeypatch.setattr(background_tasks, "_RESTART_SECONDS", 0.01)
    monkeypatch.setattr(Failing, "error", error)
    outbox = engine.outbox = Failing(engine.database, VAULT, schedule_seconds=86_400)

    async def behave(request: Any, writer: asyncio.StreamWriter) -> None:
        outbox.is_away = len(receiver.requests) == 1
        await answers(200)(request, writer)

    async with receiving(behave) as receiver, engine.working():
        engine.add_webhook(receiver.url, "user.create")
        await raise_events(engine)
        await until(lambda: outbox.unsettled)
        assert await engine.states() == [("due", 0)]
        outbox.is_away = False
        await until(lambda: has_state(engine, ("succeeded", 1)))
        await raise_events(engine)
        await receiver.wait_for(2)


async def test_internal_error_fails_only_one_delivery(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    send = Deliverer.attempt

    async def attempt(self: Any, webhook: dict[str, Any], *arguments: Any) -> Any:
        if webhook is broken:
            raise RuntimeError("a fault of ours")
        return await send(self, webhook, *arguments)

    monkeypatch.setattr(Deliverer, "attempt", attempt)
    async with receiving() as receiver, engine.working():
        broken = engine.add_webhook(receiver.url, "user.create")
        await raise_events(engine)
        await until(lambda: has_state(engine, ("due", 1)))
        (row,) = [row async for row in engine.database.collection("deliveries").find({})]
        assert row["attempts"][0]["exception"] == "internal: the attempt could not be made"
        engine.webhooks = []
        engine.add_webhook(receiver.url, "user.create")
        await raise_events(engine)
        await receiver.wait_for(1)


async def test_metrics_count_attempts(engine: Any) -> None:
    async with receiving(in_turn(answers(500), answers(200))) as receiver, engine.working():
        engine.add_webhook(receiver.url, "user.create")
        await raise_events(engine, 2)
        await receiver.wait_for(2)
        await until(lambda: engine.registry.get_sample_value("identity_webhook_deliveries_held") == 0)
    attempts = "identity_webhook_attempts_total"
    assert engine.registry.get_sample_value(attempts, {"outcome": "success"}) == 1
    assert engine.registry.get_sample_value(attempts, {"outcome": "failure"}) == 1
    assert engine.registry.get_sample_value("identity_webhook_attempt_seconds_count") == 2
    assert engine.registry.get_sample_value("identity_webhook_first_attempt_delay_seconds_count") == 2


@pytest.mark.requirement("webhooks-15.2-10")
async def test_uncached_webhook_is_read_before_a_delivery_is_dropped(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process created or enabled it, and its wake-up arrives before the change stream."""
    async with receiving() as receiver, receiving() as other:
        engine.add_webhook(receiver.url, "user.create")
        enabled = engine.add_webhook(other.url, "user.create")
        await raise_events(engine)

        async def stale() -> list[dict[str, Any]]:
            return [{**enabled, "status": "Disabled"}]

        monkeypatch.setattr(engine, "known_webhooks", stale)
        async with engine.working():
            await receiver.wait_for(1)
            await other.wait_for(1)
    assert await engine.states() == [("succeeded", 1)] * 2


async def test_suspended_process_repeats_no_delivery_itself(engine: Any) -> None:
    go = asyncio.Event()

    async def behave(request: Any, writer: asyncio.StreamWriter) -> None:
        await go.wait()
        await answers(500)(request, writer)

    async with receiving(behave) as receiver, engine.working(lease_seconds=3600) as worker:
        engine.add_webhook(receiver.url, "user.create")
        await raise_events(engine)
        await receiver.wait_for(1)
        (first,) = worker._leases.held.values()
        move(engine, seconds=3601)
        await until(lambda: _later(worker._leases.held.get(first.delivery_id) is not first))
        go.set()
        await until(lambda: has_state(engine, ("due", 1)))
        assert len(receiver.requests) == 1
        (row,) = [row async for row in engine.database.collection("deliveries").find({})]
        assert (row.get("lease"), row["attempts"][0]["statusCode"]) == (None, 500)


async def _later(value: bool) -> bool:
    return value


async def test_unloggable_failure_is_counted_once(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_arguments: Any) -> None:
        raise RuntimeError("no room to write")

    monkeypatch.setattr(engine.failures, "failed", broken)
    async with receiving(in_turn(hangs, answers(500))) as receiver, engine.working(stop_seconds=0.0) as worker:
        webhook = engine.add_webhook(receiver.url, "user.create")
        await raise_events(engine)
        await receiver.wait_for(1)
        await raise_events(engine)
        await receiver.wait_for(2)
        await until(lambda: _later(not worker._outcomes and len(worker._running) == len(worker._leases.held) == 1))
        assert dict(worker._leases.counts) == {webhook["id"]: 1}, "the one that hangs"
