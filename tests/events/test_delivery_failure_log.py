"""Event log entries about failing webhooks, and their throttling."""

from __future__ import annotations

from typing import Any

import pytest

from identity.domain.objects import log_throttling
from identity.errors import WebhookTransactionFailed
from identity.events.changes import Event
from identity.events.delivery import DeliveryContext
from identity.events.delivery_failure_log import THROTTLE_SECONDS
from identity.ids import EventId, new_id
from tests.events.samples import PAYLOADS
from tests.receiver import answers, receiving, until

CREATE = Event("user.create", PAYLOADS["user.create"])


async def raise_events(engine: Any, count: int = 1) -> None:
    for _ in range(count):
        await engine.bus.announce(engine.call(), [CREATE])


def move(engine: Any, *, seconds: float) -> None:
    engine.clock.advance(seconds=seconds)
    engine.wakeups.awake.set()


@pytest.mark.requirement("core-15-21")
async def test_failed_delivery_is_logged_with_webhook_event_and_reason(engine: Any) -> None:
    engine.enable("user.create")
    async with receiving(answers(500)) as receiver, engine.working():
        webhook = engine.add_webhook(f"{receiver.url}?token=secret", "user.create")
        await raise_events(engine)
        await until(lambda: engine.written)
    (event,) = await engine.log.find_all(None, {})
    (found,) = engine.written
    assert found == (
        f"Webhook [{webhook['id']}] at [http://127.0.0.1:{receiver.port}]. Event [user.create] with id"
        f" [{event['_id']}] was not delivered and will be tried again: the receiver answered 500."
    )


@pytest.mark.requirement("core-15-21")
async def test_given_up_delivery_is_logged(engine: Any) -> None:
    engine.enable("user.create")
    engine.schedule = ()
    engine.add_webhook("http://127.0.0.1:9/", "user.create")
    async with engine.working(schedule=()):
        await raise_events(engine)
        await until(lambda: engine.written)
    assert "was not delivered and was given up: blocked: " in engine.written[0]


async def test_success_is_not_logged(engine: Any) -> None:
    engine.enable("user.create")
    async with receiving() as receiver, engine.working():
        engine.add_webhook(receiver.url, "user.create")
        await raise_events(engine)
        await receiver.wait_for(1)
    assert engine.written == []


@pytest.mark.requirement("core-15-21")
async def test_failures_of_a_webhook_are_throttled_in_the_log_and_counted(engine: Any) -> None:
    engine.enable("user.create")
    async with receiving(answers(500)) as receiver, engine.working(schedule=(3600, 3600)):
        engine.add_webhook(receiver.url, "user.create")
        await raise_events(engine, 20)
        await receiver.wait_for(20)
        await until(lambda: _settled(engine, 20))
        assert len(engine.written) == 1
        move(engine, seconds=THROTTLE_SECONDS)
        await raise_events(engine)
        await until(lambda: len(engine.written) == 2)
    assert engine.written[1].endswith(" 19 earlier failures of this kind were not written.")


async def _settled(engine: Any, count: int) -> bool:
    return await engine.states() == [("due", 1)] * count


async def test_concurrency_is_limited_per_webhook(engine: Any) -> None:
    engine.enable("user.create")
    async with receiving(answers(500)) as receiver, engine.working():
        webhooks = [engine.add_webhook(receiver.url, "user.create") for _ in range(2)]
        await raise_events(engine)
        await until(lambda: len(engine.written) == 2)
    assert {webhook["id"] for webhook in webhooks} == {found.split("[")[1].split("]")[0] for found in engine.written}


@pytest.mark.requirement("attack-63", "core-15-20", "event-event-log.create")
@pytest.mark.parametrize("name", ["event-log.create", "audit-log.create"])
async def test_attack_63_failed_delivery_of_a_log_event_is_not_logged(engine: Any, name: str) -> None:
    async with receiving(answers(500)) as receiver, engine.working():
        engine.add_webhook(receiver.url, name, "user.create")
        engine.enable("user.create")
        await engine.bus.announce(engine.call(), [Event(name, PAYLOADS[name])])
        await receiver.wait_for(1)
        await until(lambda: _settled(engine, 1))
        assert engine.written == []
        # The webhook fails for other events as well, and those are logged.
        await raise_events(engine)
        await until(lambda: engine.written)
    assert "[user.create]" in engine.written[0]


@pytest.mark.requirement("core-15-21", "webhooks-8-19")
async def test_veto_is_logged(engine: Any) -> None:
    engine.enable("user.create", transaction="AbsoluteMajority")
    async with receiving(answers(403)) as receiver:
        webhook = engine.add_webhook(receiver.url, "user.create")
        with pytest.raises(WebhookTransactionFailed):
            await engine.bus.request_approval(engine.call(), [CREATE])
    (found,) = engine.written
    assert found.startswith(f"Webhook [{webhook['id']}]")
    assert found.endswith("was not delivered and stopped a change: the receiver answered 403.")


async def test_failed_approval_request_of_an_approved_change_is_logged(engine: Any) -> None:
    engine.enable("user.create", transaction="Any")
    async with receiving() as good, receiving(answers(500)) as bad:
        engine.add_webhook(good.url, "user.create")
        webhook = engine.add_webhook(bad.url, "user.create")
        await engine.bus.request_approval(engine.call(), [CREATE])
    (found,) = engine.written
    assert found.startswith(f"Webhook [{webhook['id']}]")
    assert "will be tried again" in found


@pytest.mark.requirement("core-15-21", "webhooks-2-7")
async def test_unsendable_headers_are_logged_once(engine: Any) -> None:
    async with receiving() as receiver:
        webhook = engine.add_webhook(receiver.url, headers={"Header 1": "value"})
        deliverer = engine.deliverer
        for _ in range(2):
            await deliverer.attempt(webhook, EventId(new_id()), b"{}", DeliveryContext("user.create"))
    (found,) = engine.written
    assert found == (
        f"Webhook [{webhook['id']}] at [http://127.0.0.1:{receiver.port}]. Its headers [Header 1] are left out:"
        " their names are not valid in an HTTP request."
    )


async def test_replay_memory_is_bounded(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_throttling, "_MAX_SUBJECTS", 2)
    for _ in range(5):
        await engine.failures.headers_omitted({"id": new_id(), "url": "https://example.com"}, ["a b"])
    assert len(engine.written) == 5
    assert len(engine.failures._throttle._intervals) <= 2
