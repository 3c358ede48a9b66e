"""The extension endpoints below /api/webhook are idempotent, safe under concurrency, and audited."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import orjson
import pytest
from standardwebhooks import Webhook

from identity.call import Call
from identity.domain.webhooks.standard_webhooks import MAX_PREVIOUS_SECRETS
from identity.events.catalogue import EVENTS
from identity.ids import new_id
from identity.operations.webhooks import webhook_deliveries
from identity.store import webhook_event_log
from tests import internals
from tests.conftest import SUPER_KEY, checking_client
from tests.receiver import Received, answers, receiving
from tests.subscriber import check_event
from tests.webhooks import (
    enable_events,
    event_log_messages,
    has_attempts,
    logs_of,
    make_user,
    make_webhook,
    put_status,
    until,
)


@pytest.fixture
async def events(tenant_api: httpx.AsyncClient, tenant: dict[str, Any]) -> None:
    """Enable the event of new users in the tenant."""
    await enable_events(tenant_api, tenant["id"], ["user.create.complete"])


async def at_once(api: httpx.AsyncClient, method: str, path: str, body: Any, callers: int = 8) -> list[httpx.Response]:
    """The answers to the same request of several callers at the same time, who all get one."""
    found = await asyncio.gather(*(api.request(method, path, json=body) for _ in range(callers)))
    assert {answer.status_code for answer in found} <= {200, 202}, [answer.text for answer in found]
    return list(found)


async def given_up(service: Any, api: httpx.AsyncClient, tenant_api: httpx.AsyncClient, webhook: dict[str, Any]) -> str:
    """The id of an event that the webhook's receiver refused for good."""
    user_id = await make_user(tenant_api)
    (log,) = await until(api, user_id, has_attempts(1))
    where = {"eventId": log["id"], "webhookId": webhook["id"]}
    change = {"$set": {"state": "given up"}, "$unset": {"nextAttempt": "", "lease": ""}}
    await internals.database(service).collection("deliveries").update_one(where, change)
    return str(log["id"])


# Once more


@pytest.mark.requirement("webhooks-own-1")
async def test_repeated_resend_creates_no_second_delivery(api, tenant_api, tenant, events, receiver):
    """A repeated request while the receiver is unreachable results in one delivery."""
    webhook = await make_webhook(api, tenant, receiver.url)
    (log,) = await until(api, await make_user(tenant_api), has_attempts(1))
    await put_status(api, webhook, "Paused")
    for path in (f"/api/webhook/{webhook['id']}/resend", "/api/webhook/resend"):
        for answer in await at_once(api, "POST", path, {"eventId": log["id"]}):
            assert answer.json() == {"deliveries": 1}
    await put_status(api, webhook, "Active")
    (log,) = await until(api, log["linkedObjectId"], has_attempts(2))
    # What is sent after all that waited is behind it: had there been a third attempt, it would be there.
    await until(api, await make_user(tenant_api), has_attempts(1))
    (log,) = await logs_of(api, log["linkedObjectId"])
    assert [attempt["data"].get("isManual", False) for attempt in log["attempts"]] == [False, True]
    assert [request.event["id"] for request in receiver.requests].count(log["id"]) == 2


@pytest.mark.requirement("webhooks-15.2-8")
async def test_attempt_keeps_number_after_older_ones_are_dropped(
    api, tenant_api, tenant, events, receiver, monkeypatch
):
    monkeypatch.setattr(webhook_event_log, "MAX_STORED_ATTEMPTS", 1)
    webhook = await make_webhook(api, tenant, receiver.url)
    user_id = await make_user(tenant_api)
    (log,) = await until(api, user_id, has_attempts(1))
    for numbers in ([1, 2], [2, 3]):
        assert (await api.post(f"/api/webhook/{webhook['id']}/resend", json={"eventId": log["id"]})).status_code == 202
        (log,) = await until(api, user_id, has_attempts(2))
        assert [attempt["data"]["attemptNumber"] for attempt in log["attempts"]] == numbers


