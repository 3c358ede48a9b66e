"""The pages of a webhook: test events with a body of one's own, and why an event does not arrive."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from identity.events.catalogue import EVENTS
from identity.ids import new_id
from identity.operations.webhooks import webhook_gates
from tests.conftest import DEFAULT_TENANT
from tests.console.administrator import Browser, Page
from tests.receiver import Receiver, until

TENANT = {"id": DEFAULT_TENANT, "name": "Shop", "eventConfiguration": {"events": {"user.create": {"enabled": True}}}}
OPEN = {"id": "1", "global": True, "eventsEnabled": {"user.create": True}, "insertInstant": 5}


@pytest.mark.parametrize(
    ("changes", "tenant", "closed"),
    [
        ({}, {}, []),
        ({}, {"eventConfiguration": {}}, ["Event switch of the tenant"]),
        ({"global": False, "tenantIds": ["other"]}, {}, ["Tenants of the webhook"]),
        ({"global": False, "tenantIds": [DEFAULT_TENANT]}, {}, []),
        ({"eventsEnabled": {"user.create": False}}, {}, ["Event switch of the webhook"]),
        ({"status": "Disabled"}, {}, ["Not disabled"]),
        ({"status": "Paused"}, {}, ["Not paused"]),
    ],
)
def test_closed_gates_are_named(changes: dict[str, Any], tenant: dict[str, Any], closed: list[str]) -> None:
    gates = list(webhook_gates.of_type({**OPEN, **changes}, EVENTS["user.create"], {**TENANT, **tenant}))
    assert [gate.name for gate in gates if not gate.is_open] == closed
    assert [gate.name for gate in gates if gate.is_held] == [name for name in closed if name == "Not paused"]


def test_gates_of_an_event_of_the_instance_need_no_tenant() -> None:
    event_type = next(each for each in EVENTS.values() if each.is_of_instance)
    gates = list(webhook_gates.of_type({**OPEN, "global": False, "tenantIds": []}, event_type, None))
    assert [gate.name for gate in gates if not gate.is_open] == ["Scope", "Event switch of the webhook"]


@pytest.mark.parametrize(
    ("instant", "results", "closed"),
    [
        (9, ["Success"], []),
        (9, ["Failure", "Success"], []),
        (9, ["Failure"], ["Delivered"]),
        (9, [], ["Attempted"]),
        (1, [], ["Webhook existed", "Attempted"]),
    ],
)
def test_result_of_an_event_is_explained(instant: int, results: list[str], closed: list[str]) -> None:
    response = {"statusCode": 500, "url": "x"}
    attempts = [{"webhookId": "1", "attemptResult": each, "webhookCallResponse": response} for each in results]
    attempts.append({"webhookId": "2", "attemptResult": "Success", "webhookCallResponse": response})
    gates = list(webhook_gates.of_event(OPEN, {"insertInstant": instant, "attempts": attempts}))
    assert [gate.name for gate in gates if not gate.is_open] == closed


async def webhook(api: httpx.AsyncClient, url: str, **members: Any) -> str:
    body = {"url": url, "connectTimeout": 1000, "readTimeout": 1000, **members}
    answer = await api.post("/api/webhook", json={"webhook": body})
    assert answer.status_code == 200, answer.text
    return f"/admin/webhooks/{answer.json()['webhook']['id']}"


async def test_event_is_edited_and_sent(
    roles: dict[str, Browser], every_tenant: httpx.AsyncClient, receiver: Receiver
) -> None:
    screen = await webhook(every_tenant, receiver.url)
    shown = await roles["developer"].open(f"{screen}/test?type=user.delete")
    event = json.loads(next(form["fields"]["event"] for form in Page(shown).forms if "event" in form["fields"]))
    assert event["type"] == "user.delete"
    event["user"]["email"] = "edited@example.com"
    sent = await post_event(roles["developer"], screen, json.dumps(event))
    assert sent.status_code == 200
    assert "Success" in Page(sent).text
    assert "edited@example.com" in receiver.requests[-1].body.decode()
    assert (await post_event(roles["developer"], screen, "{")).status_code == 400
    assert (await post_event(roles["developer"], screen, "[1]")).status_code == 400
    assert (await post_event(roles["auditor"], screen, json.dumps(event))).status_code in {401, 403}
    assert len(receiver.requests) == 1


async def post_event(browser: Browser, screen: str, text: str) -> httpx.Response:
    token = await browser.csrf_token()
    return await browser.http.post(f"{screen}/test", data={"csrf_token": token, "event": text})


@pytest.mark.requirement("console-18")
async def test_page_explains_a_type_and_an_event(
    roles: dict[str, Browser], every_tenant: httpx.AsyncClient, receiver: Receiver
) -> None:
    name = "user.create.complete"
    subscribed = await webhook(every_tenant, receiver.url, **{"global": True}, eventsEnabled={name: True})
    other = await webhook(every_tenant, receiver.url, eventsEnabled={})
    auditor = roles["auditor"]
    events = {"events": {name: {"enabled": True}}}
    body = {"tenant": {"name": new_id(), "eventConfiguration": events}}
    tenant_id = (await every_tenant.post("/api/tenant", json=body)).json()["tenant"]["id"]

    async def explained(screen: str, event: str, of_tenant: str = tenant_id) -> str:
        query = {"event": event, "tenantId": of_tenant}
        answer = await auditor.http.get(f"{screen}/why", params=query)
        assert answer.status_code == 200
        return " ".join(Page(answer).text.split())

    assert "Every gate is open" in await explained(subscribed, name)
    assert "must be for all tenants" in await explained(other, name)
    assert "must enable" in await explained(subscribed, "user.delete")
    assert "no such event type" in await explained(subscribed, "nonsense")
    assert "no such event" in await explained(subscribed, new_id())
    assert "Choose the tenant" in await explained(subscribed, name, "")
    mark = f"{new_id()}@example.com"
    user = {"email": mark, "password": "a long password"}
    await every_tenant.post("/api/user", json={"user": user}, headers={"X-FusionAuth-TenantId": tenant_id})
    logged: list[str] = []

    async def is_delivered() -> bool:
        found = await every_tenant.get(
            "/api/system/webhook-event-log/search", params={"eventType": name, "event": mark}
        )
        logged[:] = [row["id"] for row in found.json()["webhookEventLogs"] if row["eventResult"] == "Succeeded"]
        return bool(logged)

    await until(is_delivered)
    assert "Every gate is open" in await explained(subscribed, logged[0])
    text = await explained(other, logged[0])
    assert "Attempted" in text
    assert "must be for all tenants" in text
