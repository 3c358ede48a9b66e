"""Administration of deliveries, and the delivery logs."""

from __future__ import annotations

import asyncio
from operator import itemgetter
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook

from identity.call import AnonymousCaller, Call, Origin
from identity.events.changes import Event
from identity.ids import TenantId, new_id
from identity.store import webhook_event_log
from tests import internals
from tests.conftest import DEFAULT_TENANT, SUPER_KEY, UNKNOWN_ID, checking_client
from tests.ports import free_port
from tests.receiver import answers, receiving
from tests.webhooks import enable_events, find, has_attempts, logs_of, make_user, make_webhook, put_status, until


@pytest.fixture
async def events(tenant_api: httpx.AsyncClient, tenant: dict[str, Any]) -> None:
    """Enable the event of new users in the tenant."""
    await enable_events(tenant_api, tenant["id"], ["user.create", "user.create.complete"])


# Logs


@pytest.mark.requirement("webhooks-10-8", "webhooks-15.2-8")
async def test_log_contains_event_and_attempts(api, tenant_api, tenant, events, receiver):
    receiver.behaviour = answers(201, b"taken", ["X-Receiver: one", "Set-Cookie: secret=1"])
    webhook = await make_webhook(api, tenant, receiver.url)
    user_id = await make_user(tenant_api)
    (log,) = await until(api, user_id, has_attempts(1))
    (attempt,) = log["attempts"]
    sent = receiver.requests[0].event
    assert log["event"] == {"event": sent}
    assert (log["id"], log["eventType"], log["eventResult"]) == (sent["id"], "user.create.complete", "Succeeded")
    assert (log["linkedObjectId"], log["successfulAttempts"], log["failedAttempts"]) == (user_id, 1, 0)
    assert log["lastAttemptInstant"] == attempt["startInstant"] <= attempt["endInstant"] == log["lastUpdateInstant"]
    assert log["insertInstant"] == sent["createInstant"]
    assert (attempt["attemptResult"], attempt["webhookId"]) == ("Success", webhook["id"])
    assert attempt["webhookCallResponse"] == {"statusCode": 201, "url": receiver.url}
    assert (attempt["data"]["attemptNumber"], attempt["data"]["responseBody"]) == (1, "taken")
    assert attempt["data"]["responseHeaders"]["x-receiver"] == "one"
    assert "set-cookie" not in attempt["data"]["responseHeaders"]
    one = await api.get(f"/api/system/webhook-event-log/{log['id']}")
    assert one.json() == {"webhookEventLog": log}
    single = await api.get(f"/api/system/webhook-attempt-log/{attempt['id']}")
    assert single.json() == {"webhookAttemptLog": {**attempt, "webhookEventLogId": log["id"]}}


@pytest.mark.requirement("webhooks-10-9")
async def test_failed_attempt_shows_error_and_next_attempt(api, tenant_api, tenant, events, receiver):
    receiver.behaviour = answers(500)
    await make_webhook(api, tenant, receiver.url)
    await make_webhook(api, tenant, f"http://127.0.0.1:{free_port()}/")
    (log,) = await until(api, await make_user(tenant_api), has_attempts(2))
    refused, failed = sorted(log["attempts"], key=lambda attempt: attempt["webhookCallResponse"]["statusCode"])
    assert (refused["attemptResult"], refused["webhookCallResponse"]["statusCode"]) == ("Failure", -1)
    assert refused["webhookCallResponse"]["exception"].startswith("refused: ")
    assert (failed["attemptResult"], failed["webhookCallResponse"]["statusCode"]) == ("Failure", 500)
    assert "exception" not in failed["webhookCallResponse"]
    assert failed["data"]["nextAttemptInstant"] > failed["endInstant"]
    assert (log["successfulAttempts"], log["failedAttempts"], log["eventResult"]) == (0, 2, "Succeeded")


