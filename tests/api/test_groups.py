"""Groups: their API, and the effect of changed roles, applications and tenants."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from identity import app
from identity.call import AnonymousCaller, Call, Origin
from identity.ids import TenantId, new_id
from identity.operations.groups import groups
from tests import internals
from tests.conftest import SUPER_KEY, checking_client

Document = dict[str, Any]

MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}
JSON_PATCH = {"Content-Type": "application/json-patch+json"}


def codes(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 400, answer.text
    body = answer.json()
    fields = {e["code"] for errors in body.get("fieldErrors", {}).values() for e in errors}
    return fields | {e["code"] for e in body.get("generalErrors", [])}


async def make(api: httpx.AsyncClient, *role_ids: str, **members: Any) -> Document:
    body = {"group": {"name": f"Group {new_id()}", **members}, "roleIds": list(role_ids)}
    answer = await api.post("/api/group", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["group"])


async def add_application(api: httpx.AsyncClient, *roles: str) -> Document:
    body = {"application": {"name": f"App {new_id()}", "roles": [{"name": name} for name in roles]}}
    return dict((await api.post("/api/application", json=body)).json()["application"])


def names(group: Document) -> Document:
    """The names of the roles that a group shows, by application."""
    return {application_id: [role["name"] for role in roles] for application_id, roles in group["roles"].items()}


@pytest.mark.requirement("core-18-groups-1", "core-18-groups-3")
async def test_full_cycle(tenant_api, tenant) -> None:
    one, two = await add_application(tenant_api, "admin", "user"), await add_application(tenant_api, "reader")
    ids = [role["id"] for role in (*one["roles"], *two["roles"])]
    group_id, name = new_id(), f"Group {new_id()}"
    body = {"group": {"name": f" {name} ", "data": {"a": [1]}}, "roleIds": [*ids, ids[0]]}
    made = (await tenant_api.post(f"/api/group/{group_id}", json=body)).json()["group"]
    assert made == {
        "data": {"a": [1]},
        "id": group_id,
        "insertInstant": made["lastUpdateInstant"],
        "lastUpdateInstant": made["lastUpdateInstant"],
        "name": name,
        "roles": {one["id"]: one["roles"], two["id"]: two["roles"]},
        "tenantId": tenant["id"],
    }
    path = f"/api/group/{group_id}"
    assert (await tenant_api.get(path)).json() == {"group": made}
    assert (await tenant_api.get("/api/group")).json() == {"groups": [made]}
    replaced = (await tenant_api.put(path, json={"group": {"name": f"{name}!"}})).json()["group"]
    assert (replaced["name"], replaced["data"], replaced["roles"]) == (f"{name}!", {}, {})
    assert replaced["insertInstant"] == made["insertInstant"]
    assert replaced["lastUpdateInstant"] > made["lastUpdateInstant"]
    assert (await tenant_api.delete(path)).status_code == 200
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        assert (await tenant_api.request(method, path, json={"group": {"name": "x"}})).status_code == 404
    assert (await tenant_api.get("/api/group")).json() == {"groups": []}


@pytest.mark.requirement("core-18-groups-1")
async def test_group_without_roles_and_data(tenant_api) -> None:
    made = await make(tenant_api)
    assert (made["data"], made["roles"]) == ({}, {})


@pytest.mark.requirement("core-18-groups-4")
async def test_patch_applies_to_role_ids_next_to_group(tenant_api) -> None:
    one = await add_application(tenant_api, "a", "b", "c")
    a, b, c = (role["id"] for role in one["roles"])
    made = await make(tenant_api, a, data={"x": 1})
    path = f"/api/group/{made['id']}"
    appended = await tenant_api.patch(path, json={"roleIds": [b], "group": {"data": {"y": 2}}})
    assert names(appended.json()["group"]) == {one["id"]: ["a", "b"]}
    assert appended.json()["group"]["data"] == {"x": 1, "y": 2}
    assert appended.json()["group"]["name"] == made["name"]
    operations: list[Document] = [
        {"op": "test", "path": "/roleIds/1", "value": b},
        {"op": "replace", "path": "/roleIds/1", "value": c},
        {"op": "remove", "path": "/group/data/x"},
    ]
    edited = (await tenant_api.patch(path, json=operations, headers=JSON_PATCH)).json()["group"]
    assert (names(edited), edited["data"]) == ({one["id"]: ["a", "c"]}, {"y": 2})
    removed = await tenant_api.patch(path, json=[{"op": "remove", "path": "/roleIds/0"}], headers=JSON_PATCH)
    assert names(removed.json()["group"]) == {one["id"]: ["c"]}
    merged = await tenant_api.patch(path, json={"roleIds": [b], "group": {"data": {}}}, headers=MERGE_PATCH)
    assert (names(merged.json()["group"]), merged.json()["group"]["data"]) == ({one["id"]: ["b"]}, {"y": 2})
    untouched = await tenant_api.patch(path, json={"group": {"name": f"{made['name']}!"}})
    assert names(untouched.json()["group"]) == {one["id"]: ["b"]}
    for kind in ("application/json", MERGE_PATCH["Content-Type"]):
        await tenant_api.patch(path, json={"roleIds": [a]})
        cleared = await tenant_api.patch(path, json={"roleIds": None}, headers={"Content-Type": kind})
        assert cleared.json()["group"]["roles"] == {}
    gone = await tenant_api.patch(path, json=[{"op": "remove", "path": "/group"}], headers=JSON_PATCH)
    assert codes(gone) == {"[invalidPatch]"}


@pytest.mark.requirement("core-18-groups-1")
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, {"[missing]group"}),
        ({"group": {}}, {"[blank]group.name"}),
        ({"group": {"name": " "}}, {"[blank]group.name"}),
        ({"group": {"name": "x" * 192}}, {"[tooLong]group.name"}),
        ({"group": {"name": "x", "data": []}}, {"[invalidJSON]"}),
        ({"group": {"name": "x"}, "roleIds": "x"}, {"[invalidJSON]"}),
        ({"group": {"name": "x"}, "roleIds": ["x"]}, {"[couldNotConvert]roleIds[0]"}),
        ({"group": {"name": "x"}, "roleIds": ["00000000-0000-4000-8000-000000000000"]}, {"[invalid]roleIds"}),
        ({"group": {}, "roleIds": ["x", "00000000-0000-4000-8000-000000000000"]},
         {"[blank]group.name", "[couldNotConvert]roleIds[0]", "[invalid]roleIds"}),
    ],
)  # fmt: skip
async def test_invalid_groups(tenant_api, body, expected) -> None:
    assert codes(await tenant_api.post("/api/group", json=body)) == expected
    made = await make(tenant_api)
    assert codes(await tenant_api.put(f"/api/group/{made['id']}", json=body)) == expected
    assert (await tenant_api.get("/api/group")).json() == {"groups": [made]}


@pytest.mark.requirement("core-18-groups-2")
async def test_name_is_unique_per_tenant_and_id_globally(tenant_api, api) -> None:
    made, other = await make(tenant_api), await make(tenant_api)
    same_name = {"group": {"name": made["name"]}}
    assert codes(await tenant_api.post("/api/group", json=same_name)) == {"[duplicate]group.name"}
    assert codes(await tenant_api.put(f"/api/group/{other['id']}", json=same_name)) == {"[duplicate]group.name"}
    assert codes(await tenant_api.post(f"/api/group/{made['id']}", json={"group": {"name": "x"}})) == {
        "[duplicate]groupId"
    }
    assert codes(await api.post(f"/api/group/{made['id']}", json={"group": {"name": new_id()}})) == {
        "[duplicate]groupId"
    }
    assert (await api.post("/api/group", json=same_name)).status_code == 200


@pytest.mark.requirement("core-18-groups-3")
async def test_roles_of_another_tenant_are_refused(tenant_api, api) -> None:
    theirs = await add_application(api, "admin")
    body = {"group": {"name": "x"}, "roleIds": [theirs["roles"][0]["id"]]}
    assert codes(await tenant_api.post("/api/group", json=body)) == {"[invalid]roleIds"}


@pytest.mark.requirement("core-18-groups-6")
async def test_role_changes_are_reflected_in_groups(tenant_api) -> None:
    one = await add_application(tenant_api, "admin", "user")
    admin, user = one["roles"]
    made = await make(tenant_api, admin["id"], user["id"])
    path, role_path = f"/api/group/{made['id']}", f"/api/application/{one['id']}/role"
    await tenant_api.patch(f"{role_path}/{admin['id']}", json={"role": {"name": "chief"}})
    assert names((await tenant_api.get(path)).json()["group"]) == {one["id"]: ["chief", "user"]}
    await tenant_api.delete(f"{role_path}/{admin['id']}")
    assert names((await tenant_api.get(path)).json()["group"]) == {one["id"]: ["user"]}
    await tenant_api.post(f"{role_path}/{admin['id']}", json={"role": {"name": "admin"}})
    assert names((await tenant_api.get(path)).json()["group"]) == {one["id"]: ["user"]}, "another role, under its id"
    await tenant_api.delete(role_path, params={"name": "user"})
    assert (await tenant_api.get(path)).json()["group"]["roles"] == {}


@pytest.mark.requirement("core-18-groups-6")
async def test_deleted_application_leaves_no_roles_in_groups(service: app.Service, tenant_api) -> None:
    one, two = await add_application(tenant_api, "admin"), await add_application(tenant_api, "reader")
    made = await make(tenant_api, one["roles"][0]["id"], two["roles"][0]["id"])
    await tenant_api.delete(f"/api/application/{one['id']}", params={"hardDelete": "true"})
    assert names((await tenant_api.get(f"/api/group/{made['id']}")).json()["group"]) == {two["id"]: ["reader"]}
    stored = await internals.store(service, "groups").find(TenantId(made["tenantId"]), made["id"])
    assert stored
    assert [grant["applicationId"] for grant in stored["private"]["grants"]] == [two["id"]]


@pytest.mark.requirement("core-18-groups-5")
async def test_search(tenant_api, service, tenant) -> None:
    one = await add_application(tenant_api, "admin")
    made = [await make(tenant_api, one["roles"][0]["id"], name=f"Team {letter}") for letter in "bac"]
    answer = (await tenant_api.get("/api/group/search", params={"name": "TEAM*", "startRow": 1})).json()
    assert answer == {"total": 3, "groups": [made[0], made[2]]}
    newest = {"search": {"name": "team", "orderBy": "insertInstant DESC, id", "numberOfResults": 1}}
    assert (await tenant_api.post("/api/group/search", json=newest)).json() == {"total": 3, "groups": [made[2]]}
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as anywhere:
        in_tenant = {"search": {"tenantId": tenant["id"], "orderBy": "tenant, name"}}
        answer = (await anywhere.post("/api/group/search", json=in_tenant)).json()
        assert [group["name"] for group in answer["groups"]] == ["Team a", "Team b", "Team c"]
    assert (await tenant_api.get("/api/group/search", params={"tenantId": new_id()})).json() == {
        "total": 0,
        "groups": [],
    }
    assert codes(await tenant_api.get("/api/group/search", params={"orderBy": "data"})) == {"[invalid]orderBy"}


async def test_list_of_many_groups_shows_roles(tenant_api) -> None:
    one = await add_application(tenant_api, "admin")
    made = [await make(tenant_api, one["roles"][0]["id"]) for _ in range(60)]
    found = (await tenant_api.get("/api/group")).json()["groups"]
    assert sorted(found, key=lambda group: group["id"]) == sorted(made, key=lambda group: group["id"])


async def test_id_determines_tenant_and_new_group_requires_one(service, tenant_api, api) -> None:
    made = await make(tenant_api)
    path = f"/api/group/{made['id']}"
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as anywhere:
        assert (await anywhere.get(path)).json() == {"group": made}
        assert (await anywhere.patch(path, json={"group": {"data": {"a": 1}}})).status_code == 200
        assert codes(await anywhere.post("/api/group", json={"group": {"name": "x"}})) == {"[TenantIdRequired]"}
        assert made["id"] in {one["id"] for one in (await anywhere.get("/api/group")).json()["groups"]}
        assert (await api.delete(path)).status_code == 404, "the header names another tenant"
        assert (await anywhere.delete(path)).status_code == 200
    assert (await tenant_api.get(path)).status_code == 404


@pytest.mark.requirement("core-18-groups-7")
async def test_deleting_tenant_deletes_groups(service: app.Service, tenant_api, tenant) -> None:
    made = await make(tenant_api)
    user = (await tenant_api.post("/api/user", json={"user": {"username": "x", "password": "password"}})).json()["user"]
    await tenant_api.post("/api/group/member", json={"members": {made["id"]: [{"userId": user["id"]}]}})
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as anywhere:
        assert (await anywhere.delete(f"/api/tenant/{tenant['id']}")).status_code == 200
    tenant_id = TenantId(tenant["id"])
    assert await internals.store(service, "groups").count(tenant_id) == 0
    assert await internals.store(service, "group_members").count(tenant_id) == 0


@pytest.mark.requirement("core-18-groups-7")
async def test_interrupted_deletion_is_resumed(service: app.Service, tenant_api, tenant) -> None:
    """A group marked for deletion accepts no members; the sweeper deletes it with its memberships."""
    services, tenant_id = service.services, TenantId(tenant["id"])
    made = await make(tenant_api)
    users = [await add_member(tenant_api, made), await add_user(tenant_api)]
    await services.directory.groups.update(tenant_id, {"_id": made["id"]}, {"$set": {"private.deleting": True}})
    late = await tenant_api.post("/api/group/member", json={"members": {made["id"]: [{"userId": users[1]}]}})
    assert codes(late) == {f"[invalid]members.{made['id']}"}
    await groups.finish_deletions(services)
    assert (await tenant_api.get(f"/api/group/{made['id']}")).status_code == 404
    assert (await tenant_api.get(f"/api/user/{users[0]}")).json()["user"]["memberships"] == []
    assert await services.directory.group_members.count(tenant_id) == 0
    origin = Origin("127.0.0.1", "", "", "")
    again = {"id": made["id"], "tenantId": tenant_id, "name": "x", "private": {"grants": []}}
    await groups.finish_deletion(services, Call(tenant_id, AnonymousCaller(), services.clock.now(), origin), again)


async def add_user(api: httpx.AsyncClient) -> str:
    answer = await api.post("/api/user", json={"user": {"username": new_id(), "password": "password"}})
    return str(answer.json()["user"]["id"])


async def add_member(api: httpx.AsyncClient, group: Document) -> str:
    user_id = await add_user(api)
    answer = await api.post("/api/group/member", json={"members": {group["id"]: [{"userId": user_id}]}})
    assert answer.status_code == 200, answer.text
    return user_id