@pytest.mark.requirement("webhooks-own-1")
async def test_event_is_not_resent_to_webhook_of_another_tenant(api, tenant_api, tenant, events, receiver):
    webhook = await make_webhook(api, tenant, receiver.url)
    user_id = await make_user(tenant_api)
    (log,) = await until(api, user_id, has_attempts(1))
    other = (await api.post("/api/tenant", json={"tenant": {"name": new_id()}})).json()["tenant"]
    async with receiving() as theirs:
        stranger = await make_webhook(api, other, theirs.url)
        refused = await api.post(f"/api/webhook/{stranger['id']}/resend", json={"eventId": log["id"]})
        assert [each["code"] for each in refused.json()["fieldErrors"]["webhookId"]] == ["[invalid]webhookId"]
        # A webhook that received the event and has another tenant since is excluded.
        moved = {"webhook": {"tenantIds": [other["id"]]}}
        merge = {"Content-Type": "application/merge-patch+json"}
        path = f"/api/webhook/{webhook['id']}"
        assert (await api.patch(path, content=orjson.dumps(moved), headers=merge)).status_code == 200
        assert (await api.post("/api/webhook/resend", json={"eventId": log["id"]})).json() == {"deliveries": 0}
        anywhere = {"webhook": {"global": True}}
        assert (await api.patch(f"/api/webhook/{stranger['id']}", json=anywhere)).status_code == 200
        answer = await api.post(f"/api/webhook/{stranger['id']}/resend", json={"eventId": log["id"]})
        assert answer.json() == {"deliveries": 1}
        await theirs.wait_for(1)
        assert [request.event["id"] for request in theirs.requests] == [log["id"]]
    await api.delete(f"/api/webhook/{stranger['id']}")
    assert [request.event["id"] for request in receiver.requests] == [log["id"]]


@pytest.mark.requirement("webhooks-15.3-7", "webhooks-own-2")
async def test_concurrent_recoveries_claim_each_delivery_once(service, api, tenant_api, tenant, events, receiver):
    receiver.behaviour = answers(500)
    webhook = await make_webhook(api, tenant, receiver.url)
    lost = {await given_up(service, api, tenant_api, webhook) for _ in range(3)}
    path = f"/api/webhook/{webhook['id']}/recover"
    start = internals.now(service) - 60_000
    await put_status(api, webhook, "Paused")
    counts = [answer.json()["deliveries"] for answer in await at_once(api, "POST", path, {"startInstant": start})]
    assert sum(counts) == 3
    assert (await api.post(path, json={"startInstant": start})).json() == {"deliveries": 0}
    receiver.behaviour = answers(200)
    before = len(receiver.requests)
    await put_status(api, webhook, "Active")
    sent = (await receiver.wait_for(before + 3))[before:]
    assert {request.event["id"] for request in sent} == lost
    letters = await api.get(f"/api/webhook/{webhook['id']}/dead-letter")
    assert letters.json() == {"deadLetters": [], "total": 0}


@pytest.mark.parametrize(
    ("start", "end", "fields"),
    [(-60_000, -60_001, {"endInstant"}), (-15 * 86_400_000, -16 * 86_400_000, {"startInstant", "endInstant"})],
)
async def test_invalid_period_is_reported_on_both_ends(service, api, tenant, receiver, start, end, fields):
    webhook = await make_webhook(api, tenant, receiver.url)
    now = internals.now(service)
    body = {"startInstant": now + start, "endInstant": now + end}
    refused = await api.post(f"/api/webhook/{webhook['id']}/recover", json=body)
    assert (refused.status_code, refused.json()["fieldErrors"].keys()) == (400, fields)