@pytest.mark.requirement("webhooks-10-10")
async def test_vetoed_change_is_logged_as_failed(api, tenant_api, tenant, receiver):
    receiver.behaviour = answers(403)
    await enable_events(tenant_api, tenant["id"], ["user.create"], "AbsoluteMajority")
    webhook = await make_webhook(api, tenant, receiver.url, eventsEnabled={"user.create": True})
    user_id = new_id()
    refused = await tenant_api.post(
        f"/api/user/{user_id}", json={"user": {"username": new_id(), "password": "password"}}
    )
    assert refused.status_code == 504
    (log,) = await logs_of(api, user_id)
    assert (log["eventResult"], log["failedAttempts"]) == ("Failed", 1)
    again = await api.post(f"/api/webhook/{webhook['id']}/resend", json={"eventId": log["id"]})
    assert again.status_code == 404
    recovered = await api.post(f"/api/webhook/{webhook['id']}/recover", json={"startInstant": log["insertInstant"]})
    assert recovered.json() == {"deliveries": 0}


@pytest.mark.parametrize("path", ["webhook-event-log", "webhook-attempt-log"])
async def test_unknown_log_is_404(api, path):
    assert (await api.get(f"/api/system/{path}/{new_id()}")).status_code == 404
    assert (await api.get(f"/api/system/{path}/nonsense")).status_code == 400


@pytest.mark.requirement("webhooks-10-11")
async def test_log_is_searched_by_every_criterion(api, tenant_api, tenant, events, receiver):
    await make_webhook(api, tenant, receiver.url)
    user_id = await make_user(tenant_api)
    (log,) = await until(api, user_id, has_attempts(1))
    at = log["insertInstant"]
    for criteria, expected in [
        ({"eventType": "user.create.complete"}, 1),
        ({"eventType": "user.create"}, 0),
        ({"eventResult": "Succeeded"}, 1),
        ({"eventResult": "Running"}, 0),
        ({"start": at, "end": at + 1}, 1),
        ({"start": at + 1}, 0),
        ({"end": at}, 0),
    ]:
        assert len(await logs_of(api, user_id, **criteria)) == expected, criteria
    by_query = await api.get(f"/api/system/webhook-event-log/search?event=*{user_id[4:30]}*&numberOfResults=true")
    assert [each["id"] for each in by_query.json()["webhookEventLogs"]] == [log["id"]]
    none = await api.get(f"/api/system/webhook-event-log/search?event={user_id}&numberOfResults=0")
    assert none.json() == {"total": 1, "webhookEventLogs": []}


@pytest.mark.requirement("webhooks-10-11")
async def test_log_is_sorted_and_paged(api, tenant_api, tenant, events, receiver):
    await make_webhook(api, tenant, receiver.url)
    for _ in range(3):
        await make_user(tenant_api)
    await receiver.wait_for(3)
    await until(api, tenant["id"], lambda found: all(has_attempts(1)([each]) for each in found))
    criteria = {"event": tenant["id"], "orderBy": "sequence ASC"}
    answer = await api.post("/api/system/webhook-event-log/search", json={"search": criteria})
    sequences = [log["sequence"] for log in answer.json()["webhookEventLogs"]]
    assert len(sequences) == 3
    assert sequences == sorted(sequences)
    page = {**criteria, "startRow": 1, "numberOfResults": 1}
    answer = await api.post("/api/system/webhook-event-log/search", json={"search": page})
    assert [log["sequence"] for log in answer.json()["webhookEventLogs"]] == sequences[1:2]
    for field in ("eventResult", "eventType", "id", "insertInstant", "lastAttemptInstant", "linkedObjectId"):
        for direction, is_reversed in (("ASC", False), ("DESC", True)):
            order = f"orderBy={field} {direction}, sequence ASC"
            answer = await api.get(f"/api/system/webhook-event-log/search?{order}&event={tenant['id']}")
            found = [(log[field], log["sequence"]) for log in answer.json()["webhookEventLogs"]]
            assert [sequence for _, sequence in found] == [
                sequence
                for _, sequence in sorted(sorted(found, key=itemgetter(1)), key=itemgetter(0), reverse=is_reversed)
            ], order
            assert sorted(sequence for _, sequence in found) == sequences, order


@pytest.mark.requirement("webhooks-10-11")
@pytest.mark.parametrize(
    ("criteria", "code"),
    [
        ({"orderBy": "url"}, "[invalid]search.orderBy"),
        ({"start": "yesterday"}, "[couldNotConvert]search.start"),
        ({"end": -1}, "[couldNotConvert]search.end"),
        ({"eventResult": "Perhaps"}, "[invalid]search.eventResult"),
    ],
)
async def test_invalid_search_criteria_are_refused(api, criteria, code):
    answer = await api.post("/api/system/webhook-event-log/search", json={"search": criteria})
    assert answer.status_code == 400
    assert [error["code"] for errors in answer.json()["fieldErrors"].values() for error in errors] == [code]


