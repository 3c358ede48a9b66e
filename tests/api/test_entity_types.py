"""Entity types and their permissions."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests.conftest import UNKNOWN_ID

Document = dict[str, Any]


def codes(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 400, answer.text
    body = answer.json()
    fields = {e["code"] for errors in body.get("fieldErrors", {}).values() for e in errors}
    return fields | {e["code"] for e in body.get("generalErrors", [])}


async def make(api: httpx.AsyncClient, **members: Any) -> Document:
    body = {"entityType": {"name": f"Type {new_id()}", **members}}
    answer = await api.post("/api/entity/type", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["entityType"])


def bare(entity_type: Document) -> Document:
    return {name: value for name, value in entity_type.items() if not name.endswith("Instant")}


@pytest.mark.requirement("core-10-1", "core-10-2", "core-10-6")
async def test_full_cycle(api) -> None:
    type_id, name = new_id(), f"Type {new_id()}"
    wanted = {"name": f"  {name} ", "data": {"a": 1}, "permissions": [{"name": "read", "isDefault": True}]}
    made = (await api.post(f"/api/entity/type/{type_id}", json={"entityType": wanted})).json()["entityType"]
    path = f"/api/entity/type/{type_id}"
    (permission,) = made["permissions"]
    assert bare(made) == {
        "id": type_id,
        "name": name,
        "data": {"a": 1},
        "jwtConfiguration": {"enabled": False, "timeToLiveInSeconds": 0},
        "permissions": [permission],
    }
    assert bare(permission) == {"id": permission["id"], "name": "read", "isDefault": True, "data": {}}
    assert (await api.get(path)).json() == {"entityType": made}
    assert made in (await api.get("/api/entity/type")).json()["entityTypes"]
    changed = (await api.put(path, json={"entityType": {"name": name, "permissions": [{"name": "other"}]}})).json()
    assert changed["entityType"]["data"] == {}
    assert changed["entityType"]["permissions"] == [permission]
    patched = (await api.patch(path, json={"entityType": {"data": {"b": 2}}})).json()["entityType"]
    assert (patched["data"], patched["name"], patched["permissions"]) == ({"b": 2}, name, [permission])
    assert patched["lastUpdateInstant"] > made["lastUpdateInstant"]
    assert (await api.delete(path)).content == b""
    assert (await api.get(path)).status_code == 404
    assert (await api.put(path, json={"entityType": {"name": name}})).status_code == 404


@pytest.mark.requirement("core-10-1")
async def test_name_is_required_and_unique(api) -> None:
    made = await make(api)
    assert codes(await api.post("/api/entity/type", json={"entityType": {}})) == {"[blank]entityType.name"}
    assert codes(await api.post("/api/entity/type", json={})) == {"[missing]entityType"}
    body = {"entityType": {"name": made["name"]}}
    assert codes(await api.post("/api/entity/type", json=body)) == {"[duplicate]entityType.name"}
    body["entityType"]["name"] += "!"
    again = await api.post(f"/api/entity/type/{made['id']}", json=body)
    assert codes(again) == {"[duplicate]entityTypeId"}


@pytest.mark.requirement("core-10-2", "core-10-3", "core-10-31")
async def test_all_errors_of_type_are_reported_together(api) -> None:
    unknown = new_id()
    wanted = {
        "data": [],
        "jwtConfiguration": {"enabled": True, "accessTokenVerificationKeyIds": [unknown]},
        "permissions": [{"name": "x"}, {"name": "x"}],
    }
    assert codes(await api.post("/api/entity/type", json={"entityType": wanted})) == {
        "[blank]entityType.name",
        "[invalidJSON]",
        "[missing]entityType.jwtConfiguration.accessTokenKeyId",
        "[missing]entityType.jwtConfiguration.timeToLiveInSeconds",
        "[invalid]entityType.jwtConfiguration.accessTokenVerificationKeyIds[0]",
        "[duplicate]entityType.permissions[1].name",
    }
    unnamed = {"name": new_id(), "permissions": [{"description": "?"}]}
    refused = await api.post("/api/entity/type", json={"entityType": unnamed})
    assert codes(refused) == {"[blank]entityType.permissions[0].name"}


@pytest.mark.requirement("core-10-3", "core-10-4", "core-7-rotation-entity")
async def test_signing_key_must_exist_and_be_able_to_sign(api, clock) -> None:
    key = (await api.post("/api/key/generate", json={"key": {"algorithm": "ES256", "name": new_id()}})).json()["key"]
    public = {"name": new_id(), "type": "EC", "publicKey": key["publicKey"]}
    half = (await api.post("/api/key/import", json={"key": public})).json()["key"]
    field = "[invalid]entityType.jwtConfiguration.accessTokenKeyId"
    for key_id in (new_id(), half["id"]):
        tokens = {"enabled": True, "accessTokenKeyId": key_id, "timeToLiveInSeconds": 60}
        refused = await api.post(
            "/api/entity/type", json={"entityType": {"name": new_id(), "jwtConfiguration": tokens}}
        )
        assert codes(refused) == {field}
    tokens = {
        "enabled": True,
        "accessTokenKeyId": key["id"],
        "accessTokenVerificationKeyIds": [half["id"]],
        "timeToLiveInSeconds": 60,
    }
    made = await make(api, jwtConfiguration=tokens)
    assert made["jwtConfiguration"] == tokens
    path = f"/api/entity/type/{made['id']}"
    for used in (key, half):
        assert codes(await api.delete(f"/api/key/{used['id']}")) == {"[inUse]keyId"}
    other = (await api.post("/api/key/generate", json={"key": {"algorithm": "ES256", "name": new_id()}})).json()["key"]
    changed = {"enabled": True, "accessTokenKeyId": other["id"], "timeToLiveInSeconds": 60}
    answer = await api.put(path, json={"entityType": {"name": made["name"], "jwtConfiguration": changed}})
    assert answer.status_code == 200
    assert (await api.delete(f"/api/key/{half['id']}")).status_code == 200
    # A token that it signed may be alive.
    assert codes(await api.delete(f"/api/key/{key['id']}")) == {"[inUse]keyId"}
    clock.advance(seconds=122)
    assert (await api.delete(f"/api/key/{key['id']}")).status_code == 200


@pytest.mark.requirement("core-10-9")
async def test_type_in_use_cannot_be_deleted(api, tenant_api) -> None:
    made = await make(api)
    path = f"/api/entity/type/{made['id']}"
    body = {"entity": {"name": "One", "type": {"id": made["id"]}}}
    entity = (await tenant_api.post("/api/entity", json=body)).json()["entity"]
    assert codes(await api.delete(path)) == {"[inUse]entityTypeId"}
    await tenant_api.delete(f"/api/entity/{entity['id']}")
    assert (await api.delete(path)).status_code == 200


@pytest.mark.requirement("core-10-5", "core-10-8")
async def test_permissions_are_created_updated_and_deleted(api) -> None:
    made = await make(api)
    path = f"/api/entity/type/{made['id']}/permission"
    permission_id = new_id()
    wanted = {"name": "write", "description": "May write", "isDefault": True, "data": {"a": 1}}
    added = (await api.post(f"{path}/{permission_id}", json={"permission": wanted})).json()["permission"]
    assert bare(added) == {"id": permission_id, **wanted}
    other = (await api.post(path, json={"permission": {"name": "read"}})).json()["permission"]
    assert bare(other) == {"id": other["id"], "name": "read", "isDefault": False, "data": {}}
    changed = (await api.put(f"{path}/{permission_id}", json={"permission": {"name": "edit"}})).json()["permission"]
    assert bare(changed) == {"id": permission_id, "name": "edit", "isDefault": False, "data": {}}
    patch = {"permission": {"description": "May edit"}}
    patched = (await api.patch(f"{path}/{permission_id}", json=patch)).json()["permission"]
    assert (patched["name"], patched["description"]) == ("edit", "May edit")
    shown = (await api.get(f"/api/entity/type/{made['id']}")).json()["entityType"]
    assert shown["permissions"] == [patched, other]
    assert shown["lastUpdateInstant"] > made["lastUpdateInstant"]
    assert (await api.delete(f"{path}/{permission_id}")).content == b""
    assert (await api.delete(path, params={"name": "read"})).status_code == 200
    assert (await api.get(f"/api/entity/type/{made['id']}")).json()["entityType"]["permissions"] == []


@pytest.mark.requirement("core-10-31", "core-10-5")
async def test_wrong_permissions_are_refused(api) -> None:
    made = await make(api, permissions=[{"name": "read"}])
    path = f"/api/entity/type/{made['id']}/permission"
    permission_id = made["permissions"][0]["id"]
    assert codes(await api.post(path, json={"permission": {}})) == {"[blank]permission.name"}
    assert codes(await api.post(path, json={})) == {"[missing]permission"}
    assert codes(await api.post(path, json={"permission": {"name": "read"}})) == {"[duplicate]permission.name"}
    again = await api.post(f"{path}/{permission_id}", json={"permission": {"name": "other"}})
    assert codes(again) == {"[duplicate]permissionId"}
    other = (await api.post(path, json={"permission": {"name": "write"}})).json()["permission"]
    renamed = await api.put(f"{path}/{other['id']}", json={"permission": {"name": "read"}})
    assert codes(renamed) == {"[duplicate]permission.name"}
    assert codes(await api.delete(path)) == {"[missing]permissionId"}
    assert codes(await api.delete(f"{path}/x")) == {"[couldNotConvert]permissionId"}
    for method, missing in (
        ("PUT", f"{path}/{new_id()}"),
        ("DELETE", f"{path}/{new_id()}"),
        ("DELETE", f"{path}?name=x"),
    ):
        answer = await api.request(method, missing, json={"permission": {"name": "x"}})
        assert answer.status_code == 404
    elsewhere = f"/api/entity/type/{new_id()}/permission"
    for body in ({"permission": {"name": "x"}}, {"permission": {}}, {}):
        assert (await api.post(elsewhere, json=body)).status_code == 404
    assert (await api.get(f"{path}/{permission_id}")).status_code == 405


@pytest.mark.requirement("core-10-5")
async def test_concurrently_added_permissions_are_all_kept(api) -> None:
    made = await make(api)
    path = f"/api/entity/type/{made['id']}/permission"
    answers = await asyncio.gather(
        *(api.post(path, json={"permission": {"name": f"p{index % 4}"}}) for index in range(8))
    )
    assert sorted(answer.status_code for answer in answers) == [200] * 4 + [400] * 4
    shown = (await api.get(f"/api/entity/type/{made['id']}")).json()["entityType"]
    assert {entry["name"] for entry in shown["permissions"]} == {"p0", "p1", "p2", "p3"}
    assert len(shown["permissions"]) == 4


@pytest.mark.requirement("core-10-7")
async def test_search(api) -> None:
    mark = new_id()
    many = await make(api, name=f"{mark} a", permissions=[{"name": "x"}, {"name": "y"}])
    none = await make(api, name=f"{mark} c")
    one = await make(api, name=f"{mark} b", permissions=[{"name": "x"}])
    answer = (await api.get("/api/entity/type/search", params={"name": f"{mark.upper()}*"})).json()
    assert answer == {"total": 3, "entityTypes": [many, one, none]}

    async def order(order_by: str) -> list[str]:
        body = {"search": {"name": mark, "orderBy": order_by}}
        found = (await api.post("/api/entity/type/search", json=body)).json()["entityTypes"]
        return [entry["name"][-1] for entry in found]

    assert await order("entityTypePermissionsCount") == ["c", "b", "a"]
    assert await order("entityTypePermissionsCount DESC") == ["a", "b", "c"]
    assert await order("insertInstant") == ["a", "c", "b"]
    await api.post(f"/api/entity/type/{none['id']}/permission", json={"permission": {"name": "1"}})
    await api.post(f"/api/entity/type/{none['id']}/permission", json={"permission": {"name": "2"}})
    third = await api.post(f"/api/entity/type/{none['id']}/permission", json={"permission": {"name": "3"}})
    assert await order("entityTypePermissionsCount DESC") == ["c", "a", "b"]
    assert await order("lastUpdateInstant DESC, name") == ["c", "b", "a"]
    third_id = third.json()["permission"]["id"]
    for permission_id in (third_id,):
        await api.delete(f"/api/entity/type/{none['id']}/permission/{permission_id}")
    await api.delete(f"/api/entity/type/{none['id']}/permission?name=2")
    assert await order("entityTypePermissionsCount DESC, name DESC") == ["a", "c", "b"]
    assert codes(await api.get("/api/entity/type/search", params={"orderBy": "data"})) == {"[invalid]orderBy"}


@pytest.mark.requirement("core-10-32", "design-config-9")
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/entity/type"),
        ("POST", "/api/entity/type"),
        ("GET", f"/api/entity/type/{UNKNOWN_ID}"),
        ("GET", "/api/entity/type/search"),
        ("POST", f"/api/entity/type/{UNKNOWN_ID}/permission"),
        ("DELETE", f"/api/entity/type/{UNKNOWN_ID}/permission/{UNKNOWN_ID}"),
        ("POST", "/api/entity"),
        ("GET", f"/api/entity/{UNKNOWN_ID}"),
        ("GET", "/api/entity/search"),
        ("POST", "/api/entity/search"),
        ("PUT", "/api/entity/search"),
        ("GET", f"/api/entity/{UNKNOWN_ID}/grant"),
        ("POST", f"/api/entity/{UNKNOWN_ID}/grant"),
        ("PUT", f"/api/entity/{UNKNOWN_ID}/grant"),
        ("DELETE", f"/api/entity/{UNKNOWN_ID}/grant"),
        ("GET", "/api/entity/grant/search"),
    ],
)
async def test_disabled_feature_hides_every_endpoint(without_entities, method, path) -> None:
    assert codes(await without_entities.request(method, path, json={})) == {"[NotLicensed]"}
    stranger = await without_entities.request(method, path, json={}, headers={"Authorization": "unknown"})
    assert stranger.status_code == 401


@pytest.mark.requirement("error-not_licensed", "oauth-2.2-28", "reason-not_licensed")
async def test_entities_get_no_tokens_if_feature_is_disabled(without_entities) -> None:
    tenant_id = (await without_entities.get("/api/tenant")).json()["tenants"][0]["id"]
    form = {"grant_type": "client_credentials", "client_id": new_id(), "client_secret": "secret"}
    answer = await without_entities.post(f"/{tenant_id}/oauth2/token", data=form)
    assert answer.status_code == 400
    assert answer.json() == {
        "error": "not_licensed",
        "error_reason": "not_licensed",
        "error_description": "The feature entityManagement is switched off.",
    }
    metadata = (await without_entities.get("/.well-known/openid-configuration")).json()
    assert "client_credentials" not in metadata["grant_types_supported"]


async def test_disabled_feature_leaves_other_endpoints(without_entities) -> None:
    assert (await without_entities.get("/api/tenant")).status_code == 200