@pytest.mark.requirement("webhooks-own-2")
async def test_delivery_is_not_recovered_to_webhook_moved_to_another_tenant(
    service, api, tenant_api, tenant, events, receiver
):
    receiver.behaviour = answers(500)
    webhook = await make_webhook(api, tenant, receiver.url)
    await given_up(service, api, tenant_api, webhook)
    await put_status(api, webhook, "Paused")
    other = (await api.post("/api/tenant", json={"tenant": {"name": new_id()}})).json()["tenant"]
    path, merge = f"/api/webhook/{webhook['id']}", {"Content-Type": "application/merge-patch+json"}
    since = {"startInstant": internals.now(service) - 60_000}
    for scope, expected in (({"tenantIds": [other["id"]]}, 0), ({"global": True}, 1)):
        changed = await api.patch(path, content=orjson.dumps({"webhook": scope}), headers=merge)
        assert changed.status_code == 200
        assert (await api.post(f"{path}/recover", json=since)).json() == {"deliveries": expected}
    await api.delete(path)


@pytest.mark.requirement("webhooks-own-3")
async def test_page_of_dead_letters_limits_response_bodies(
    service, api, tenant_api, tenant, events, receiver, monkeypatch
):
    monkeypatch.setattr(webhook_event_log, "MAX_PAGE_BYTES", 10)
    receiver.behaviour = answers(500, b"sorry, not now")
    webhook = await make_webhook(api, tenant, receiver.url)
    for _ in range(2):
        await given_up(service, api, tenant_api, webhook)
    letters = (await api.get(f"/api/webhook/{webhook['id']}/dead-letter")).json()["deadLetters"]
    (newer,), (older,) = (letter["attempts"] for letter in letters)
    assert newer["data"]["responseBody"] == "sorry, not now"
    assert "responseBody" not in older["data"]
    assert older["webhookCallResponse"]["statusCode"] == 500


@pytest.mark.requirement("webhooks-15.3-10", "webhooks-own-3")
async def test_reading_dead_letters_is_read_only(service, api, tenant_api, tenant, events, receiver):
    receiver.behaviour = answers(500)
    webhook = await make_webhook(api, tenant, receiver.url)
    event_id = await given_up(service, api, tenant_api, webhook)
    first, second = await at_once(api, "GET", f"/api/webhook/{webhook['id']}/dead-letter", None, 2)
    assert first.json() == second.json()
    assert [letter["eventId"] for letter in first.json()["deadLetters"]] == [event_id]


# Status


@pytest.mark.requirement("webhooks-own-5")
@pytest.mark.parametrize("status", ["Active", "Paused", "Disabled"])
async def test_setting_same_status_is_idempotent(api, tenant, receiver, clock, status):
    webhook = await make_webhook(api, tenant, receiver.url)
    first = await put_status(api, webhook, status)
    assert first.get("status", "Active") == status
    clock.advance(seconds=60)
    path = f"/api/webhook/{webhook['id']}/status"
    for answer in await at_once(api, "PUT", path, {"status": status}):
        assert answer.json()["webhook"] == first


@pytest.mark.requirement("webhooks-own-5")
async def test_disabling_again_keeps_instant_and_reason(service, api, tenant, receiver):
    webhook = await make_webhook(api, tenant, receiver.url)
    call = _call(service)
    await internals.run(service, webhook_deliveries.disable, call, webhook["id"], "It has been failing.")
    shown = await put_status(api, webhook, "Disabled")
    assert (shown["disabledInstant"], shown["disabledReason"]) == (call.now, "It has been failing.")


@pytest.mark.requirement("webhooks-own-5")
async def test_of_64_concurrent_disablings_one_emits_event(service, api, tenant, receiver):
    webhook = await make_webhook(api, tenant, receiver.url)
    disable = (
        internals.run(service, webhook_deliveries.disable, _call(service), webhook["id"], "Gone.") for _ in range(64)
    )
    await asyncio.gather(*disable)
    assert await event_log_messages(service, webhook) == [f"The webhook [{webhook['id']}] was disabled. Gone."]


def _call(service: Any) -> Call:
    return internals.call(service)