async def test_search_that_is_not_an_object_is_refused(api):
    answer = await api.post("/api/system/webhook-event-log/search", json={"search": []})
    assert answer.json()["fieldErrors"]["search"][0]["code"] == "[invalidJSON]"


# Trying out


@pytest.mark.requirement("webhooks-10-19")
async def test_test_delivery_ignores_conditions_and_is_not_logged(api, tenant, receiver):
    receiver.behaviour = answers(202, b"hello")
    webhook = await make_webhook(api, tenant, receiver.url, eventsEnabled={}, tenantIds=[])
    answer = await api.post(f"/api/webhook/{webhook['id']}/test", json={"eventType": "user.delete"})
    attempt = answer.json()["webhookAttemptLog"]
    assert (attempt["attemptResult"], attempt["webhookCallResponse"]["statusCode"]) == ("Success", 202)
    sent = receiver.requests[0]
    assert (sent.event["type"], sent.headers["webhook-id"]) == ("user.delete", sent.event["id"])
    assert (await api.get(f"/api/system/webhook-event-log/{sent.event['id']}")).status_code == 404


@pytest.mark.requirement("webhooks-10-19")
async def test_test_delivery_accepts_custom_event(api, tenant, receiver):
    receiver.behaviour = answers(500)
    webhook = await make_webhook(api, tenant, receiver.url)
    event = {"id": new_id(), "type": "made.up", "nested": {"ü": [1]}}
    answer = await api.post(f"/api/webhook/{webhook['id']}/test", json={"event": event})
    assert answer.json()["webhookAttemptLog"]["attemptResult"] == "Failure"
    assert receiver.requests[0].event == event


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "test", {}),
        ("POST", "resend", {"eventId": UNKNOWN_ID}),
        ("POST", "recover", {"startInstant": 1}),
        ("PUT", "status", {"status": "Active"}),
        ("GET", "dead-letter", None),
        ("POST", "secret", {}),
        ("DELETE", "secret", None),
    ],
)
async def test_unknown_webhook_is_404(api, method, path, body):
    assert (await api.request(method, f"/api/webhook/{new_id()}/{path}", json=body)).status_code == 404


# Once more


@pytest.mark.requirement("webhooks-15.2-7", "webhooks-15.3-18", "webhooks-own-1")
async def test_resent_event_has_same_id(api, tenant_api, tenant, events, receiver):
    webhook = await make_webhook(api, tenant, receiver.url)
    user_id = await make_user(tenant_api)
    (log,) = await until(api, user_id, has_attempts(1))
    answer = await api.post(f"/api/webhook/{webhook['id']}/resend", json={"eventId": log["id"]})
    assert (answer.status_code, answer.json()) == (202, {"deliveries": 1})
    (log,) = await until(api, user_id, has_attempts(2))
    assert [attempt["data"].get("isManual", False) for attempt in log["attempts"]] == [False, True]
    assert len({request.event["id"] for request in receiver.requests}) == 1
    everybody = await api.post("/api/webhook/resend", json={"eventId": log["id"]})
    assert everybody.json() == {"deliveries": 1}
    await until(api, user_id, has_attempts(3))


async def test_event_is_resent_to_unsubscribed_webhook(api, tenant_api, tenant, events, receiver):
    await make_webhook(api, tenant, receiver.url)
    user_id = await make_user(tenant_api)
    (log,) = await until(api, user_id, has_attempts(1))
    async with receiving() as late:
        other = await make_webhook(api, tenant, late.url, eventsEnabled={})
        answers_ = await asyncio.gather(
            *(api.post(f"/api/webhook/{other['id']}/resend", json={"eventId": log["id"]}) for _ in range(8))
        )
        assert {answer.status_code for answer in answers_} == {202}
        await late.wait_for(1)
        assert late.requests[0].event["id"] == log["id"]


