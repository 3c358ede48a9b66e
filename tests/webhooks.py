"""Webhooks in tests: enabled event types, webhooks, and the webhook event log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import httpx

from identity.events.catalogue import EVENTS
from identity.ids import new_id
from tests import internals

Document = dict[str, Any]


async def enable_events(
    api: httpx.AsyncClient,
    tenant_id: str,
    types: Iterable[str],
    transaction_type: str = "None",
    *,
    vetoable: Iterable[str] | None = None,
) -> None:
    """Enable event types of a tenant. Transactional types, or only `vetoable`, get the transaction type."""
    names = list(types)
    transactional = set(names if vetoable is None else vetoable)
    events = {
        name: {
            "enabled": True,
            "transactionType": transaction_type if EVENTS[name].transactional and name in transactional else "None",
        }
        for name in names
    }
    change = {"tenant": {"eventConfiguration": {"events": events}}}
    headers = {"X-FusionAuth-TenantId": tenant_id}
    answer = await api.patch(f"/api/tenant/{tenant_id}", json=change, headers=headers)
    assert answer.status_code == 200, answer.text


async def make_webhook(api: httpx.AsyncClient, tenant: Document, url: str, **members: Any) -> Document:
    """Create a webhook of the tenant, by default for `user.create.complete`."""
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


async def subscribe(
    api: httpx.AsyncClient,
    tenant: Document,
    url: str,
    types: Iterable[str],
    transaction_type: str = "None",
    *,
    vetoable: Iterable[str] | None = None,
) -> str:
    """Enable event types as `enable_events` does, and create a webhook for them; returns its id."""
    names = list(types)
    await enable_events(api, tenant["id"], names, transaction_type, vetoable=vetoable)
    timeouts = {"connectTimeout": 5000, "readTimeout": 5000}
    made = await make_webhook(api, tenant, url, eventsEnabled=dict.fromkeys(names, True), **timeouts)
    return str(made["id"])


async def find(api: httpx.AsyncClient, webhook: Document) -> Document:
    """Retrieve the current webhook."""
    return dict((await api.get(f"/api/webhook/{webhook['id']}")).json()["webhook"])


async def put_status(api: httpx.AsyncClient, webhook: Document, status: str) -> Document:
    """Set the status of a webhook; returns the webhook."""
    answer = await api.put(f"/api/webhook/{webhook['id']}/status", json={"status": status})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["webhook"])


async def make_user(api: httpx.AsyncClient, **headers: str) -> str:
    """Create a user; returns its id."""
    user = {"user": {"username": new_id(), "password": "password"}}
    answer = await api.post("/api/user", json=user, headers=headers)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["user"]["id"])


async def logs_of(api: httpx.AsyncClient, user_id: str, **criteria: Any) -> list[Document]:
    """Return the webhook event logs about a user."""
    answer = await api.post("/api/system/webhook-event-log/search", json={"search": {"event": user_id, **criteria}})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["total"] == len(found["webhookEventLogs"])
    return list(found["webhookEventLogs"])


async def until(api: httpx.AsyncClient, user_id: str, done: Callable[[list[Document]], bool]) -> Any:
    """Wait until the webhook event logs about a user fulfil a condition; return them."""
    while not done(found := await logs_of(api, user_id)):
        await asyncio.sleep(0.05)
    return found


def has_attempts(count: int) -> Callable[[list[Document]], bool]:
    """Return a condition: the event has this number of attempts, and a result (which is written after them)."""
    return lambda found: bool(found) and len(found[0]["attempts"]) >= count and found[0]["eventResult"] != "Running"


async def event_log_messages(service: Any, webhook: Document) -> list[str]:
    """Return the event log messages about a webhook, oldest first."""
    rows = internals.database(service).collection("event_logs").find({"message": {"$regex": webhook["id"]}})
    return [row["message"] async for row in rows.sort("_id", 1)]
