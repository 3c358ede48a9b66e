"""The three conditions of webhook delivery in every combination, for events of tenants and of the instance."""

from __future__ import annotations

import itertools
from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests import internals
from tests.conftest import SUPER_KEY, checking_client
from tests.receiver import receiving, until
from tests.webhooks import make_user

SCOPES = list(itertools.product((True, False), ("none", "own", "other"), (True, False, None)))
"""global, tenantIds, and the webhook's own switch."""


async def make_tenant(api: httpx.AsyncClient) -> str:
    answer = await api.post("/api/tenant", json={"tenant": {"name": new_id(), "issuer": new_id()}})
    return str(answer.json()["tenant"]["id"])


async def make_hooks(api: httpx.AsyncClient, url: str, own: str, other: str, event_type: str) -> dict[str, Any]:
    """A webhook for each combination: its path at the receiver -> the combination."""
    made = {}
    named: dict[str, list[str]] = {"none": [], "own": [own], "other": [other]}
    for number, (is_global, tenants, switch) in enumerate(SCOPES):
        path = f"/{number}"
        webhook = {
            "url": url.removesuffix("/hook") + path,
            "connectTimeout": 5000,
            "readTimeout": 5000,
            "global": is_global,
            "tenantIds": named[tenants],
            "eventsEnabled": {} if switch is None else {event_type: switch},
        }
        answer = await api.post("/api/webhook", json={"webhook": webhook})
        assert answer.status_code == 200, answer.text
        made[path] = (is_global, tenants, switch)
    return made


async def count_deliveries(service: Any, **event: Any) -> int:
    """How many deliveries there are of events like this, made or not: what is not written is never sent."""
    database = internals.database(service)
    ids = [row["_id"] async for row in database.collection("events").find(event, {"_id": 1})]
    return int(await database.collection("deliveries").count_documents({"eventId": {"$in": ids}}))


@pytest.mark.requirement("webhooks-15.3-21", "webhooks-15.3-35")
@pytest.mark.parametrize("is_on", [True, False, None])
async def test_tenant_event_reaches_webhooks_whose_conditions_all_hold(service, api, tenant, tenant_api, is_on):
    other = await make_tenant(api)
    events = {} if is_on is None else {"user.create.complete": {"enabled": is_on}}
    change = {"tenant": {"eventConfiguration": {"events": events}}}
    assert (await tenant_api.patch(f"/api/tenant/{tenant['id']}", json=change)).status_code == 200
    async with receiving() as receiver:
        made = await make_hooks(api, receiver.url, tenant["id"], other, "user.create.complete")
        user_id = await make_user(tenant_api)
        expected = {
            path
            for path, (is_global, tenants, switch) in made.items()
            if is_on and switch and (is_global or tenants == "own")
        }
        assert len(expected) == (4 if is_on else 0)
        await until(lambda: {request.path for request in receiver.requests} >= expected)
    assert await count_deliveries(service, linkedObjectId=user_id) == len(expected)
    assert sorted(request.path for request in receiver.requests) == sorted(expected)
    assert {request.event["user"]["id"] for request in receiver.requests} <= {user_id}


@pytest.mark.requirement("webhooks-15.3-35")
async def test_instance_event_reaches_all_subscribed_active_webhooks(build):
    async with (
        build() as service,
        receiving() as receiver,
        checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as api,
    ):
        tenants = (await api.get("/api/tenant")).json()["tenants"]
        other = await make_tenant(api)
        made = await make_hooks(api, receiver.url, tenants[0]["id"], other, "audit-log.create")
        row = {"auditLog": {"insertUser": "someone", "message": "something happened"}}
        assert (await api.post("/api/system/audit-log", json=row)).status_code == 200
        expected = {
            path for path, (is_global, named, switch) in made.items() if switch and (is_global or named != "none")
        }
        assert len(expected) == 5
        await until(lambda: {request.path for request in receiver.requests} >= expected)
        assert await count_deliveries(service, type="audit-log.create") == 5
    assert sorted(request.path for request in receiver.requests) == sorted(expected)