@pytest.mark.requirement("webhooks-own-1")
async def test_unknown_event_is_404(api, tenant, receiver):
    webhook = await make_webhook(api, tenant, receiver.url)
    for path in (f"/api/webhook/{webhook['id']}/resend", "/api/webhook/resend"):
        assert (await api.post(path, json={"eventId": new_id()})).status_code == 404
        assert (await api.post(path, json={"eventId": "x"})).status_code == 400


@pytest.mark.requirement("webhooks-15.2-7", "webhooks-15.3-10", "webhooks-own-2")
async def test_dead_letters_are_listed_and_recovered(api, tenant_api, tenant, events, receiver):
    receiver.behaviour = answers(410)
    webhook = await make_webhook(api, tenant, receiver.url)
    user_id = await make_user(tenant_api)
    (log,) = await until(api, user_id, has_attempts(1))
    letters = (await api.get(f"/api/webhook/{webhook['id']}/dead-letter")).json()
    assert (letters["total"], letters["deadLetters"][0]["eventId"]) == (1, log["id"])
    assert letters["deadLetters"][0]["attempts"] == log["attempts"]
    assert (await api.get(f"/api/webhook/{webhook['id']}/dead-letter?startRow=1")).json()["deadLetters"] == []
    # 410 has disabled it, as the webhook and the event log say.
    while (shown := await find(api, webhook)).get("status") != "Disabled":
        await asyncio.sleep(0.05)
    assert shown["disabledInstant"] >= log["insertInstant"]
    assert "410" in shown["disabledReason"]
    refused = await api.post(f"/api/webhook/{webhook['id']}/recover", json={"startInstant": log["insertInstant"]})
    assert refused.json()["fieldErrors"]["webhookId"][0]["code"] == "[disabled]webhookId"
    refused = await api.post(f"/api/webhook/{webhook['id']}/resend", json={"eventId": log["id"]})
    assert refused.status_code == 400
    assert (await api.post("/api/webhook/resend", json={"eventId": log["id"]})).json() == {"deliveries": 0}
    receiver.behaviour = answers(200)
    enabled = await put_status(api, webhook, "Active")
    assert enabled.keys() & {"disabledInstant", "disabledReason"} == set()
    before = {"startInstant": log["insertInstant"] - 5000, "endInstant": log["insertInstant"]}
    assert (await api.post(f"/api/webhook/{webhook['id']}/recover", json=before)).json() == {"deliveries": 0}
    answer = await api.post(f"/api/webhook/{webhook['id']}/recover", json={"startInstant": log["insertInstant"]})
    assert (answer.status_code, answer.json()) == (202, {"deliveries": 1})
    (log,) = await until(api, user_id, has_attempts(2))
    assert (log["successfulAttempts"], log["failedAttempts"]) == (1, 1)


@pytest.mark.requirement("webhooks-own-2")
@pytest.mark.parametrize("start", [1, -1])
async def test_recovery_is_limited_to_two_weeks(api, tenant, receiver, start):
    webhook = await make_webhook(api, tenant, receiver.url)
    answer = await api.post(f"/api/webhook/{webhook['id']}/recover", json={"startInstant": start})
    assert answer.json()["fieldErrors"]["startInstant"][0]["code"] == "[invalid]startInstant"


@pytest.mark.requirement("webhooks-own-3")
@pytest.mark.parametrize("query", ["startRow=-1", "numberOfResults=many"])
async def test_dead_letter_paging_requires_integers(api, tenant, receiver, query):
    webhook = await make_webhook(api, tenant, receiver.url)
    answer = await api.get(f"/api/webhook/{webhook['id']}/dead-letter?{query}")
    assert answer.json()["fieldErrors"].keys() == {query.partition("=")[0]}


# Status


@pytest.mark.requirement("audit-d2-webhook-status", "webhooks-10-10")
async def test_paused_webhook_receives_events_after_resuming(api, tenant_api, tenant, events, receiver):
    webhook = await make_webhook(api, tenant, receiver.url)
    assert (await put_status(api, webhook, "Paused"))["status"] == "Paused"
    user_id = await make_user(tenant_api)
    (log,) = await logs_of(api, user_id)
    assert (log["eventResult"], log["attempts"]) == ("Running", [])
    # A change of something else leaves it paused.
    changed = await api.patch(f"/api/webhook/{webhook['id']}", json={"webhook": {"description": "x"}})
    assert changed.json()["webhook"]["status"] == "Paused"
    assert "status" not in await put_status(api, webhook, "Active")
    await until(api, user_id, has_attempts(1))
    assert [request.event["user"]["id"] for request in receiver.requests] == [user_id]


