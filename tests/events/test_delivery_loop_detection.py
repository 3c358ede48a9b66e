"""Delivery loops: within the service, between two services, and through the logs."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import structlog

from identity.call import ApiKeyCaller
from identity.domain.webhooks import delivery_loop_detection
from identity.events.changes import Event
from identity.ids import new_id
from tests import internals, plain_http
from tests.conftest import DEFAULT_TENANT, SUPER_KEY, checking_client
from tests.events.samples import PAYLOADS
from tests.receiver import Receiver, answers, receiving, until
from tests.webhooks import enable_events, make_user

LOOPS = "identity_webhook_loops_total"


@pytest.fixture(scope="module")
async def first(build: Any) -> AsyncIterator[Any]:
    """A separate service, because the tests read its log."""
    async with build(webhooks__schedule="[1]") as service:
        await enable(service)
        yield service


@pytest.fixture(scope="module")
async def second(build: Any) -> AsyncIterator[Any]:
    async with build() as service:
        await enable(service)
        yield service


async def enable(service: Any) -> None:
    async with client_of(service) as api:
        await enable_events(api, DEFAULT_TENANT, ["user.create.complete"])


def client_of(service: Any) -> httpx.AsyncClient:
    return checking_client(service.base_url, headers={"Authorization": SUPER_KEY})


def local(service: Any, path: str) -> str:
    return f"http://127.0.0.1:{service.port}{path}"


async def subscribe(api: httpx.AsyncClient, url: str, *types: str, webhook_id: str | None = None) -> str:
    """A webhook with the API key of the service at its URL, which is the same for all services of the tests."""
    wanted = {
        "url": url, "global": True, "connectTimeout": 20_000, "readTimeout": 20_000,
        "eventsEnabled": dict.fromkeys(types, True), "headers": {"Authorization": SUPER_KEY},
    }  # fmt: skip
    answer = await api.post(f"/api/webhook/{webhook_id or new_id()}", json={"webhook": wanted})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["webhook"]["id"])


async def logs_of(api: httpx.AsyncClient, text: str) -> list[dict[str, Any]]:
    """The events whose body contains a text, once all their deliveries have ended."""
    while True:
        answer = await api.get("/api/system/webhook-event-log/search", params={"event": text})
        found = answer.json()["webhookEventLogs"]
        waiting = [one for log in found for one in log["attempts"][-1:] if "nextAttemptInstant" in one["data"]]
        if found and all(log["attempts"] for log in found) and not waiting:
            return list(found)
        await asyncio.sleep(0.05)


async def event_log_messages(api: httpx.AsyncClient, text: str) -> list[str]:
    """The rows of the event log with a text."""
    answer = await api.get("/api/system/event-log/search", params={"message": f"*{text}*", "numberOfResults": 100})
    assert answer.status_code == 200, answer.text
    return [row["message"] for row in answer.json()["eventLogs"]]


async def loops_of(api: httpx.AsyncClient) -> float:
    """The number of requests that the service has rejected."""
    page = await api.get("/api/prometheus/metrics")
    (line,) = [line for line in page.text.splitlines() if line.startswith(f"{LOOPS} ")]
    return float(line.split()[1])


@pytest.mark.requirement("attack-63", "webhooks-15.2-25")
async def test_attack_63_webhook_to_the_service_itself_is_rejected_and_logged_once(first):
    """A webhook to the test endpoint of the service, which sends the event to the webhook again."""
    async with client_of(first) as api:
        webhook_id = new_id()
        url = local(first, f"/api/webhook/{webhook_id}/test")
        await subscribe(api, url, "user.create.complete", "event-log.create", webhook_id=webhook_id)
        before = await loops_of(api)
        user_id = await make_user(api)
        (log,) = await logs_of(api, user_id)
        # Events about these rows fail at the same address; those failures are not logged.
        while len(rows := await event_log_messages(api, webhook_id)) < 2:
            await asyncio.sleep(0.05)
        of_rows = await logs_of(api, webhook_id)
        rows = await event_log_messages(api, webhook_id)
        await api.delete(f"/api/webhook/{webhook_id}")
        # Two attempts at each event, as the schedule of this service has it, and nothing after them.
        assert await loops_of(api) - before == 2 * (1 + len(rows))
    assert [attempt["webhookCallResponse"]["statusCode"] for attempt in log["attempts"]] == [508] * 2
    assert "LoopDetected" in log["attempts"][0]["data"]["responseBody"]
    assert [(each["eventType"], each["failedAttempts"]) for each in of_rows] == [("event-log.create", 2)] * len(rows)
    assert sorted(row.split("was not delivered and ")[1] for row in rows) == [
        "was given up: the receiver answered 508.", "will be tried again: the receiver answered 508.",
    ]  # fmt: skip


async def test_loop_rejection_has_the_error_format_of_each_endpoint(first):
    headers = {"webhook-via": f"0123456789abcdef, {internals.service_id(first)}"}
    username = new_id()
    async with plain_http.client(first.base_url) as plain:
        body = {"user": {"username": username, "password": "password"}}
        made = await plain.post("/api/user", json=body, headers={**headers, "Authorization": SUPER_KEY})
        others = [
            await plain.post("/oauth2/token", data={"grant_type": "password"}, headers=headers),
            await plain.post("/oauth2/authorize", data={}, headers=headers),
            await plain.get("/.well-known/jwks.json", headers=headers),
        ]
    assert (made.status_code, made.json()["generalErrors"][0]["code"]) == (508, "[LoopDetected]")
    assert [(other.status_code, other.json()) for other in others] == [(508, made.json())] * 3
    async with client_of(first) as api:
        assert (await api.get("/api/user", params={"username": username})).status_code == 404


@pytest.mark.requirement("attack-63", "webhooks-15.2-25")
async def test_attack_63_delivery_loop_of_two_services_ends(first, second):
    async with client_of(first) as here, client_of(second) as there:
        mine, theirs = new_id(), new_id()
        webhook = await subscribe(
            here, local(second, f"/api/webhook/{theirs}/test"), "user.create.complete", webhook_id=mine
        )
        await subscribe(there, local(first, f"/api/webhook/{mine}/test"), "user.create.complete", webhook_id=theirs)
        before = await loops_of(here), await loops_of(there)
        user_id = await make_user(here)
        (log,) = await logs_of(here, user_id)
        (attempt,) = log["attempts"]
        await here.delete(f"/api/webhook/{webhook}")
        await there.delete(f"/api/webhook/{theirs}")
        after = await loops_of(here), await loops_of(there)
    # The second service took the event, and was refused when it sent that back to where it came from.
    assert attempt["webhookCallResponse"]["statusCode"] == 200
    assert '"statusCode":508' in attempt["data"]["responseBody"]
    assert (after[0] - before[0], after[1] - before[1]) == (1, 0)


async def test_events_carry_the_via_marks_of_their_request(first):
    others = ", ".join(
        delivery_loop_detection.service_id_of(str(number)) for number in range(delivery_loop_detection.MAX_SERVICES - 1)
    )
    async with client_of(first) as api, receiving() as receiver:
        webhook = await subscribe(api, receiver.url, "user.create.complete")
        await make_user(api, **{"webhook-via": f"{others}, what is this"})
        await make_user(api)
        sent = [request.headers["webhook-via"] for request in await receiver.wait_for(2)]
        await api.delete(f"/api/webhook/{webhook}")
    assert sorted(sent) == sorted([f"{others}, {internals.service_id(first)}", internals.service_id(first)])


@pytest.mark.requirement("webhooks-15.2-25")
async def test_chain_over_very_many_services_is_cut_off(first):
    others = ", ".join(
        delivery_loop_detection.service_id_of(str(number)) for number in range(delivery_loop_detection.MAX_SERVICES)
    )
    async with plain_http.client(first.base_url) as plain:
        headers = {"Authorization": SUPER_KEY, "webhook-via": others}
        answer = await plain.post("/api/user", json={"user": {"username": new_id()}}, headers=headers)
    assert answer.status_code == 508


@pytest.mark.requirement("webhooks-15.2-25")
@pytest.mark.parametrize("log_type", ["event-log.create", "audit-log.create"])
async def test_failed_delivery_of_log_events_is_not_logged(first, log_type):
    """The failed delivery of a user event is logged; failed deliveries of that log event are not."""
    async with client_of(first) as api, receiving(answers(500)) as receiver:
        webhook = await subscribe(api, receiver.url, "user.create.complete", log_type)
        if log_type == "audit-log.create":
            entry = {"auditLog": {"insertUser": "someone", "message": f"about {webhook}"}}
            assert (await api.post("/api/system/audit-log", json=entry)).status_code == 200
        await make_user(api)
        await until(lambda: has_given_up(api, receiver, log_type))
        await api.delete(f"/api/webhook/{webhook}")
        rows = await event_log_messages(api, webhook)
        assert 1 <= len(rows) <= 2  # that it will be tried again, and that it was given up
        assert all("[user.create.complete]" in row for row in rows)
    received = [request.event["type"] for request in receiver.requests]
    # Each event twice; the event log has as many events as rows.
    assert received.count("user.create.complete") == 2
    assert received.count(log_type) <= (2 if log_type == "audit-log.create" else 4)


async def has_given_up(api: httpx.AsyncClient, receiver: Receiver, log_type: str) -> bool:
    received = [request.event["type"] for request in receiver.requests]
    return received.count("user.create.complete") == 2 and received.count(log_type) >= 2


@pytest.mark.requirement("webhooks-15.2-25")
async def test_via_header_is_accepted_only_with_an_api_key(engine):
    """Otherwise a caller could prevent delivery to a service by listing it."""
    engine.enable("user.create")
    other = delivery_loop_detection.service_id_of("another service")
    found = engine.call()
    origin = dataclasses.replace(found.origin, via=(other,))
    with_key = dataclasses.replace(found, caller=ApiKeyCaller({"id": new_id()}), origin=origin)
    async with receiving() as receiver, engine.working():
        engine.add_webhook(receiver.url, "user.create")
        for call in (dataclasses.replace(found, origin=origin), with_key):
            await engine.bus.announce(call, [Event("user.create", PAYLOADS["user.create"])])
        sent = [request.headers["webhook-via"] for request in await receiver.wait_for(2)]
    assert sorted(sent, key=len) == ["0123456789abcdef", f"{other}, 0123456789abcdef"]


def test_repeated_loop_requests_are_throttled_in_the_log(engine):
    deliverer = engine.deliverer
    with structlog.testing.capture_logs() as logs:
        for route in ("/api/user", "/api/user", "/api/login"):
            deliverer.report_loop(route, ("0123456789abcdef",), "a request")
        engine.clock.advance(seconds=301)
        deliverer.report_loop("/api/user", ("0123456789abcdef",), "a request")
    assert [(log["route"], log["kept_back"]) for log in logs] == [("/api/user", 0), ("/api/login", 0), ("/api/user", 1)]
    assert engine.registry.get_sample_value(LOOPS) == 4
