"""Events with large bodies: logged, stored in parts, or refused; never lost silently (promise 14)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import orjson
import pytest
import structlog

from identity.domain.objects.system_configuration import SentEvents
from identity.errors import WebhookTransactionFailed
from identity.events.changes import Change, Event
from identity.events.delivery import PayloadLimits
from identity.ids import EventId, WebhookId, new_id
from tests.conftest import DEFAULT_TENANT, SUPER_KEY, checking_client
from tests.events.samples import PAYLOADS
from tests.receiver import receiving, until
from tests.webhooks import enable_events

MEGABYTE = 2**20
OVERSIZED = "identity_webhook_oversized_events_total"


@pytest.fixture(autouse=True)
def small_bounds(engine: Any) -> None:
    engine.enable("user.create", "user.create.complete")
    engine.limits = PayloadLimits(warn_bytes=10_000, max_bytes=20_000)


def event(size: int, name: str = "user.create.complete") -> Event:
    payload = PAYLOADS[name]
    return Event(name, {**payload, "user": {**payload["user"], "data": {"large": "x" * size}}})


async def announce(engine: Any, one: Event) -> None:
    """Raise an event with a change, and assert that the change was made."""
    things = engine.database.collection("things")

    async def write(session: Any) -> None:
        await things.insert_one({"_id": new_id()}, session=session)

    before = await things.count_documents({})
    await engine.bus.commit(engine.call(), Change([write], after_commit=[one]))
    assert await things.count_documents({}) == before + 1


def counted(engine: Any, outcome: str) -> float:
    return engine.registry.get_sample_value(OVERSIZED, {"outcome": outcome})


async def only_event(engine: Any) -> dict[str, Any]:
    (found,) = await engine.log.find_all(None, {})
    return found


async def test_ordinary_event_is_not_logged(engine):
    async with receiving() as receiver, engine.working():
        engine.add_webhook(receiver.url, "user.create.complete")
        await announce(engine, event(100))
        await receiver.wait_for(1)
    assert (engine.written, counted(engine, "warned"), counted(engine, "refused")) == ([], 0, 0)


@pytest.mark.requirement("webhooks-15.2-24")
async def test_large_event_is_delivered_and_logged_periodically(engine):
    async with receiving() as receiver, engine.working():
        engine.add_webhook(receiver.url, "user.create.complete")
        with structlog.testing.capture_logs() as logs:
            for _ in range(3):
                await announce(engine, event(12_000))
        assert [log["event"] for log in logs if "bytes" in log] == ["event with a large body"]
        await receiver.wait_for(3)
        engine.clock.advance(seconds=301)
        await announce(engine, event(12_000))
        await receiver.wait_for(4)
    first, second = engine.written
    assert first.startswith("Event [user.create.complete] with id [")
    assert "bytes, more than the 10000 of [webhooks.payload_warn_bytes]. Many receivers refuse such bodies." in first
    assert second.endswith(" 2 earlier failures of this kind were not written.")
    assert counted(engine, "warned") == 4


@pytest.mark.requirement("webhooks-15.2-24")
async def test_oversized_event_is_not_delivered_but_its_change_is_made(engine):
    async with receiving() as receiver, engine.working():
        webhook = engine.add_webhook(receiver.url, "user.create.complete")
        with structlog.testing.capture_logs() as logs:
            await announce(engine, event(30_000))
        await announce(engine, event(100))
        (received,) = await receiver.wait_for(1)
        await until(lambda: has_state(engine, "succeeded"))
    assert len(received.body) < 10_000
    (found,) = engine.written
    assert "more than the 20000 of [webhooks.payload_max_bytes]. It was not delivered." in found
    assert (counted(engine, "refused"), counted(engine, "warned")) == (1, 0)
    refused, _ = await engine.log.find_all(None, {})
    (line,) = [log for log in logs if log["event"] == "event too large to be delivered"]
    assert (line["event_id"], line["limit"]) == (refused["_id"], 20_000)
    assert (refused["result"], refused["type"]) == ("Failed", "user.create.complete")
    # The log has what it was, about whom and why, but not the body.
    outline = orjson.loads(refused["body"])["event"]
    assert outline.keys() == {"createInstant", "id", "linkedObjectId", "tenantId", "type"}
    assert refused["_id"] in found
    (delivery,) = refused["deliveries"]
    (attempt,) = delivery["attempts"]
    assert attempt["exception"].startswith("payload: the event has 3")
    # It cannot be resent: there is no body.
    again = await engine.log.redeliver(None, EventId(refused["_id"]), WebhookId(webhook["id"]), engine.clock.now())
    assert again == "unknown"
    assert await engine.log.recover(None, WebhookId(webhook["id"]), 0, engine.clock.now() + 1, engine.clock.now()) == 0


async def has_state(engine: Any, state: str) -> bool:
    return state in [found for found, _ in await engine.states()]


async def test_event_with_a_missing_part_is_not_found(engine):
    """Events and parts expire separately; an incomplete body is never delivered."""
    engine.limits = PayloadLimits()
    engine.add_webhook("http://127.0.0.1:9/hook", "user.create.complete")
    await announce(engine, event(5 * MEGABYTE))
    found = await only_event(engine)
    assert len(found["body"]) > 5 * MEGABYTE
    await engine.database.collection("event_parts").delete_one({"_id": f"{found['_id']}:1"})
    assert await engine.log.find(None, found["_id"]) is None
    assert await engine.log.find_all(None, {}) == []


async def test_event_of_the_maximum_size_is_delivered(engine):
    engine.add_webhook("http://127.0.0.1:9/hook", "user.create.complete")
    await announce(engine, event(1000))
    size = len(orjson.dumps(orjson.loads((await only_event(engine))["body"])))
    await engine.database.collection("events").delete_many({})
    engine.limits = PayloadLimits(warn_bytes=size, max_bytes=size)
    await announce(engine, event(1000))
    assert (engine.written, (await only_event(engine))["result"]) == ([], "Running")
    await engine.database.collection("events").delete_many({})
    await announce(engine, event(1001))
    assert (await only_event(engine))["result"] == "Failed"


@pytest.mark.requirement("webhooks-15.2-24")
@pytest.mark.parametrize("transaction", ["Any", "SimpleMajority", "SuperMajority", "AbsoluteMajority"])
async def test_oversized_event_cannot_be_approved(engine, transaction):
    """Otherwise a large payload would bypass the approval."""
    engine.enable("user.create", transaction=transaction)
    things = engine.database.collection("things")

    async def write(session: Any) -> None:
        await things.insert_one({"_id": new_id()}, session=session)

    async with receiving() as receiver:
        for _ in range(2):
            engine.add_webhook(receiver.url, "user.create")
        with pytest.raises(WebhookTransactionFailed) as caught:
            await engine.bus.commit(engine.call(), Change([write], [event(30_000, "user.create")]))
        assert receiver.connections == 0
    assert "payload: too large" in caught.value.log_detail
    assert await things.count_documents({}) == 0
    assert (await only_event(engine))["result"] == "Failed"
    assert counted(engine, "refused") == 1
    assert "webhooks.payload_max_bytes" in engine.written[0]


async def test_oversized_non_transactional_event_is_refused(engine):
    async with receiving() as receiver:
        engine.add_webhook(receiver.url, "user.create")
        await engine.bus.request_approval(engine.call(), [event(30_000, "user.create")])
        assert receiver.connections == 0
    assert (await only_event(engine))["result"] == "Failed"


async def test_row_of_the_event_log_that_is_too_large_makes_no_row(engine):
    async with receiving() as receiver:
        engine.add_webhook(receiver.url, "event-log.create")
        row = {"eventLog": {"id": 1, "insertInstant": 1, "message": "x" * 30_000, "type": "Debug"}}
        await engine.bus.announce(engine.call(), [Event("event-log.create", row)])
    assert engine.written == []
    assert (counted(engine, "refused"), (await only_event(engine))["result"]) == (1, "Failed")


@pytest.mark.parametrize("are_logged", [True, False])
async def test_refused_event_is_in_the_log_where_there_is_one(engine, are_logged, monkeypatch):
    async def kept() -> SentEvents:
        return SentEvents(are_logged=are_logged)

    monkeypatch.setattr(engine.outbox, "_sent_events", kept)
    async with receiving() as receiver:
        engine.add_webhook(receiver.url, "user.create.complete")
        await announce(engine, event(30_000))
    assert len(await engine.log.find_all(None, {})) == are_logged
    assert len(engine.written) == 1


@pytest.mark.requirement("webhooks-15.2-24")
async def test_real_sizes(engine):
    """17 MB, more than a MongoDB document, is delivered; 26 MB is not, and nothing fails."""
    engine.limits = PayloadLimits()
    async with receiving() as receiver, engine.working():
        engine.add_webhook(receiver.url, "user.create.complete", readTimeout=60_000)
        await announce(engine, event(17 * MEGABYTE))
        (received,) = await receiver.wait_for(1)
        assert len(received.body) > 17 * MEGABYTE
        assert set(received.event["user"]["data"]["large"]) == {"x"}
        await announce(engine, event(26 * MEGABYTE))
    assert len(receiver.requests) == 1
    assert [("warn_bytes" in found, "max_bytes" in found) for found in engine.written] == [(True, False), (False, True)]


# The whole service, with a body that has room for a user of 9 MB.


@pytest.fixture(scope="module")
async def roomy(build: Any) -> AsyncIterator[Any]:
    async with build(server__max_body_bytes=20 * MEGABYTE, webhooks__payload_max_bytes=19 * MEGABYTE) as service:
        async with client_of(service) as api:
            await enable_events(api, DEFAULT_TENANT, ["user.update", "user.update.complete"])
        yield service


def client_of(service: Any) -> httpx.AsyncClient:
    return checking_client(service.base_url, headers={"Authorization": SUPER_KEY})


@pytest.mark.requirement("webhooks-15.2-24")
async def test_update_event_of_a_large_user_is_complete_up_to_the_limit(roomy):
    async with client_of(roomy) as api, receiving() as receiver:
        webhook = {"url": receiver.url, "global": True, "connectTimeout": 9000, "readTimeout": 60_000,
                   "eventsEnabled": {"user.update.complete": True}}  # fmt: skip
        assert (await api.post("/api/webhook", json={"webhook": webhook})).status_code == 200
        large = {"username": new_id(), "password": "password", "data": {"large": "x" * 9 * MEGABYTE}}
        made = await api.post("/api/user", json={"user": large})
        user_id = made.json()["user"]["id"]
        # An update contains the user twice, before and after: 18 MB.
        answer = await api.put(f"/api/user/{user_id}", json={"user": {**large, "firstName": "Ada"}})
        assert answer.status_code == 200, answer.text
        (received,) = await receiver.wait_for(1)
        assert len(received.body) > 18 * MEGABYTE
        larger = {**large, "data": {"large": "x" * 11 * MEGABYTE}}
        answer = await api.put(f"/api/user/{user_id}", json={"user": larger})
        assert answer.status_code == 200, answer.text
        row = await api.get("/api/system/event-log/search", params={"message": "*payload_max_bytes*"})
        logs = await api.get("/api/system/webhook-event-log/search", params={"eventResult": "Failed"})
    assert len(receiver.requests) == 1
    assert [found["type"] for found in row.json()["eventLogs"]] == ["Error"]
    (log,) = logs.json()["webhookEventLogs"]
    assert (log["eventType"], log["linkedObjectId"], log["failedAttempts"]) == ("user.update.complete", user_id, 1)
    assert "payload: " in log["attempts"][0]["webhookCallResponse"]["exception"]


async def test_change_beyond_the_document_size_is_rejected_without_event(roomy):
    async with client_of(roomy) as api:
        large = {"username": new_id(), "password": "password", "data": {"large": "x" * 17 * MEGABYTE}}
        answer = await api.post("/api/user", json={"user": large})
        assert answer.status_code == 400, answer.text
        assert (await api.get("/api/user", params={"username": large["username"]})).status_code == 404