@pytest.mark.requirement("audit-d2-webhook-status", "webhooks-15.2-4")
async def test_disabled_webhook_receives_nothing_until_reenabled(api, tenant_api, tenant, events, receiver):
    webhook = await make_webhook(api, tenant, receiver.url)
    disabled = await put_status(api, webhook, "Disabled")
    assert (disabled["status"], disabled["disabledReason"]) == ("Disabled", "An administrator disabled it.")
    assert await logs_of(api, await make_user(tenant_api)) == []
    wanted = {"url": receiver.url, "connectTimeout": 2000, "readTimeout": 2000}
    changed = (await api.put(f"/api/webhook/{webhook['id']}", json={"webhook": wanted})).json()["webhook"]
    assert changed.keys().isdisjoint({"status", "disabledInstant"})


@pytest.mark.parametrize("body", [{}, {"status": "Sleeping"}, {"status": 1}])
async def test_unknown_status_is_refused(api, tenant, receiver, body):
    webhook = await make_webhook(api, tenant, receiver.url)
    answer = await api.put(f"/api/webhook/{webhook['id']}/status", json=body)
    assert (answer.status_code, answer.json()["fieldErrors"].keys()) == (400, {"status"})
    sent = await api.patch(f"/api/webhook/{webhook['id']}", json={"webhook": {"status": "Disabled"}})
    assert "status" not in sent.json()["webhook"]


# Secrets


@pytest.mark.requirement("webhooks-10-6", "webhooks-15.3-23", "webhooks-15.3-6")
async def test_secret_is_shown_once_and_signs_during_overlap(service, api, tenant, receiver):
    webhook = await make_webhook(api, tenant, receiver.url)
    path = f"/api/webhook/{webhook['id']}"
    first = (await api.post(f"{path}/secret", json={})).json()["secret"]
    second = (await api.post(f"{path}/secret", json={"overlapInSeconds": 60})).json()["secret"]
    await api.post(f"{path}/test", json={})
    for secret in (first, second):
        assert Webhook(secret).verify(receiver.requests[0].body, receiver.requests[0].headers)
    third = (await api.post(f"{path}/secret", json={"overlapInSeconds": 0})).json()["secret"]
    # What has a secret keeps it through a change, shows it never, and stores it sealed.
    changed = await api.patch(path, json={"webhook": {"description": "x"}})
    stored = await internals.database(service).collection("webhooks").find_one({"_id": webhook["id"]})
    for secret in (first, second, third):
        assert secret not in changed.text
        assert secret not in repr(stored)
    await api.post(f"{path}/test", json={})
    assert len(receiver.requests[1].headers["webhook-signature"].split()) == 2
    assert Webhook(third).verify(receiver.requests[1].body, receiver.requests[1].headers)
    assert (await api.delete(f"{path}/secret")).status_code == 200
    await api.post(f"{path}/test", json={})
    assert "webhook-signature" not in receiver.requests[2].headers


async def test_overlap_is_limited(api, tenant, receiver):
    webhook = await make_webhook(api, tenant, receiver.url)
    answer = await api.post(f"/api/webhook/{webhook['id']}/secret", json={"overlapInSeconds": -1})
    assert answer.json()["fieldErrors"]["overlapInSeconds"][0]["code"] == "[invalid]overlapInSeconds"


# Rate limit


@pytest.mark.requirement("webhooks-15.2-6")
async def test_deliveries_respect_rate_limit(api, tenant_api, tenant, events, receiver, service):
    webhook = await make_webhook(api, tenant, receiver.url, rateLimit={"limit": 1, "periodInSeconds": 3600})
    for _ in range(3):
        await make_user(tenant_api)
    deliveries = internals.database(service).collection("deliveries")
    later = internals.now(service) + 1_800_000
    while await deliveries.count_documents({"webhookId": webhook["id"], "nextAttempt": {"$gt": later}}) < 2:
        await asyncio.sleep(0.05)
    assert len(receiver.requests) == 1
    await put_status(api, webhook, "Disabled")


