"""API keys: contract rules 1 to 4, permissions, tenancy, copies, expiration, non-retrievable keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import pytest

from identity import app
from identity.ids import new_id
from identity.operations.configuration import api_keys
from tests import internals
from tests.conftest import DEFAULT_TENANT, MANAGER_KEY, SUPER_KEY, checking_client

Document = dict[str, Any]
As = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


@pytest.fixture
def acting_as(service: app.Service) -> As:
    @asynccontextmanager
    async def client(key: str, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
        async with checking_client(service.base_url, headers={"Authorization": key, **headers}) as one:
            yield one

    return client


async def create(manager: httpx.AsyncClient, **api_key: Any) -> Document:
    answer = await manager.post("/api/api-key", json={"apiKey": api_key})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["apiKey"])


def codes(answer: httpx.Response) -> set[str]:
    body = answer.json()
    fields = {e["code"] for errors in body.get("fieldErrors", {}).values() for e in errors}
    return fields | {e["code"] for e in body.get("generalErrors", [])}


async def manager_key(service: app.Service, **given: Any) -> str:
    """A key manager with limited permissions, which only the service can create."""
    call = internals.call(service)
    wanted = internals.schemas(service)["api/api-key.json"].read({"apiKey": given})["apiKey"]
    made = await internals.run(service, api_keys.add, call, wanted, None, caller=None, manager=True)
    return str(made["key"])


@pytest.mark.requirement(
    "contract-api-key-key",
    "contract-api-key-metaData",
    "contract-api-keys-1",
    "contract-api-keys-4",
    "core-1-3",
    "core-5-rule-6",
)
async def test_created_key_is_usable_immediately_and_complete(manager, acting_as) -> None:
    made = await create(manager, metaData={"attributes": {"description": "for the crawler"}})
    assert made.keys() == {
        "id", "key", "keyManager", "retrievable", "metaData", "permissions", "insertInstant", "lastUpdateInstant",
    }  # fmt: skip
    assert made["keyManager"] is False
    assert made["permissions"] == {"endpoints": {}}
    async with acting_as(made["key"]) as client:
        assert (await client.get("/api/tenant")).status_code == 200


@pytest.mark.requirement("contract-api-key-id", "contract-api-keys-2", "core-5-key")
async def test_given_id_and_value_are_kept_and_unique(manager) -> None:
    key_id, value = new_id(), f"chosen-{new_id()}"
    first = await manager.post(f"/api/api-key/{key_id}", json={"apiKey": {"key": value}})
    assert first.json()["apiKey"]["id"] == key_id
    assert first.json()["apiKey"]["key"] == value
    again = await manager.post(f"/api/api-key/{key_id}", json={"apiKey": {}})
    assert codes(again) == {"[duplicate]apiKeyId"}
    same_value = await manager.post("/api/api-key", json={"apiKey": {"key": value}})
    assert codes(same_value) == {"[duplicate]apiKey.key"}


@pytest.mark.requirement("contract-api-keys-10", "core-1.2-5")
async def test_trailing_slash_and_path_errors(manager) -> None:
    assert (await manager.post("/api/api-key/", json={"apiKey": {}})).status_code == 200
    assert codes(await manager.get("/api/api-key/not-a-uuid")) == {"[couldNotConvert]apiKeyId"}
    assert codes(await manager.post("/api/api-key", json={})) == {"[missing]apiKey"}
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        assert codes(await manager.request(method, "/api/api-key", json={})) == {"[missing]apiKeyId"}


@pytest.mark.requirement("contract-api-keys-10", "contract-api-keys-9", "contract-authentication-2")
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_only_key_manager_manages_keys(api, http, manager, method) -> None:
    made = await create(manager)
    for client in (api, http):
        answer = await client.request(method, f"/api/api-key/{made['id']}", json={"apiKey": {}})
        assert answer.status_code == 401


@pytest.mark.requirement("attack-51", "contract-api-key-keyManager", "contract-api-keys-7", "core-5-rule-4")
async def test_key_manager_cannot_be_created_copied_or_claimed(manager, service) -> None:
    made = await create(manager, keyManager=True)
    assert made["keyManager"] is False
    changed = await manager.put(f"/api/api-key/{made['id']}", json={"apiKey": {"keyManager": True}})
    assert changed.json()["apiKey"]["keyManager"] is False
    own = await internals.store(service, "api_keys").find_by_key(MANAGER_KEY)
    assert codes(await manager.post("/api/api-key", json={"sourceKeyId": own["id"]})) == {"[invalid]sourceKeyId"}


@pytest.mark.requirement(
    "attack-53", "contract-api-key-permissions", "contract-authentication-2", "core-4-13", "core-4-6"
)
async def test_permissions_are_checked_per_endpoint_and_method(manager, acting_as) -> None:
    made = await create(manager, permissions={"endpoints": {"/api/tenant": ["GET"], "/api/application/role": ["POST"]}})
    async with acting_as(made["key"], **{"X-FusionAuth-TenantId": DEFAULT_TENANT}) as client:
        assert (await client.get("/api/tenant")).status_code == 200
        assert (await client.get(f"/api/tenant/{DEFAULT_TENANT}/")).status_code == 200
        assert (await client.post("/api/tenant", json={"tenant": {"name": "x"}})).status_code == 401
        assert (await client.get("/api/tenant/search")).status_code == 401
        assert (await client.get("/api/application")).status_code == 401
        assert (await client.post(f"/api/application/{new_id()}/role", json={"role": {"name": "x"}})).status_code == 404
        assert (await client.get("//api/tenant")).status_code in {401, 404}
        override = {"X-HTTP-Method-Override": "GET"}
        assert (await client.post("/api/tenant", json={}, headers=override)).status_code == 401


@pytest.mark.requirement("audit-b1")
async def test_permissions_are_checked_for_overriding_method(manager, acting_as) -> None:
    override = {"X-HTTP-Method-Override": "PATCH"}
    path, body = f"/api/tenant/{DEFAULT_TENANT}", {"tenant": {"data": {"overridden": "yes"}}}
    for granted, status in (("POST", 401), ("PATCH", 200)):
        made = await create(manager, permissions={"endpoints": {"/api/tenant": [granted]}})
        async with acting_as(made["key"]) as client:
            assert (await client.post(path, json=body, headers=override)).status_code == status, granted


@pytest.mark.requirement("core-4-15")
async def test_unknown_permissions_are_refused_and_api_key_endpoint_dropped(manager) -> None:
    for endpoints in ({"/api/nonsense": ["GET"]}, {"/api/tenant": ["HEAD"]}, {"/api/user/import": ["GET"]}):
        answer = await manager.post("/api/api-key", json={"apiKey": {"permissions": {"endpoints": endpoints}}})
        assert codes(answer) == {"[invalid]apiKey.permissions.endpoints"}
    made = await create(manager, permissions={"endpoints": {"/api/api-key": ["GET"], "/api/tenant": ["GET"]}})
    assert made["permissions"]["endpoints"] == {"/api/tenant": ["GET"]}


@pytest.mark.requirement("core-4-15")
async def test_key_with_only_api_key_endpoint_is_not_super_key(manager) -> None:
    """Dropping `/api/api-key` must not turn "only this" into "everything"."""
    answer = await manager.post(
        "/api/api-key", json={"apiKey": {"permissions": {"endpoints": {"/api/api-key": ["GET"]}}}}
    )
    assert codes(answer) == {"[invalid]apiKey.permissions.endpoints"}


@pytest.mark.requirement("contract-api-key-permissions")
async def test_permissions_without_endpoints_make_super_key(manager, acting_as) -> None:
    made = await create(manager, permissions={})
    async with acting_as(made["key"]) as client:
        assert (await client.get("/api/key")).status_code == 200


@pytest.mark.requirement("contract-api-keys-6", "service-6")
async def test_change_and_delete_take_effect_immediately(manager, acting_as) -> None:
    made = await create(manager, permissions={"endpoints": {"/api/tenant": ["GET"]}})
    async with acting_as(made["key"]) as client:
        assert (await client.get("/api/tenant")).status_code == 200
        granted = {"permissions": {"endpoints": {"/api/key": ["GET"]}}}
        assert (await manager.put(f"/api/api-key/{made['id']}", json={"apiKey": granted})).status_code == 200
        assert (await client.get("/api/tenant")).status_code == 401
        assert (await client.get("/api/key")).status_code == 200
        assert (await manager.delete(f"/api/api-key/{made['id']}")).status_code == 200
        assert (await client.get("/api/key")).status_code == 401
    assert (await manager.get(f"/api/api-key/{made['id']}")).status_code == 404
    assert (await manager.delete(f"/api/api-key/{made['id']}")).status_code == 404


@pytest.mark.requirement("contract-api-key-instants", "contract-api-keys-5", "core-1-10")
async def test_update_replaces_and_may_set_new_value(manager, acting_as) -> None:
    made = await create(manager, metaData={"attributes": {"description": "old"}})
    value = f"new-{new_id()}"
    changed = (await manager.put(f"/api/api-key/{made['id']}", json={"apiKey": {"key": value}})).json()["apiKey"]
    assert changed["key"] == value
    assert changed["metaData"] == {"attributes": {}}
    assert changed["insertInstant"] == made["insertInstant"]
    assert changed["lastUpdateInstant"] > made["lastUpdateInstant"]
    async with acting_as(made["key"]) as old, acting_as(value) as new:
        assert (await old.get("/api/tenant")).status_code == 401
        assert (await new.get("/api/tenant")).status_code == 200
    kept = (await manager.put(f"/api/api-key/{made['id']}", json={"apiKey": {}})).json()["apiKey"]
    assert kept["key"] == value


@pytest.mark.requirement("core-5-patch")
@pytest.mark.parametrize(
    ("content_type", "patch"),
    [
        ("application/json", {"apiKey": {"metaData": {"attributes": {"b": "2"}}}}),
        ("application/merge-patch+json", {"apiKey": {"metaData": {"attributes": {"b": "2"}}}}),
        ("application/json-patch+json", [{"op": "add", "path": "/apiKey/metaData/attributes/b", "value": "2"}]),
    ],
)
async def test_three_kinds_of_patch(manager, content_type, patch) -> None:
    made = await create(manager, metaData={"attributes": {"a": "1"}}, name=f"patched {new_id()}")
    answer = await manager.patch(f"/api/api-key/{made['id']}", json=patch, headers={"Content-Type": content_type})
    assert answer.status_code == 200, answer.text
    assert answer.json()["apiKey"]["metaData"]["attributes"] == {"a": "1", "b": "2"}
    assert answer.json()["apiKey"]["key"] == made["key"]


@pytest.mark.requirement("contract-api-keys-3")
async def test_copy_includes_permissions_tenant_and_list_but_not_value(manager, tenant) -> None:
    source = await create(manager, tenantId=tenant["id"], permissions={"endpoints": {"/api/user": ["GET"]}})
    body = {"sourceKeyId": source["id"], "apiKey": {"metaData": {"attributes": {"description": "copy"}}}}
    copy = (await manager.post("/api/api-key", json=body)).json()["apiKey"]
    assert copy["permissions"] == source["permissions"]
    assert copy["tenantId"] == tenant["id"]
    assert copy["metaData"]["attributes"]["description"] == "copy"
    assert copy["key"] != source["key"]
    assert codes(await manager.post("/api/api-key", json={"sourceKeyId": new_id()})) == {"[invalid]sourceKeyId"}


@pytest.mark.requirement("core-4-6", "core-5-expirationInstant")
async def test_expired_key_is_refused(manager, acting_as, clock) -> None:
    soon = clock.now() + 60_000
    made = await create(manager, expirationInstant=soon)
    async with acting_as(made["key"]) as client:
        assert (await client.get("/api/tenant")).status_code == 200
        clock.advance(seconds=61)
        assert (await client.get("/api/tenant")).status_code == 401
    past = await manager.post("/api/api-key", json={"apiKey": {"expirationInstant": soon}})
    assert codes(past) == {"[invalid]apiKey.expirationInstant"}
    cleared = await manager.put(f"/api/api-key/{made['id']}", json={"apiKey": {"expirationInstant": None}})
    assert "expirationInstant" not in cleared.json()["apiKey"]


@pytest.mark.requirement("core-5-name", "core-5-retrievable")
async def test_non_retrievable_key_is_shown_once_and_stored_hashed(manager, acting_as, service) -> None:
    unnamed = await manager.post("/api/api-key", json={"apiKey": {"retrievable": False}})
    assert codes(unnamed) == {"[blank]apiKey.name"}
    made = await create(manager, retrievable=False, name=f"hidden {new_id()}")
    shown = (await manager.get(f"/api/api-key/{made['id']}")).json()["apiKey"]
    assert "key" in made
    assert "key" not in shown
    stored = await internals.database(service).collection("api_keys").find_one({"_id": made["id"]})
    assert "key" not in stored
    assert made["key"] not in str(stored)
    changed = await manager.put(
        f"/api/api-key/{made['id']}", json={"apiKey": {"name": made["name"], "retrievable": True}}
    )
    assert changed.json()["apiKey"]["retrievable"] is False
    async with acting_as(made["key"]) as client:
        assert (await client.get("/api/tenant")).status_code == 200


@pytest.mark.requirement("attack-50", "design-state-8", "service-5")
async def test_value_is_sealed_at_rest(manager, service) -> None:
    made = await create(manager)
    stored = await internals.database(service).collection("api_keys").find_one({"_id": made["id"]})
    assert made["key"] not in str(stored)
    assert stored["key"].startswith("sealed:")


@pytest.mark.requirement("core-5-name")
async def test_names_are_unique(manager) -> None:
    name = f"unique {new_id()}"
    await create(manager, name=name)
    assert codes(await manager.post("/api/api-key", json={"apiKey": {"name": name}})) == {"[duplicate]apiKey.name"}


@pytest.mark.requirement("contract-api-key-ipAccessControlListId")
async def test_references_must_exist(manager) -> None:
    body = {"apiKey": {"tenantId": new_id(), "ipAccessControlListId": new_id()}}
    answer = await manager.post("/api/api-key", json=body)
    assert codes(answer) == {"[invalid]apiKey.tenantId", "[invalid]apiKey.ipAccessControlListId"}


@pytest.mark.requirement("contract-api-key-tenantId", "core-4-6")
async def test_tenant_scoped_key_stays_in_its_tenant(manager, acting_as, tenant) -> None:
    made = await create(manager, tenantId=tenant["id"])
    async with acting_as(made["key"]) as client:
        application = await client.post("/api/application", json={"application": {"name": "Mine"}})
        assert application.json()["application"]["tenantId"] == tenant["id"]
        assert (await client.get("/api/webhook")).status_code == 401
        assert (await client.get("/api/key")).status_code == 401
        assert [t["id"] for t in (await client.get("/api/tenant")).json()["tenants"]] == [tenant["id"]]
        assert (await client.get(f"/api/tenant/{DEFAULT_TENANT}")).status_code == 404
        other = {"X-FusionAuth-TenantId": DEFAULT_TENANT}
        assert (await client.get("/api/application", headers=other)).status_code == 401
    moved = await manager.put(f"/api/api-key/{made['id']}", json={"apiKey": {"tenantId": DEFAULT_TENANT}})
    assert moved.json()["apiKey"]["tenantId"] == tenant["id"]


@pytest.mark.requirement("contract-api-keys-8", "core-5-rule-3")
async def test_tenant_scoped_manager_sees_only_keys_of_its_tenant(service, manager, acting_as, tenant) -> None:
    mine = await create(manager, tenantId=tenant["id"])
    foreign = await create(manager, tenantId=DEFAULT_TENANT)
    globe = await create(manager)
    async with acting_as(await manager_key(service, tenantId=tenant["id"])) as scoped:
        assert (await scoped.get(f"/api/api-key/{mine['id']}")).status_code == 200
        for other in (foreign, globe):
            for method in ("GET", "PUT", "PATCH", "DELETE"):
                answer = await scoped.request(method, f"/api/api-key/{other['id']}", json={"apiKey": {}})
                assert answer.status_code == 404
            assert codes(await scoped.post("/api/api-key", json={"sourceKeyId": other["id"]})) == {
                "[invalid]sourceKeyId"
            }
        assert (await scoped.post("/api/api-key", json={"apiKey": {}})).json()["apiKey"]["tenantId"] == tenant["id"]
        wrong = await scoped.post("/api/api-key", json={"apiKey": {"tenantId": DEFAULT_TENANT}})
        assert codes(wrong) == {"[invalid]apiKey.tenantId"}


@pytest.mark.requirement("attack-52", "contract-api-keys-8", "core-5-rule-2")
async def test_manager_cannot_exceed_own_permissions(service, manager, acting_as) -> None:
    lesser = await create(manager, permissions={"endpoints": {"/api/user": ["GET"]}})
    greater = await create(manager, permissions={"endpoints": {"/api/user": ["GET", "POST"]}})
    everything = await create(manager)
    limited_key = await manager_key(service, permissions={"endpoints": {"/api/user": ["GET"]}})
    async with acting_as(limited_key) as limited:
        assert (await limited.get(f"/api/api-key/{lesser['id']}")).status_code == 200
        for other in (greater, everything):
            for method in ("GET", "PUT", "PATCH", "DELETE"):
                answer = await limited.request(method, f"/api/api-key/{other['id']}", json={"apiKey": {}})
                assert answer.status_code == 401
            assert (await limited.post("/api/api-key", json={"sourceKeyId": other["id"]})).status_code == 401
        for permissions in (
            {},
            {"endpoints": {"/api/user": ["POST"]}},
            {"endpoints": {"/api/user": ["GET"], "/api/key": ["GET"]}},
        ):
            answer = await limited.post("/api/api-key", json={"apiKey": {"permissions": permissions}})
            assert codes(answer) == {"[invalid]apiKey.permissions.endpoints"}
        raised = await limited.put(f"/api/api-key/{lesser['id']}", json={"apiKey": {}})
        assert codes(raised) == {"[invalid]apiKey.permissions.endpoints"}


@pytest.mark.requirement("attack-52", "core-5-authority")
async def test_expiring_manager_cannot_create_or_read_longer_lived_keys(service, manager, acting_as, clock) -> None:
    lasting = await create(manager)
    end = clock.now() + 3_600_000
    async with acting_as(await manager_key(service, expirationInstant=end)) as expiring:
        assert (await expiring.get(f"/api/api-key/{lasting['id']}")).status_code == 401
        assert codes(await expiring.post("/api/api-key", json={"apiKey": {}})) == {"[invalid]apiKey.expirationInstant"}
        made = await expiring.post("/api/api-key", json={"apiKey": {"expirationInstant": end - 1}})
        assert made.status_code == 200


@pytest.mark.requirement("contract-api-key-ipAccessControlListId", "contract-authentication-2", "core-4-6", "core-6-5")
async def test_access_list_limits_key_to_addresses(service, api, manager, acting_as) -> None:
    inside = [
        {"startIPAddress": "*", "action": "Block"},
        {"startIPAddress": "127.0.0.1", "endIPAddress": "127.0.0.1", "action": "Allow"},
    ]
    outside = [
        {"startIPAddress": "*", "action": "Allow"},
        {"startIPAddress": "127.0.0.1", "endIPAddress": "127.0.0.9", "action": "Block"},
    ]
    lists = []
    for entries in (inside, outside):
        body = {"ipAccessControlList": {"name": f"list {new_id()}", "entries": entries}}
        lists.append((await api.post("/api/ip-acl", json=body)).json()["ipAccessControlList"]["id"])
    allowed = await create(manager, ipAccessControlListId=lists[0])
    blocked = await create(manager, ipAccessControlListId=lists[1])
    async with acting_as(allowed["key"]) as client:
        assert (await client.get("/api/tenant")).status_code == 200
        # The test's own address is a trusted proxy, so this header is believed, and the address it names is blocked.
        assert (await client.get("/api/tenant", headers={"X-Forwarded-For": "203.0.113.9"})).status_code == 401
        spoofed = {"X-Forwarded-For": "127.0.0.1, 203.0.113.9"}
        assert (await client.get("/api/tenant", headers=spoofed)).status_code == 401
    async with acting_as(blocked["key"]) as client:
        assert (await client.get("/api/tenant")).status_code == 401
    in_use = await api.delete(f"/api/ip-acl/{lists[0]}")
    assert codes(in_use) == {"[inUse]ipAccessControlListId"}
    limited_key = await manager_key(service, ipAccessControlListId=lists[0])
    async with acting_as(limited_key) as limited:
        assert codes(await limited.post("/api/api-key", json={"apiKey": {}})) == {
            "[invalid]apiKey.ipAccessControlListId"
        }
        assert (await limited.get(f"/api/api-key/{blocked['id']}")).status_code == 401


@pytest.mark.requirement("contract-authentication-1", "contract-errors-2", "core-1.2-1")
async def test_empty_and_blank_credentials_count_as_missing(service) -> None:
    for value in ("", "Bearer " + SUPER_KEY, "Basic YXBpa2V5OmFiYw==", "nonsense"):
        async with checking_client(service.base_url, headers={"Authorization": value}) as client:
            assert (await client.get("/api/tenant")).status_code == 401


@pytest.mark.requirement("contract-api-key-key")
async def test_blank_value_is_refused_and_spaces_are_significant(manager) -> None:
    assert codes(await manager.post("/api/api-key", json={"apiKey": {"key": "   "}})) == {"[blank]apiKey.key"}


@pytest.mark.requirement("design-state-11", "service-6")
async def test_change_reaches_other_process_through_change_stream(build, service, manager) -> None:
    config = internals.config(service)
    settings = {"database": config.mongodb.database, "kickstart": None, "data_dir": config.data_dir}
    made = await create(manager)
    async with (
        build(**settings) as second,
        checking_client(second.base_url, headers={"Authorization": made["key"]}) as client,
    ):
        assert (await client.get("/api/tenant")).status_code == 200
        assert (await manager.delete(f"/api/api-key/{made['id']}")).status_code == 200
        async with asyncio.timeout(60):
            while (await client.get("/api/tenant")).status_code != 401:
                await asyncio.sleep(0.02)
