"""Webhooks in tests: tenants that tell of events, webhooks that hear of them, and what the logs say of deliveries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import httpx

from identity.events.catalogue import EVENTS
from identity.ids import new_id
from tests import doors

Document = dict[str, Any]


async def tell_of(
    api: httpx.AsyncClient,
    tenant_id: str,
    types: Iterable[str],
    transaction_type: str = "None",
    *,
    vetoable: Iterable[str] | None = None,
) -> None:
    """Let a tenant tell of these types; those that may be vetoed, or only `vetoable`, have the transaction type."""
    names = list(types)
    asked = set(names if vetoable is None else vetoable)
    events = {
        name: {
            "enabled": True,
            "transactionType": transaction_type if EVENTS[name].transactional and name in asked else "None",
        }
        for name in names
    }
    change = {"tenant": {"eventConfiguration": {"events": events}}}
    headers = {"X-FusionAuth-TenantId": tenant_id}
    answer = await api.patch(f"/api/tenant/{tenant_id}", json=change, headers=headers)
    assert answer.status_code == 200, answer.text


async def make_webhook(api: httpx.AsyncClient, tenant: Document, url: str, **members: Any) -> Document:
    """A webhook of the tenant, which hears of new users unless its members say otherwise."""
    wanted = {
        "url": url,
        "connectTimeout": 2000,
        "readTimeout": 2000,
        "tenantIds": [tenant["id"]],
        "eventsEnabled": {"user.create.complete": True},
        **members,
    }
    answer = await api.post("/api/webhook", json={"webhook": wanted})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["webhook"])


async def listen(
    api: httpx.AsyncClient,
    tenant: Document,
    url: str,
    types: Iterable[str],
    transaction_type: str = "None",
    *,
    vetoable: Iterable[str] | None = None,
) -> str:
    """Let the tenant tell of these types, see `tell_of`, and a webhook hear of them; the webhook's id."""
    names = list(types)
    await tell_of(api, tenant["id"], names, transaction_type, vetoable=vetoable)
    patient = {"connectTimeout": 5000, "readTimeout": 5000}
    made = await make_webhook(api, tenant, url, eventsEnabled=dict.fromkeys(names, True), **patient)
    return str(made["id"])


async def find(api: httpx.AsyncClient, webhook: Document) -> Document:
    """The webhook as it is now."""
    return dict((await api.get(f"/api/webhook/{webhook['id']}")).json()["webhook"])


async def put_status(api: httpx.AsyncClient, webhook: Document, status: str) -> Document:
    """The webhook, with another status."""
    answer = await api.put(f"/api/webhook/{webhook['id']}/status", json={"status": status})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["webhook"])


async def make_user(api: httpx.AsyncClient, **headers: str) -> str:
    """The id of a new user, for an event to tell of."""
    user = {"user": {"username": new_id(), "password": "password"}}
    answer = await api.post("/api/user", json=user, headers=headers)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["user"]["id"])


async def logs_of(api: httpx.AsyncClient, user_id: str, **criteria: Any) -> list[Document]:
    """The logged events about a user."""
    answer = await api.post("/api/system/webhook-event-log/search", json={"search": {"event": user_id, **criteria}})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["total"] == len(found["webhookEventLogs"])
    return list(found["webhookEventLogs"])


async def until(api: httpx.AsyncClient, user_id: str, done: Callable[[list[Document]], bool]) -> Any:
    """The logs about a user, once they look as expected; the test's own time limit ends it otherwise."""
    while not done(found := await logs_of(api, user_id)):
        await asyncio.sleep(0.05)
    return found


def tried(count: int) -> Callable[[list[Document]], bool]:
    """There are so many attempts, and the event's own row has heard of them, which is the second write."""
    return lambda found: bool(found) and len(found[0]["attempts"]) >= count and found[0]["eventResult"] != "Running"


async def event_log_messages(service: Any, webhook: Document) -> list[str]:
    """What the event log says of the webhook, the oldest first."""
    rows = doors.database(service).collection("event_logs").find({"message": {"$regex": webhook["id"]}})
    return [row["message"] async for row in rows.sort("_id", 1)]
