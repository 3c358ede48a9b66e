"""Grants of users and entities on entities."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from identity.call import AnonymousCaller
from identity.errors import Invalid, NotFound
from identity.ids import new_id
from identity.operations.entities import entity_grants, entity_types
from identity.operations.objects import subresources
from tests import internals
from tests.api.test_entities import make
from tests.api.test_entity_types import bare, codes
from tests.api.test_entity_types import make as make_type

Document = dict[str, Any]


class Scenario:
    """A target with a type of two permissions, a recipient, and a user."""

    def __init__(
        self, api: httpx.AsyncClient, kind: Document, target: Document, recipient: Document, user: str
    ) -> None:
        self.api, self.kind, self.target, self.recipient, self.user_id = api, kind, target, recipient, user
        self.path = f"/api/entity/{target['id']}/grant"

    async def grant(self, method: str = "POST", **grant: Any) -> httpx.Response:
        answer = await self.api.request(method, self.path, json={"grant": grant})
        assert answer.status_code != 200 or answer.content == b""
        return answer

    async def grants(self) -> list[Document]:
        return list((await self.api.get(self.path)).json()["grants"])

    async def permissions(self, **recipient: str) -> list[str]:
        return list((await self.api.get(self.path, params=recipient)).json()["grant"]["permissions"])


@pytest.fixture
async def scenario(api: httpx.AsyncClient, tenant_api: httpx.AsyncClient) -> Scenario:
    kind = await make_type(api, permissions=[{"name": "read", "isDefault": True}, {"name": "write"}])
    target, recipient = [await make(tenant_api, kind, name=f"{name} {new_id()}") for name in ("Target", "Recipient")]
    user = await tenant_api.post("/api/user", json={"user": {"username": new_id(), "password": "password"}})
    return Scenario(tenant_api, kind, target, recipient, user.json()["user"]["id"])


@pytest.mark.requirement("core-10-21", "core-10-23", "core-10-24")
async def test_grants_are_created_read_replaced_and_deleted(scenario) -> None:
    to_entity, to_user = {"recipientEntityId": scenario.recipient["id"]}, {"userId": scenario.user_id}
    assert (await scenario.grant(**to_entity, permissions=["write"], data={"a": 1})).status_code == 200
    one = (await scenario.api.get(scenario.path, params=to_entity)).json()["grant"]
    entity = {name: value for name, value in scenario.target.items() if name != "clientSecret"}
    expected = {"id": one["id"], "entity": entity, "permissions": ["write"], "data": {"a": 1}, **to_entity}
    assert bare(one) == expected
    assert (await scenario.grant("PUT", **to_user)).status_code == 200
    two = (await scenario.api.get(scenario.path, params=to_user)).json()["grant"]
    assert (two["permissions"], two["userId"]) == (["read"], scenario.user_id)
    assert {grant["id"] for grant in await scenario.grants()} == {one["id"], two["id"]}
    assert (await scenario.grant("PUT", **to_entity, permissions=["write", "read"])).status_code == 200
    again = (await scenario.api.get(scenario.path, params=to_entity)).json()["grant"]
    assert bare(again) == {**expected, "permissions": ["write", "read"], "data": {}}
    assert again["insertInstant"] == one["insertInstant"]
    assert again["lastUpdateInstant"] > one["lastUpdateInstant"]
    removed = await scenario.api.delete(scenario.path, params=to_entity)
    assert (removed.status_code, removed.content) == (200, b"")
    for method in ("GET", "DELETE"):
        assert (await scenario.api.request(method, scenario.path, params=to_entity)).status_code == 404
    assert await scenario.grants() == [two]


@pytest.mark.requirement("core-10-22", "core-10-24", "core-10-31")
async def test_wrong_grants_are_refused(scenario, api) -> None:
    foreign = await make(api, scenario.kind)
    assert codes(await scenario.api.post(scenario.path, json={})) == {"[missing]grant"}
    assert codes(await scenario.grant()) == {"[missing]grant.recipientEntityId"}
    unknown = await scenario.grant(permissions=["fly", "read"], data=5)
    assert codes(unknown) == {"[missing]grant.recipientEntityId", "[invalid]grant.permissions", "[invalidJSON]"}
    both = await scenario.grant(userId=scenario.user_id, recipientEntityId=scenario.recipient["id"])
    assert codes(both) == {"[invalid]grant.recipientEntityId"}
    assert codes(await scenario.grant(userId=new_id())) == {"[invalid]grant.userId"}
    assert codes(await scenario.grant(userId="x")) >= {"[couldNotConvert]grant.userId"}
    for entity_id in (new_id(), foreign["id"]):
        assert codes(await scenario.grant(recipientEntityId=entity_id)) == {"[invalid]grant.recipientEntityId"}
    assert codes(await scenario.api.delete(scenario.path)) == {"[missing]recipientEntityId"}
    for name in ("userId", "recipientEntityId"):
        assert codes(await scenario.api.get(scenario.path, params={name: "x"})) == {f"[couldNotConvert]{name}"}
    for path in (f"/api/entity/{new_id()}/grant", f"/api/entity/{foreign['id']}/grant"):
        for method in ("GET", "POST", "PUT", "DELETE"):
            answer = await scenario.api.request(method, path, json={"grant": {"userId": scenario.user_id}})
            assert answer.status_code == 404
    assert codes(await scenario.api.get("/api/entity/x/grant")) == {"[couldNotConvert]entityId"}
    assert await scenario.grants() == []


@pytest.mark.requirement("core-10-21")
async def test_concurrent_creates_make_one_grant(scenario) -> None:
    answers = await asyncio.gather(*(scenario.grant(userId=scenario.user_id, data={"n": index}) for index in range(12)))
    assert {answer.status_code for answer in answers} == {200}
    assert len(await scenario.grants()) == 1


@pytest.mark.requirement("core-10-28")
async def test_concurrent_deletion_of_recipient_leaves_no_grant(scenario, service) -> None:
    """In either order the deleted recipient holds no grant."""
    for _ in range(5):
        made = await scenario.api.post("/api/user", json={"user": {"username": new_id(), "password": "password"}})
        user_id = made.json()["user"]["id"]
        deletion = scenario.api.delete(f"/api/user/{user_id}?hardDelete=true")
        granted, deleted = await asyncio.gather(scenario.grant(userId=user_id), deletion)
        assert deleted.status_code == 200
        assert granted.status_code == 200 or codes(granted) == {"[invalid]grant.userId"}
        assert await internals.store(service, "entity_grants").count_across_tenants({"userId": user_id}) == 0


async def test_grant_on_entity_being_deleted_is_refused(scenario, service) -> None:
    """Target or recipient is deleted between lookup and write."""
    services, tenant_id = service.services, scenario.target["tenantId"]
    stamps = {"insertInstant": 1, "lastUpdateInstant": 1}
    own = {"id": new_id(), "tenantId": tenant_id, "permissions": [], **stamps}
    with pytest.raises(NotFound):
        await entity_grants._insert(services, tenant_id, {**own, "entityId": new_id(), "userId": scenario.user_id})
    with pytest.raises(Invalid):
        await entity_grants._insert(services, tenant_id, {**own, "entityId": scenario.target["id"], "userId": new_id()})
    assert await scenario.grants() == []


async def test_grant_with_deleted_target_is_shown_without_target(service, tenant) -> None:
    stamps = {"insertInstant": 1, "lastUpdateInstant": 1}
    grant = {"id": new_id(), "tenantId": tenant["id"], "entityId": new_id(), "userId": new_id(), **stamps}
    shown = await internals.run(
        service, entity_grants.to_response, AnonymousCaller(), {**grant, "permissions": ["read"]}
    )
    assert shown == {"id": grant["id"], "userId": grant["userId"], "permissions": ["read"], **stamps}


@pytest.mark.requirement("core-10-27")
async def test_deleting_entity_deletes_grants_on_it_and_to_it(scenario, service) -> None:
    third = await make(scenario.api, scenario.kind)
    await scenario.grant(userId=scenario.user_id)
    await scenario.grant(recipientEntityId=scenario.recipient["id"])
    other = f"/api/entity/{third['id']}/grant"
    await scenario.api.post(other, json={"grant": {"recipientEntityId": scenario.target["id"]}})
    await scenario.api.post(other, json={"grant": {"recipientEntityId": scenario.recipient["id"]}})
    assert (await scenario.api.delete(f"/api/entity/{scenario.target['id']}")).status_code == 200
    left = (await scenario.api.get(other)).json()["grants"]
    assert [grant["recipientEntityId"] for grant in left] == [scenario.recipient["id"]]
    tenant_id = scenario.target["tenantId"]
    assert await internals.store(service, "entity_grants").count(tenant_id) == 1


@pytest.mark.requirement("core-10-28")
async def test_deleting_user_deletes_their_grants(scenario) -> None:
    await scenario.grant(userId=scenario.user_id)
    await scenario.grant(recipientEntityId=scenario.recipient["id"])
    await scenario.api.delete(f"/api/user/{scenario.user_id}")
    assert len(await scenario.grants()) == 2
    await scenario.api.delete(f"/api/user/{scenario.user_id}?hardDelete=true")
    assert [grant.get("userId") for grant in await scenario.grants()] == [None]


@pytest.mark.requirement("core-10-26")
async def test_grants_follow_permissions_of_type(scenario, api) -> None:
    recipient = {"recipientEntityId": scenario.recipient["id"]}
    await scenario.grant(**recipient, permissions=["read", "write"])
    path = f"/api/entity/type/{scenario.kind['id']}/permission"
    read, write = (entry["id"] for entry in scenario.kind["permissions"])
    await api.put(f"{path}/{write}", json={"permission": {"name": "edit"}})
    assert await scenario.permissions(**recipient) == ["read", "edit"]
    await api.delete(f"{path}/{read}")
    assert await scenario.permissions(**recipient) == ["edit"]
    await api.post(path, json={"permission": {"name": "read"}})
    assert await scenario.permissions(**recipient) == ["edit"]


async def test_interrupted_permission_removal_is_completed(scenario, api, service, monkeypatch) -> None:
    """A new permission with the name of a removed one is not granted to anyone."""
    assert (await scenario.grant(userId=scenario.user_id, permissions=["read", "write"])).status_code == 200
    path = f"/api/entity/type/{scenario.kind['id']}/permission"
    call = internals.call(service)

    async def fails(*_arguments: Any) -> None:
        raise ConnectionError

    with monkeypatch.context() as patch:
        patch.setattr(internals.store(service, "entity_grants"), "rename_permission_across_tenants", fails)
        with pytest.raises(ConnectionError):
            await internals.run(
                service, subresources.delete, call, entity_types.PERMISSION, scenario.kind["id"], "name", "write"
            )
    assert (await api.delete(path, params={"name": "write"})).status_code == 200
    assert (await api.post(path, json={"permission": {"name": "write"}})).status_code == 200
    assert await scenario.permissions(userId=scenario.user_id) == ["read"]


@pytest.mark.requirement("core-10-26")
async def test_grants_follow_type_of_target(scenario, api) -> None:
    recipient = {"recipientEntityId": scenario.recipient["id"]}
    await scenario.grant(**recipient, permissions=["read", "write"])
    other = await make_type(api, permissions=[{"name": "write"}, {"name": "fly"}])
    path = f"/api/entity/{scenario.target['id']}"
    changed = await scenario.api.patch(path, json={"entity": {"type": {"id": other["id"]}}})
    assert changed.json()["entity"]["type"] == other
    assert await scenario.permissions(**recipient) == ["write"]
    await scenario.api.patch(path, json={"entity": {"type": {"id": scenario.kind["id"]}}})
    assert await scenario.permissions(**recipient) == ["write"]


@pytest.mark.requirement("core-10-25")
async def test_search(scenario) -> None:
    second = await make(scenario.api, scenario.kind, name=f"Another {new_id()}")
    recipient = {"recipientEntityId": scenario.recipient["id"]}
    await scenario.grant(userId=scenario.user_id)
    await scenario.grant(**recipient)
    await scenario.api.post(f"/api/entity/{second['id']}/grant", json={"grant": {"userId": scenario.user_id}})
    path = "/api/entity/grant/search"

    async def found(**search: Any) -> list[tuple[str, str]]:
        answer = (await scenario.api.post(path, json={"search": search})).json()
        assert answer["total"] == len(answer["grants"])
        assert all("clientSecret" not in grant["entity"] for grant in answer["grants"])
        return [(grant["entity"]["name"].split()[0], grant.get("userId", "")) for grant in answer["grants"]]

    mine = scenario.user_id
    assert sorted(await found()) == [("Another", mine), ("Target", ""), ("Target", mine)]
    assert await found(userId=mine) == [("Another", mine), ("Target", mine)]
    assert await found(userId=mine, orderBy="insertInstant") == [("Target", mine), ("Another", mine)]
    assert await found(entityId=scenario.target["id"], orderBy="insertInstant DESC") == [
        ("Target", ""),
        ("Target", mine),
    ]
    assert await found(name="another*") == [("Another", mine)]
    assert await found(userId=new_id()) == []
    by_query = (await scenario.api.get(path, params={"userId": mine, "numberOfResults": "1", "startRow": "1"})).json()
    assert by_query["total"] == 2
    assert [grant["entity"]["id"] for grant in by_query["grants"]] == [scenario.target["id"]]
    assert codes(await scenario.api.get(path, params={"userId": "x"})) == {"[couldNotConvert]userId"}
    assert codes(await scenario.api.get(path, params={"orderBy": "userId"})) == {"[invalid]orderBy"}
    renamed = {"entity": {"name": f"Zoo {new_id()}"}}
    await scenario.api.patch(f"/api/entity/{second['id']}", json=renamed)
    assert await found(userId=mine) == [("Target", mine), ("Zoo", mine)]
    assert await found(name="zoo") == [("Zoo", mine)]
    assert await found(name="another") == []
