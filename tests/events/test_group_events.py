"""Events of groups and members: types, payloads and vetoes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity import app
from identity.ids import new_id
from tests import internals
from tests.receiver import Receiver, answers, receiving
from tests.subscriber import Subscriber

KINDS = ("group.create", "group.update", "group.delete", "group.member.add", "group.member.update")
KINDS += ("group.member.remove",)
TYPES = (*KINDS, *(f"{kind}.complete" for kind in KINDS))
INFO = {"ipAddress": "192.0.2.9", "deviceName": "phone", "userAgent": "app/1"}


class Scenario(Subscriber):
    """A tenant that sends all group events to one receiver."""

    def __init__(self, api: httpx.AsyncClient, receiver: Receiver, service: app.Service) -> None:
        super().__init__(api, receiver, api.headers["X-FusionAuth-TenantId"])
        self.service = service

    async def received(self, *types: str) -> list[dict[str, Any]]:
        """The next events, each with its linked group."""
        events = await super().received(*types)
        assert all(event["linkedObjectId"] == event["group"]["id"] for event in events)
        return events

    async def add_group(self, **members: Any) -> dict[str, Any]:
        made = await self.send("POST", "/api/group", group={"name": f"Group {new_id()}", **members})
        return dict(made["group"])

    async def add_user(self) -> str:
        made = await self.send("POST", "/api/user", user={"username": new_id(), "password": "password"})
        return str(made["user"]["id"])


@pytest.fixture
async def scenario(service: app.Service, tenant_api: httpx.AsyncClient) -> AsyncIterator[Scenario]:
    async with receiving() as receiver:
        yield Scenario(tenant_api, receiver, service)


@pytest.mark.requirement("core-18-groups-17", "event-group.create")
async def test_group_changes_raise_both_events(scenario: Scenario) -> None:
    body = {"application": {"name": "App", "roles": [{"name": "admin"}]}}
    application = (await scenario.api.post("/api/application", json=body)).json()["application"]
    await scenario.subscribe(TYPES)
    roles = [role["id"] for role in application["roles"]]
    made = await scenario.send("POST", "/api/group", group={"name": "One"}, roleIds=roles, eventInfo=INFO)
    assert made["group"]["roles"] == {application["id"]: application["roles"]}
    path = f"/api/group/{made['group']['id']}"
    for event in await scenario.received("group.create", "group.create.complete"):
        assert (event["group"], event["info"]) == (made["group"], INFO)
    changed = await scenario.send("PUT", path, group={"name": "Two"}, eventInfo=INFO)
    for event in await scenario.received("group.update", "group.update.complete"):
        assert (event["group"], event["original"], event["info"]) == (changed["group"], made["group"], INFO)
    patched = await scenario.send("PATCH", path, group={"name": "Three"}, eventInfo=INFO)
    for event in await scenario.received("group.update", "group.update.complete"):
        assert (event["group"], event["original"], event["info"]) == (patched["group"], changed["group"], INFO)
    await scenario.send("DELETE", path, eventInfo=INFO)
    for event in await scenario.received("group.delete", "group.delete.complete"):
        assert (event["group"], event["info"]) == (patched["group"], INFO)


@pytest.mark.requirement("core-18-groups-18", "event-group.member.add")
async def test_member_events_are_raised_per_group(scenario: Scenario) -> None:
    one, two = await scenario.add_group(), await scenario.add_group()
    ada, bob = await scenario.add_user(), await scenario.add_user()
    await scenario.subscribe(TYPES)
    path = "/api/group/member"
    wanted = {one["id"]: [{"userId": ada, "data": {"a": 1}}], two["id"]: [{"userId": ada}, {"userId": bob}]}
    added = (await scenario.send("POST", path, members=wanted, eventInfo=INFO))["members"]
    kinds = ("group.member.add", "group.member.add.complete")
    events = await scenario.received(*kinds, *kinds)
    assert len(events) == 4
    for event in events:
        assert event["group"] == (one if event["group"]["id"] == one["id"] else two)
        assert (event["members"], event["info"]) == (added[event["group"]["id"]], INFO)
    after = await scenario.send("PUT", path, members={two["id"]: [{"userId": bob, "data": {"b": 2}}]}, eventInfo=INFO)
    for event in await scenario.received("group.member.update", "group.member.update.complete"):
        assert event["group"] == two
        assert (event["members"], event["info"]) == (after["members"][two["id"]], INFO)
    await scenario.send("DELETE", path, members={two["id"]: [bob]}, eventInfo=INFO)
    for event in await scenario.received("group.member.remove", "group.member.remove.complete"):
        assert (event["group"], event["members"], event["info"]) == (two, after["members"][two["id"]], INFO)
    await scenario.send("DELETE", f"{path}/{added[one['id']][0]['id']}", eventInfo=INFO)
    for event in await scenario.received("group.member.remove", "group.member.remove.complete"):
        assert (event["group"], event["members"], event["info"]) == (one, added[one["id"]], INFO)


@pytest.mark.requirement("core-18-groups-18")
async def test_deleting_a_user_or_group_raises_no_member_events(scenario: Scenario) -> None:
    group, ada = await scenario.add_group(), await scenario.add_user()
    await scenario.send("POST", "/api/group/member", members={group["id"]: [{"userId": ada}]})
    await scenario.subscribe(TYPES)
    await scenario.send("DELETE", f"/api/user/{ada}?hardDelete=true")
    await scenario.send("DELETE", f"/api/group/{group['id']}")
    await scenario.received("group.delete", "group.delete.complete")


@pytest.mark.requirement("core-18-groups-19")
async def test_a_veto_leaves_no_trace(scenario: Scenario) -> None:
    group, (ada, bob) = await scenario.add_group(), [await scenario.add_user() for _ in range(2)]
    added = (await scenario.send("POST", "/api/group/member", members={group["id"]: [{"userId": ada}]}))["members"]
    await scenario.subscribe(TYPES, "Any")
    scenario.receiver.behaviour = answers(500)
    path = f"/api/group/{group['id']}"
    await scenario.send("POST", "/api/group", 504, group={"name": "New"})
    await scenario.send("PUT", path, 504, group={"name": "Changed"})
    await scenario.send("PATCH", path, 504, group={"name": "Changed"})
    await scenario.send("DELETE", path, 504)
    both = {group["id"]: [{"userId": ada}, {"userId": bob}]}
    await scenario.send("POST", "/api/group/member", 504, members={group["id"]: [{"userId": bob}]})
    await scenario.send("PUT", "/api/group/member", 504, members=both)
    await scenario.send("DELETE", "/api/group/member", 504, members={group["id"]: [ada]})
    assert (await scenario.send("GET", "/api/group"))["groups"] == [group]
    assert (await scenario.send("GET", "/api/group/member/search"))["members"] == added[group["id"]]
    assert (await scenario.send("GET", f"/api/user/{bob}"))["user"]["memberships"] == []
    stored = await internals.store(scenario.service, "groups").find(scenario.tenant_id, group["id"])
    assert stored
    assert "deleting" not in stored["private"]


@pytest.mark.requirement("core-18-groups-19")
async def test_approved_change_writes_its_events(scenario: Scenario) -> None:
    await scenario.subscribe(TYPES, "AbsoluteMajority")
    group = await scenario.add_group()
    ada = await scenario.add_user()
    await scenario.send("POST", "/api/group/member", members={group["id"]: [{"userId": ada}]})
    await scenario.send("DELETE", f"/api/group/{group['id']}")
    await scenario.received(
        "group.create", "group.create.complete", "group.member.add", "group.member.add.complete",
        "group.delete", "group.delete.complete",
    )  # fmt: skip
    assert (await scenario.send("GET", f"/api/user/{ada}"))["user"]["memberships"] == []


@pytest.mark.requirement("event-group.create")
async def test_duplicate_group_or_member_sends_no_approval_request(scenario: Scenario) -> None:
    one, other, user = await scenario.add_group(), await scenario.add_group(), await scenario.add_user()
    await scenario.send("POST", "/api/group/member", members={one["id"]: [{"userId": user}]})
    await scenario.subscribe(TYPES, "AbsoluteMajority")
    same = {"name": one["name"]}
    await scenario.send("POST", "/api/group", 400, group=same)
    await scenario.send("POST", f"/api/group/{one['id']}", 400, group={"name": new_id()})
    await scenario.send("PUT", f"/api/group/{other['id']}", 400, group=same)
    await scenario.send("POST", "/api/group/member", 400, members={one["id"]: [{"userId": user}]})
    await scenario.send("PUT", f"/api/group/{one['id']}", group={**same, "data": {"kept": "its name"}})
    await scenario.received("group.update", "group.update.complete")