@pytest.mark.parametrize("limit", [{"limit": 0, "periodInSeconds": 1}, {"limit": 1}, {"periodInSeconds": 1}])
async def test_invalid_rate_is_refused(api, tenant, limit):
    wanted = {"url": "https://example.com", "connectTimeout": 1, "readTimeout": 1, "rateLimit": limit}
    answer = await api.post("/api/webhook", json={"webhook": wanted})
    assert answer.status_code == 400
    assert all(name.startswith("webhook.rateLimit.") for name in answer.json()["fieldErrors"])


@pytest.mark.requirement("webhooks-10-17")
async def test_refresh_tokens_are_masked_in_log(service, api, tenant):
    """They lie sealed in MongoDB; who reads the log gets to know that there was a refresh, not how to make another."""
    enabled = {"jwt.refresh": {"enabled": True}}
    changed = await api.patch(
        f"/api/tenant/{tenant['id']}", json={"tenant": {"eventConfiguration": {"events": enabled}}}
    )
    assert changed.status_code == 200
    webhook = await make_webhook(api, tenant, "https://example.com/", eventsEnabled={"jwt.refresh": True})
    await put_status(api, webhook, "Paused")
    call = internals.call(service, tenant["id"])
    payload = {
        "applicationId": UNKNOWN_ID,
        "original": "old-token",
        "refreshToken": "the-refresh-token",
        "token": "new",
    }
    await internals.announce(service, call, Event("jwt.refresh", {**payload, "userId": UNKNOWN_ID}))
    found = (await api.get("/api/system/webhook-event-log/search?eventType=jwt.refresh&numberOfResults=1")).json()
    (log,) = found["webhookEventLogs"]
    shown = await api.get(f"/api/system/webhook-event-log/{log['id']}")
    event = shown.json()["webhookEventLog"]["event"]["event"]
    assert event["tenantId"] == tenant["id"]
    assert (event["original"], event["refreshToken"], event["token"], event["userId"]) == (
        "***",
        "***",
        "***",
        UNKNOWN_ID,
    )
    by_text = await api.get("/api/system/webhook-event-log/search?event=the-refresh-token")
    assert by_text.json()["total"] == 0


@pytest.mark.requirement("webhooks-15.2-15")
async def test_event_that_cannot_be_unsealed_does_not_hide_others(service, api, tenant_api, tenant, receiver):
    await enable_events(tenant_api, tenant["id"], ["jwt.refresh", "user.create.complete"])
    events_enabled = {"jwt.refresh": True, "user.create.complete": True}
    await make_webhook(api, tenant, receiver.url, eventsEnabled=events_enabled)
    call = internals.call(service, tenant["id"])
    payload = {
        "applicationId": UNKNOWN_ID,
        "original": "old-token",
        "refreshToken": "the-refresh-token",
        "token": "new",
    }
    await internals.announce(service, call, Event("jwt.refresh", {**payload, "userId": UNKNOWN_ID}))
    await make_user(tenant_api)
    await receiver.wait_for(2)
    where = {"tenantId": tenant["id"], "isSealed": True}
    gone = {"$set": {"body": "sealed:1:gone:AAAA"}}
    assert (await internals.database(service).collection("events").update_one(where, gone)).modified_count == 1
    newest = (await api.get("/api/system/webhook-event-log/search")).json()["webhookEventLogs"]
    whole, unreadable = [log for log in newest if log["event"]["event"].get("tenantId") == tenant["id"]]
    assert (whole["eventType"], whole["data"]) == ("user.create.complete", {})
    assert whole["event"]["event"]["user"]["id"] == whole["linkedObjectId"]
    assert unreadable["data"] == {"leftOut": "The event is sealed with a master key that is not there."}
    assert unreadable["event"]["event"] == {
        "createInstant": unreadable["insertInstant"],
        "id": unreadable["id"],
        "tenantId": tenant["id"],
        "type": "jwt.refresh",
    } | ({"linkedObjectId": unreadable["linkedObjectId"]} if "linkedObjectId" in unreadable else {})
    one = await api.get(f"/api/system/webhook-event-log/{unreadable['id']}")
    assert one.json()["webhookEventLog"]["data"] == unreadable["data"]


