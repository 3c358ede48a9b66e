"""Events of entities, and vetoes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity import app
from identity.ids import new_id
from tests import doors
from tests.api.test_entity_types import make as make_type
from tests.hearing import Hearing
from tests.receiver import Receiver, answers, receiving

DEEDS = ("entity.create", "entity.update", "entity.delete")
TYPES = (*DEEDS, *(f"{name}.complete" for name in DEEDS))


class Stage(Hearing):
    """A tenant that sends all entity events to one receiver."""

    def __init__(self, api: httpx.AsyncClient, receiver: Receiver, kind: dict[str, Any]) -> None:
        super().__init__(api, receiver, api.headers["X-FusionAuth-TenantId"])
        self.kind = kind

    async def make(self, **members: Any) -> dict[str, Any]:
        wanted = {"name": "One", "type": {"id": self.kind["id"]}, **members}
        return dict((await self.send("POST", "/api/entity", entity=wanted))["entity"])


@pytest.fixture
async def stage(api: httpx.AsyncClient, tenant_api: httpx.AsyncClient) -> AsyncIterator[Stage]:
    async with receiving() as receiver:
        yield Stage(tenant_api, receiver, await make_type(api, permissions=[{"name": "read"}]))


def public(entity: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entity.items() if name != "clientSecret"}


@pytest.mark.requirement("core-10-30", "event-entity.create")
async def test_entity_changes_raise_events(stage: Stage) -> None:
    await stage.listen(TYPES)
    made = await stage.make(data={"a": 1})
    for event in await stage.heard("entity.create", "entity.create.complete"):
        assert event["entity"] == public(made)
        assert (event["linkedObjectId"], event["tenantId"]) == (made["id"], made["tenantId"])
        assert "original" not in event
    path = f"/api/entity/{made['id']}"
    info = {"deviceName": "Phone"}
    changed = (await stage.send("PATCH", path, entity={"name": "Two"}, eventInfo=info))["entity"]
    for event in await stage.heard("entity.update", "entity.update.complete"):
        assert (event["entity"], event["original"]) == (public(changed), public(made))
        assert event["info"]["deviceName"] == "Phone"
    await stage.send("DELETE", path)
    for event in await stage.heard("entity.delete", "entity.delete.complete"):
        assert event["entity"] == public(changed)


@pytest.mark.requirement("core-10-30")
async def test_vetoed_change_leaves_no_trace(stage: Stage, service: app.Service) -> None:
    await stage.listen(TYPES, "AbsoluteMajority")
    one, two = await stage.make(), await stage.make()
    await stage.heard(*("entity.create", "entity.create.complete") * 2)
    grant = {"recipientEntityId": two["id"]}
    path = f"/api/entity/{one['id']}"
    await stage.send("POST", f"{path}/grant", grant=grant)
    before = await stage.send("GET", f"{path}/grant")
    stage.receiver.behaviour = answers(500)
    body = {"name": "Vetoed", "type": {"id": stage.kind["id"]}, "clientId": new_id()}
    await stage.send("POST", "/api/entity", 504, entity=body)
    await stage.send("PUT", path, 504, entity=body)
    await stage.send("DELETE", path, 504)
    assert [event["type"] for event in await stage.heard(*DEEDS)] == list(DEEDS)
    assert (await stage.send("GET", path))["entity"] == one
    assert await stage.send("GET", f"{path}/grant") == before
    assert await doors.store(service, "entities").count(one["tenantId"]) == 2
    stage.receiver.behaviour = answers(200)
    await stage.send("POST", "/api/entity", entity=body)


@pytest.mark.requirement("event-entity.create")
async def test_duplicate_entity_sends_no_approval_request(stage: Stage) -> None:
    one, other = await stage.make(), await stage.make()
    await stage.listen(TYPES, "AbsoluteMajority")
    kind = {"type": {"id": stage.kind["id"]}, "name": "Two"}
    await stage.send("POST", "/api/entity", 400, entity={**kind, "clientId": one["clientId"]})
    await stage.send("POST", f"/api/entity/{one['id']}", 400, entity=kind)
    await stage.send("PATCH", f"/api/entity/{other['id']}", 400, entity={"clientId": one["clientId"]})
    await stage.send("PATCH", f"/api/entity/{other['id']}", entity={"name": "Three"})
    await stage.heard("entity.update", "entity.update.complete")