@pytest.mark.requirement("webhooks-own-4")
async def test_pause_finishes_current_deliveries_and_holds_new_ones(api, tenant_api, tenant, events):
    """The control webhook gets the later event, so the paused one was looked at and left alone."""
    arrived, may_answer = asyncio.Event(), asyncio.Event()

    async def behave(_request: Received, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await may_answer.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async with receiving(behave) as paused, receiving() as control:
        webhook = await make_webhook(api, tenant, paused.url, readTimeout=20_000)
        await make_webhook(api, tenant, control.url)
        first = await make_user(tenant_api)
        await arrived.wait()
        await put_status(api, webhook, "Paused")
        second = await make_user(tenant_api)
        await control.wait_for(2)
        may_answer.set()
        (log,) = await until(api, first, has_attempts(2))
        assert log["successfulAttempts"] == 2
        assert [request.event["user"]["id"] for request in paused.requests] == [first]
        (log,) = await logs_of(api, second)
        assert (log["eventResult"], len(log["attempts"])) == ("Running", 1)
        await put_status(api, webhook, "Active")
        await until(api, second, has_attempts(2))
        assert [request.event["user"]["id"] for request in paused.requests] == [first, second]


# Secrets


@pytest.mark.requirement("webhooks-15.3-4", "webhooks-own-6")
async def test_repeated_rotation_keeps_secrets_in_overlap(api, tenant, receiver):
    webhook = await make_webhook(api, tenant, receiver.url)
    path = f"/api/webhook/{webhook['id']}"
    secrets = [answer.json()["secret"] for answer in await at_once(api, "POST", f"{path}/secret", {}, 4)]
    assert len(set(secrets)) == 4
    await api.post(f"{path}/test", json={})
    for secret in secrets:
        assert Webhook(secret).verify(receiver.requests[0].body, receiver.requests[0].headers)


@pytest.mark.requirement("webhooks-15.3-5", "webhooks-own-6")
async def test_rotation_does_not_shorten_overlap_of_secrets(api, tenant, receiver, clock):
    webhook = await make_webhook(api, tenant, receiver.url)
    path = f"/api/webhook/{webhook['id']}"
    first = (await api.post(f"{path}/secret", json={})).json()["secret"]
    for _ in range(MAX_PREVIOUS_SECRETS):
        assert (await api.post(f"{path}/secret", json={"overlapInSeconds": 600})).status_code == 200
    refused = await api.post(f"{path}/secret", json={"overlapInSeconds": 600})
    assert refused.status_code == 400
    assert [each["code"] for each in refused.json()["fieldErrors"]["overlapInSeconds"]] == ["[tooMany]overlapInSeconds"]
    await api.post(f"{path}/test", json={})
    assert Webhook(first).verify(receiver.requests[0].body, receiver.requests[0].headers)
    assert (await api.post(f"{path}/secret", json={"overlapInSeconds": 0})).status_code == 200
    clock.advance(seconds=601)
    assert (await api.post(f"{path}/secret", json={"overlapInSeconds": 600})).status_code == 200


@pytest.mark.requirement("webhooks-own-6")
async def test_removing_secret_is_idempotent(api, tenant, receiver):
    webhook = await make_webhook(api, tenant, receiver.url)
    path = f"/api/webhook/{webhook['id']}"
    await api.post(f"{path}/secret", json={})
    assert [answer.content for answer in await at_once(api, "DELETE", f"{path}/secret", None)] == [b""] * 8
    shown = (await api.get(path)).json()
    assert (await api.delete(f"{path}/secret")).status_code == 200
    assert (await api.get(path)).json() == shown


# Trying out


@pytest.mark.requirement("webhooks-own-7")
async def test_repeated_test_sends_twice_and_stores_nothing(service, api, tenant, receiver):
    webhook = await make_webhook(api, tenant, receiver.url)
    event = {"id": new_id(), "type": "user.create"}
    for answer in await at_once(api, "POST", f"/api/webhook/{webhook['id']}/test", {"event": event}, 2):
        assert answer.json()["webhookAttemptLog"]["attemptResult"] == "Success"
    assert [request.headers["webhook-id"] for request in receiver.requests] == [event["id"]] * 2
    deliveries = internals.database(service).collection("deliveries")
    assert await deliveries.count_documents({"webhookId": webhook["id"]}) == 0


@pytest.mark.requirement("webhooks-10-20")
async def test_example_event_is_sent_like_real_event(api, tenant, receiver):
    webhook = await make_webhook(api, tenant, receiver.url)
    path = f"/api/webhook/{webhook['id']}/test"
    for number, name in enumerate(("user.create", "user.action", "event-log.create")):
        assert (await api.post(path, json={"eventType": name})).status_code == 200
        sent = receiver.requests[number]
        check_event(sent.event)
        assert (sent.event["type"], sent.event["id"]) == (name, sent.headers["webhook-id"])
        assert sent.event.get("linkedObjectId") == EVENTS[name].linked_object_id(sent.event)


@pytest.mark.requirement("webhooks-10-20")
async def test_test_event_can_be_sent_and_unknown_event_cannot(api, tenant, receiver):
    webhook = await make_webhook(api, tenant, receiver.url)
    path = f"/api/webhook/{webhook['id']}/test"
    assert (await api.post(path, json={"eventType": "test"})).status_code == 200
    assert receiver.requests[0].event.keys() == {"createInstant", "id", "message", "type"}
    refused = await api.post(path, json={"eventType": "user.crate"})
    assert [each["code"] for each in refused.json()["fieldErrors"]["eventType"]] == ["[invalid]eventType"]
    assert len(receiver.requests) == 1


@pytest.mark.requirement("attack-62")
@pytest.mark.parametrize("event_id", ["x", "a.b", "x\r\nX-Evil: 1", 5, {"a": 1}])
async def test_attack_62_custom_event_cannot_forge_id_header(api, tenant, receiver, event_id):
    webhook = await make_webhook(api, tenant, receiver.url)
    answer = await api.post(f"/api/webhook/{webhook['id']}/test", json={"event": {"id": event_id, "type": "a"}})
    assert (answer.status_code, answer.json()["fieldErrors"].keys()) == (400, {"event.id"})
    assert receiver.requests == []


async def test_custom_event_without_id_gets_new_id(api, tenant, receiver):
    webhook = await make_webhook(api, tenant, receiver.url)
    answer = await api.post(f"/api/webhook/{webhook['id']}/test", json={"event": {"id": None, "type": "a"}})
    assert answer.status_code == 200
    assert receiver.requests[0].event == {"type": "a"}
    assert len(receiver.requests[0].headers["webhook-id"]) == 36


# Traces


@pytest.mark.requirement("webhooks-own-8")
async def test_every_repair_is_audited(build):
    async with build(audit__api_writes="true") as audited, receiving() as receiver:
        async with checking_client(audited.base_url, headers={"Authorization": SUPER_KEY}) as api:
            wanted = {"url": receiver.url, "connectTimeout": 1000, "readTimeout": 1000}
            webhook = (await api.post("/api/webhook", json={"webhook": wanted})).json()["webhook"]
            path = f"/api/webhook/{webhook['id']}"
            now = internals.now(audited)
            calls: list[tuple[str, str, Any]] = [
                ("PUT", "/status", {"status": "Paused"}),
                ("PUT", "/status", {"status": "Active"}),
                ("POST", "/secret", {}),
                ("DELETE", "/secret", None),
                ("POST", "/recover", {"startInstant": now}),
                ("POST", "/test", {}),
            ]
            for method, below, body in calls:
                assert (await api.request(method, path + below, json=body)).status_code in {200, 202}
            # What was refused, and looking at things, leave no row.
            assert (await api.post(f"{path}/resend", json={"eventId": new_id()})).status_code == 404
            assert (await api.get(f"{path}/dead-letter")).status_code == 200
            search = {"search": {"message": f"*{webhook['id']}*", "orderBy": "insertInstant"}}
            rows = (await api.post("/api/system/audit-log/search", json=search)).json()["auditLogs"]
        assert [row["message"] for row in rows] == [f"{method} {path}{below}" for method, below, _ in calls]
        assert "whsec_" not in str(rows)