@pytest.mark.requirement("webhooks-15.2-15")
async def test_page_of_log_is_limited_in_size(api, tenant_api, tenant, events, receiver, monkeypatch):
    receiver.behaviour = answers(200, b"taken")
    await make_webhook(api, tenant, receiver.url)
    users = [await make_user(tenant_api) for _ in range(2)]
    for user_id in users:
        await until(api, user_id, has_attempts(1))
    monkeypatch.setattr(webhook_event_log, "MAX_PAGE_BYTES", 10)
    query = {"event": tenant["id"], "eventType": "user.create.complete"}
    found = (await api.get("/api/system/webhook-event-log/search", params=query)).json()["webhookEventLogs"]
    assert [log["linkedObjectId"] for log in found] == users[::-1]
    assert ["user" in log["event"]["event"] for log in found] == [True, False]
    assert found[1]["data"]["leftOut"].startswith("The event is too large for this page.")
    assert found[1]["event"]["event"]["id"] == found[1]["id"]
    assert ["responseBody" in log["attempts"][0]["data"] for log in found] == [False, False]
    assert [log["attempts"][0]["webhookCallResponse"]["statusCode"] for log in found] == [200, 200]
    alone = await api.get(f"/api/system/webhook-event-log/{found[1]['id']}")
    assert alone.json()["webhookEventLog"]["event"]["event"]["user"]["id"] == users[0]


@pytest.mark.requirement("core-17-7", "webhooks-10-15", "webhooks-10-18")
async def test_nothing_is_logged_if_disabled(build):
    """The events go out all the same."""
    async with build() as service, receiving() as receiver:
        headers = {"Authorization": SUPER_KEY}
        async with checking_client(service.base_url, headers=headers) as api:
            off = {"systemConfiguration": {"webhookEventLogConfiguration": {"enabled": False}}}
            assert (await api.patch("/api/system-configuration", json=off)).status_code == 200
            enabled = {"tenant": {"eventConfiguration": {"events": {"user.create.complete": {"enabled": True}}}}}
            assert (await api.patch(f"/api/tenant/{DEFAULT_TENANT}", json=enabled)).status_code == 200
            await make_webhook(api, {"id": DEFAULT_TENANT}, receiver.url)
            user_id = await make_user(api)
            await receiver.wait_for(1)
            assert receiver.requests[0].event["user"]["id"] == user_id
            assert await logs_of(api, user_id) == []
            event_id = receiver.requests[0].event["id"]
            assert (await api.get(f"/api/system/webhook-event-log/{event_id}")).status_code == 404


@pytest.mark.requirement("webhooks-10-11")
async def test_search_defaults_to_last_hour(service, api, tenant, clock):
    """At 2:01:01 that is from 1:01:00 until 2:02:00, the end not included."""
    webhook = await make_webhook(api, tenant, "https://example.com/", eventsEnabled={"user.update": True})
    await put_status(api, webhook, "Paused")
    enabled = {"tenant": {"eventConfiguration": {"events": {"user.update": {"enabled": True}}}}}
    assert (await api.patch(f"/api/tenant/{tenant['id']}", json=enabled)).status_code == 200
    now = internals.now(service)
    clock.advance(seconds=(61_000 - now % 60_000 + 60_000) % 60_000 / 1000)  # a second after a full minute
    minute = internals.now(service) // 60_000 * 60_000
    instants = [minute + 60_000, minute + 59_999, minute, minute - 3_600_000, minute - 3_600_001]
    for instant in instants:
        call = Call(TenantId(tenant["id"]), AnonymousCaller(), instant, Origin("127.0.0.1", "", "", ""))
        await internals.announce(service, call, Event("user.update", {"user": {"id": UNKNOWN_ID}}))
    found = await api.get("/api/system/webhook-event-log/search", params={"event": tenant["id"]})
    assert [log["insertInstant"] for log in found.json()["webhookEventLogs"]] == instants[1:4]
    wider = {"event": tenant["id"], "start": instants[4], "end": instants[0] + 1, "orderBy": "insertInstant ASC"}
    found = await api.get("/api/system/webhook-event-log/search", params=wider)
    assert [log["insertInstant"] for log in found.json()["webhookEventLogs"]] == instants[::-1]
