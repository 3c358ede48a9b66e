"""Events of entities, and vetoes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity import app
from identity.ids import new_id
from tests import internals
from tests.api.test_entity_types import make as make_type
from tests.receiver import Receiver, answers, receiving
from tests.subscriber import Subscriber

DEEDS = ("entity.create", "entity.update", "entity.delete")
TYPES = (*DEEDS, *(f"{name}.complete" for name in DEEDS))


class Scenario(Subscriber):
    """A tenant that sends all entity events to one receiver."""

    def __init__(self, api: httpx.AsyncClient, receiver: Receiver, kind: dict[str, Any]) -> None:
        super().__init__(api, receiver, api.headers["X-FusionAuth-TenantId"])
        self.kind = kind

    async def make(self, **members: Any) -> dict[str, Any]:
        wanted = {"name": "One", "type": {"id": self.kind["id"]}, **members}
        return dict((await self.send("POST", "/api/entity", entity=wanted))["entity"])


@pytest.fixture
async def scenario(api: httpx.AsyncClient, tenant_api: httpx.AsyncClient) -> AsyncIterator[Scenario]:
    async with receiving() as receiver:
        yield Scenario(tenant_api, receiver, await make_type(api, permissions=[{"name": "read"}]))


def public(entity: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entity.items() if name != "clientSecret"}


@pytest.mark.requirement("core-10-30", "event-entity.create")
async def test_entity_changes_raise_events(scenario: Scenario) -> None:
    await scenario.subscribe(TYPES)
    made = await scenario.make(data={"a": 1})
    for event in await scenario.received("entity.create", "entity.create.complete"):
        assert event["entity"] == public(made)
        assert (event["linkedObjectId"], event["tenantId"]) == (made["id"], made["tenantId"])
        assert "original" not in event
    path = f"/api/entity/{made['id']}"
    info = {"deviceName": "Phone"}
    changed = (await scenario.send("PATCH", path, entity={"name": "Two"}, eventInfo=info))["entity"]
    for event in await scenario.received("entity.update", "entity.update.complete"):
        assert (event["entity"], event["original"]) == (public(changed), public(made))
        assert event["info"]["deviceName"] == "Phone"
    await scenario.send("DELETE", path)
    for event in await scenario.received("entity.delete", "entity.delete.complete"):
        assert event["entity"] == public(changed)


@pytest.mark.requirement("core-10-30")
async def test_vetoed_change_leaves_no_trace(scenario: Scenario, service: app.Service) -> None:
    await scenario.subscribe(TYPES, "AbsoluteMajority")
    one, two = await scenario.make(), await scenario.make()
    await scenario.received(*("entity.create", "entity.create.complete") * 2)
    grant = {"recipientEntityId": two["id"]}
    path = f"/api/entity/{one['id']}"
    await scenario.send("POST", f"{path}/grant", grant=grant)
    before = await scenario.send("GET", f"{path}/grant")
    scenario.receiver.behaviour = answers(500)
    body = {"name": "Vetoed", "type": {"id": scenario.kind["id"]}, "clientId": new_id()}
    await scenario.send("POST", "/api/entity", 504, entity=body)
    await scenario.send("PUT", path, 504, entity=body)
    await scenario.send("DELETE", path, 504)
    assert [event["type"] for event in await scenario.received(*DEEDS)] == list(DEEDS)
    assert (await scenario.send("GET", path))["entity"] == one
    assert await scenario.send("GET", f"{path}/grant") == before
    assert await internals.store(service, "entities").count(one["tenantId"]) == 2
    scenario.receiver.behaviour = answers(200)
    await scenario.send("POST", "/api/entity", entity=body)


@pytest.mark.requirement("event-entity.create")
async def test_duplicate_entity_sends_no_approval_request(scenario: Scenario) -> None:
    one, other = await scenario.make(), await scenario.make()
    await scenario.subscribe(TYPES, "AbsoluteMajority")
    kind = {"type": {"id": scenario.kind["id"]}, "name": "Two"}
    await scenario.send("POST", "/api/entity", 400, entity={**kind, "clientId": one["clientId"]})
    await scenario.send("POST", f"/api/entity/{one['id']}", 400, entity=kind)
    await scenario.send("PATCH", f"/api/entity/{other['id']}", 400, entity={"clientId": one["clientId"]})
    await scenario.send("PATCH", f"/api/entity/{other['id']}", entity={"name": "Three"})
    await scenario.received("entity.update", "entity.update.complete")
