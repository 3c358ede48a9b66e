"""Callers with few permissions cannot become administrators or take over the account of one."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from identity.app import ADMINISTRATOR_APPLICATION_ID
from identity.ids import new_id
from tests import plain_http, scim
from tests.authenticator import RELYING_PARTY, Passkey
from tests.conftest import DEFAULT_TENANT, MANAGER_KEY
from tests.console import administrator
from tests.console.administrator import Browser

METHODS = ["DELETE", "GET", "PATCH", "POST", "PUT"]
USER_ENDPOINTS = {
    "/api/user": METHODS, "/api/user/registration": METHODS, "/api/user/change-password": ["POST"],
    "/api/user/forgot-password": ["POST"], "/api/group": METHODS, "/api/group/member": ["DELETE", "POST", "PUT"],
    "/api/user/two-factor/recovery-code": ["GET", "POST"], "/api/application": METHODS,
    "/api/application/role": ["POST", "PUT", "PATCH", "DELETE"], "/api/user/import": ["POST"],
    "/api/identity-provider": METHODS, "/api/webauthn": ["DELETE", "GET"], "/api/webauthn/import": ["POST"],
    "/api/webauthn/register/start": ["POST"], "/api/two-factor/start": ["POST"],
    "/api/user/refresh-token/import": ["POST"], "/api/jwt/refresh": ["DELETE", "GET"],
}  # fmt: skip


@pytest.fixture(params=["few permissions", "one tenant"])
async def weak(request: Any, service: Any) -> Any:
    """The API with a key that may only manage users."""
    key = {"permissions": {"endpoints": dict(USER_ENDPOINTS)}}
    if request.param == "one tenant":
        key = {"tenantId": DEFAULT_TENANT}
    async with plain_http.client(service.base_url, timeout=30) as http:
        made = await http.post("/api/api-key", json={"apiKey": key}, headers={"Authorization": MANAGER_KEY})
        http.headers.update({"Authorization": made.json()["apiKey"]["key"], "X-FusionAuth-TenantId": DEFAULT_TENANT})
        yield http


@pytest.mark.requirement("console-12")
async def test_account_of_an_administrator_is_out_of_reach(weak: httpx.AsyncClient, api: httpx.AsyncClient) -> None:
    user = await administrator.make(api, "admin")
    path, login = f"/api/user/{user['id']}", user["email"]
    owned = await import_passkey(api, user["id"])
    assert owned.status_code == 200, owned.text
    passkeys = (await api.get("/api/webauthn", params={"userId": user["id"]})).json()
    before = (await api.get(path)).json()
    attempts = [
        await weak.patch(path, json={"user": {"password": "another password"}}),
        await weak.patch(path, json={"user": {"email": "other@example.com"}}),
        await weak.put(path, json={"user": {"email": "other@example.com"}}),
        await weak.delete(path),
        await weak.delete(path, params={"hardDelete": "true"}),
        await weak.post("/api/user/change-password", json={"loginId": login, "password": "another password"}),
        await weak.post("/api/user/forgot-password", json={"loginId": login, "sendForgotPasswordEmail": False}),
        await weak.get(f"/api/user/two-factor/recovery-code/{user['id']}"),
        await weak.delete(f"/api/user/registration/{user['id']}/{ADMINISTRATOR_APPLICATION_ID}"),
        await weak.post("/api/two-factor/start", json={"userId": user["id"]}),
        await weak.post("/api/two-factor/start", json={"loginId": login}),
        await import_passkey(weak, user["id"]),
        await weak.post(
            "/api/webauthn/register/start", json={"userId": user["id"], "displayName": "Mine", "workflow": "general"}
        ),
        await weak.delete(f"/api/webauthn/{passkeys['credentials'][0]['id']}"),
        await weak.delete("/api/webauthn", params={"userId": user["id"]}),
        await import_refresh_token(weak, user["id"]),
    ]
    assert [answer.status_code for answer in attempts] == [401] * len(attempts)
    assert (await api.get(path)).json() == before
    assert (await api.get("/api/webauthn", params={"userId": user["id"]})).json() == passkeys
    assert await values(api, user["id"]) == []


@pytest.mark.requirement("console-12")
async def test_lesser_caller_does_not_sign_an_administrator_out(weak, api, service) -> None:
    user = await administrator.make(api, "admin")
    value = f"a refresh token of {user['id']}"
    assert (await import_refresh_token(api, user["id"], value)).status_code == 200
    async with plain_http.client(service.base_url, timeout=30) as browser:
        assert (await Browser(browser).sign_in(user["email"], administrator.QUIET)).url.path == administrator.QUIET
        path, listed = "/api/jwt/refresh", (await api.get("/api/jwt/refresh", params={"userId": user["id"]})).json()
        records = listed["refreshTokens"]
        assert [("applicationId" in record) for record in records].count(True) == 1
        attempts = [
            await weak.delete(path, params={"userId": user["id"]}),
            await weak.delete(path, params={"userId": user["id"], "applicationId": ADMINISTRATOR_APPLICATION_ID}),
            await weak.delete(path, params={"token": value}),
            await weak.delete(path, params={"applicationId": ADMINISTRATOR_APPLICATION_ID}),
            *[await weak.delete(f"{path}/{record['id']}") for record in records],
        ]
        assert [answer.status_code for answer in attempts] == [401] * len(attempts)
        assert (await Browser(browser).open(administrator.QUIET)).url.path == administrator.QUIET
        assert await values(api, user["id"]) == [value]
        assert (await api.delete(path, params={"userId": user["id"]})).status_code == 200
        assert (await Browser(browser).open(administrator.QUIET)).url.path != administrator.QUIET


@pytest.mark.requirement("console-12")
async def test_refresh_token_of_an_administrator_is_masked(weak: httpx.AsyncClient, api: httpx.AsyncClient) -> None:
    user = await administrator.make(api, "admin")
    value = f"a refresh token of {user['id']}"
    assert (await import_refresh_token(api, user["id"], value)).status_code == 200
    assert await values(api, user["id"]) == [value]
    assert await values(weak, user["id"]) == ["*****"]


async def test_refresh_token_is_masked_for_keys_that_may_only_read(service: Any, api: httpx.AsyncClient) -> None:
    user = await administrator.make(api)
    assert (await import_refresh_token(api, user["id"], f"a refresh token {user['id']}")).status_code == 200
    async with plain_http.client(service.base_url, timeout=30) as http:
        key = {"permissions": {"endpoints": {"/api/jwt/refresh": ["GET"]}}}
        made = await http.post("/api/api-key", json={"apiKey": key}, headers={"Authorization": MANAGER_KEY})
        http.headers.update({"Authorization": made.json()["apiKey"]["key"], "X-FusionAuth-TenantId": DEFAULT_TENANT})
        found = (await http.get("/api/jwt/refresh", params={"userId": user["id"]})).json()["refreshTokens"]
        assert [one["token"] for one in found] == ["*****"]
        one = (await http.get(f"/api/jwt/refresh/{found[0]['id']}")).json()["refreshToken"]
        assert one["token"] == "*****"


async def import_passkey(http: httpx.AsyncClient, user_id: str) -> httpx.Response:
    passkey = Passkey()
    row = {
        "algorithm": passkey.algorithm,
        "authenticatorSupportsUserVerification": True,
        "credentialId": passkey.id,
        "displayName": "Key",
        "name": "imported",
        "publicKey": passkey.pem(),
        "relyingPartyId": RELYING_PARTY,
        "userId": user_id,
    }
    return await http.post("/api/webauthn/import", json={"credentials": [row]})


async def import_refresh_token(http: httpx.AsyncClient, user_id: str, value: str | None = None) -> httpx.Response:
    row = {"applicationId": ADMINISTRATOR_APPLICATION_ID, "userId": user_id, "token": value or new_id()}
    return await http.post("/api/user/refresh-token/import", json={"refreshTokens": [row]})


async def values(http: httpx.AsyncClient, user_id: str) -> list[str]:
    """The values of the refresh tokens of a user, as the API shows them."""
    found = (await http.get("/api/jwt/refresh", params={"userId": user_id})).json()
    return [one["token"] for one in found.get("refreshTokens", []) if "token" in one]


@pytest.mark.requirement("console-12")
async def test_administrator_with_more_permissions_cannot_be_appointed(
    weak: httpx.AsyncClient, api: httpx.AsyncClient
) -> None:
    application = (await api.get(f"/api/application/{ADMINISTRATOR_APPLICATION_ID}")).json()["application"]
    role = next(role for role in application["roles"] if role["name"] == "admin")
    registration = {"applicationId": ADMINISTRATOR_APPLICATION_ID, "roles": ["admin"]}
    user = {"username": new_id(), "password": "a long password"}
    victim = (await api.post("/api/user", json={"user": user})).json()["user"]["id"]
    group = {"group": {"name": new_id()}, "roleIds": [role["id"]]}
    group_id = (await api.post("/api/group", json=group)).json()["group"]["id"]
    weak_group = (await weak.post("/api/group", json={"group": {"name": new_id()}})).json()["group"]["id"]
    other = {"username": new_id(), "password": "a long password"}
    imported = {"users": [{**other, "registrations": [registration], "tenantId": DEFAULT_TENANT}]}
    provider = {
        "type": "ExternalJWT", "name": new_id(), "tenantId": DEFAULT_TENANT,
        "applicationConfiguration": {ADMINISTRATOR_APPLICATION_ID: {"enabled": True}},
    }  # fmt: skip
    owner = f"/api/application/{ADMINISTRATOR_APPLICATION_ID}"
    attempts = [
        await weak.post(f"/api/user/registration/{victim}", json={"registration": registration}),
        await weak.post("/api/user/registration", json={"user": other, "registration": registration}),
        await weak.post("/api/group/member", json={"members": {group_id: [{"userId": victim}]}}),
        await weak.patch(f"/api/group/{weak_group}", json={"roleIds": [role["id"]]}),
        await weak.post("/api/group", json={**group, "group": {"name": new_id()}}),
        await weak.post("/api/user/import", json=imported),
        await weak.post("/api/identity-provider", json={"identityProvider": provider}),
        await weak.patch(owner, json={"application": {"name": "Mine"}}),
        await weak.delete(owner),
        await weak.post(f"{owner}/role", json={"role": {"name": new_id()}}),
        await weak.patch(f"{owner}/role/{role['id']}", json={"role": {"description": "Mine"}}),
        await weak.delete(f"{owner}/role/{role['id']}"),
    ]
    assert [answer.status_code for answer in attempts] == [401] * len(attempts)
    assert (await api.get(owner)).json()["application"] == application
    assert not (await api.get(f"/api/user/{victim}")).json()["user"]["registrations"]


async def test_user_without_a_role_is_managed_as_before(weak: httpx.AsyncClient, api: httpx.AsyncClient) -> None:
    user = await administrator.make(api)
    answer = await weak.patch(f"/api/user/{user['id']}", json={"user": {"firstName": "Grace"}})
    assert answer.status_code == 200


# Groups that grant roles of administrators


@pytest.fixture
async def appointing(api: httpx.AsyncClient) -> str:
    """The id of a group that grants the role `admin`."""
    application = (await api.get(f"/api/application/{ADMINISTRATOR_APPLICATION_ID}")).json()["application"]
    role = next(role for role in application["roles"] if role["name"] == "admin")
    made = await api.post("/api/group", json={"group": {"name": new_id()}, "roleIds": [role["id"]]})
    return str(made.json()["group"]["id"])


@pytest.mark.requirement("console-12")
async def test_new_user_cannot_join_a_group_of_administrators(weak, api, appointing) -> None:
    """Neither at creation nor by an import, with a registration or before it."""
    registration = {"applicationId": ADMINISTRATOR_APPLICATION_ID}
    members = {"memberships": [{"groupId": appointing}], "password": "a long password"}
    for registrations in ([], [registration]):
        user = {"username": new_id(), **members, "registrations": registrations, "tenantId": DEFAULT_TENANT}
        created = {name: value for name, value in user.items() if name not in {"registrations", "tenantId"}}
        answers = [
            await weak.post("/api/user", json={"user": created}),
            await weak.post("/api/user/import", json={"users": [user]}),
            await weak.post(
                "/api/user/registration", json={"user": {**created, "username": new_id()}, "registration": registration}
            ),
        ]
        assert [answer.status_code for answer in answers] == [401] * 3
        assert (await api.get("/api/user", params={"username": user["username"]})).status_code == 404
    assert (await api.post("/api/user/import", json={"users": [user]})).status_code == 200


@pytest.mark.requirement("console-12")
async def test_member_of_a_group_of_administrators_is_out_of_reach(weak, api, appointing) -> None:
    """Also without a registration, which alone would put the role into effect."""
    made = (await api.post("/api/user", json={"user": {"username": new_id(), "password": "a long password"}})).json()
    user_id = made["user"]["id"]
    body = {"members": {appointing: [{"userId": user_id}]}}
    assert (await api.post("/api/group/member", json=body)).status_code == 200
    path = f"/api/user/{user_id}"
    registration = {"registration": {"applicationId": ADMINISTRATOR_APPLICATION_ID}}
    attempts = [
        await weak.patch(path, json={"user": {"password": "another password"}}),
        await weak.delete(path),
        await weak.post(f"/api/user/registration/{user_id}", json=registration),
        await weak.put("/api/group/member", json={"members": {appointing: []}}),
        await weak.request("DELETE", "/api/group/member", json={"members": {appointing: [user_id]}}),
        await weak.delete("/api/group/member", params={"groupId": appointing}),
        await weak.delete(f"/api/group/{appointing}"),
        await weak.patch(f"/api/group/{appointing}", json={"group": {"name": new_id()}}),
        await weak.put(f"/api/group/{appointing}", json={"group": {"name": new_id()}, "roleIds": []}),
    ]
    assert [answer.status_code for answer in attempts] == [401] * len(attempts)
    assert [one["groupId"] for one in (await api.get(path)).json()["user"]["memberships"]] == [appointing]


@pytest.mark.requirement("console-12")
async def test_administrator_neither_joins_nor_leaves_another_group(weak, api, appointing) -> None:
    """A group that grants no role of the console may matter elsewhere, and only its other members may be changed."""
    group_id = (await api.post("/api/group", json={"group": {"name": new_id()}})).json()["group"]["id"]
    admin, ordinary = await administrator.make(api, "admin"), new_id()
    by_group = (
        await api.post("/api/user", json={"user": {"username": new_id(), "password": "a long password"}})
    ).json()
    body = {"user": {"username": new_id(), "password": "a long password"}}
    assert (await api.post(f"/api/user/{ordinary}", json=body)).status_code == 200
    appointed = {"members": {appointing: [{"userId": by_group["user"]["id"]}]}}
    assert (await api.post("/api/group/member", json=appointed)).status_code == 200
    joining = [{"members": {group_id: [{"userId": user_id}]}} for user_id in (admin["id"], by_group["user"]["id"])]
    for members in joining:
        assert (await weak.post("/api/group/member", json=members)).status_code == 401
        assert (await weak.put("/api/group/member", json=members)).status_code == 401
    joined = await api.post("/api/group/member", json=joining[0])
    member_id = joined.json()["members"][group_id][0]["id"]
    path = "/api/group/member"
    attempts = [
        await weak.put(path, json={"members": {group_id: []}}),
        await weak.request("DELETE", path, json={"members": {group_id: [admin["id"]]}}),
        await weak.delete(f"{path}/{member_id}"),
        await weak.delete(path, params={"groupId": group_id, "userId": admin["id"]}),
        await weak.delete(path, params={"groupId": group_id}),
    ]
    assert [answer.status_code for answer in attempts] == [401] * len(attempts)
    added = await weak.post(path, json={"members": {group_id: [{"userId": ordinary}]}})
    assert added.status_code == 200, added.text


@pytest.mark.requirement("console-12")
async def test_deleting_a_role_of_the_console_strips_no_group(weak, api, appointing) -> None:
    """The references of a role are removed before the role itself."""
    path = f"/api/application/{ADMINISTRATOR_APPLICATION_ID}/role"
    assert (await weak.delete(path, params={"name": "admin"})).status_code == 401
    assert list((await api.get(f"/api/group/{appointing}")).json()["group"]["roles"]) == [ADMINISTRATOR_APPLICATION_ID]


@pytest.mark.requirement("console-12")
async def test_lesser_caller_cannot_lock_an_administrator_but_failed_logins_can(service, api, manager) -> None:
    user = await administrator.make(api, "admin")
    action = {
        "name": new_id(), "preventLogin": True, "temporal": True, "userActionReasons": [], "localizedNames": {},
    }  # fmt: skip
    definition = (await api.post("/api/user-action", json={"userAction": action})).json()["userAction"]
    methods = ["DELETE", "GET", "POST", "PUT"]
    key = {"apiKey": {"permissions": {"endpoints": {"/api/user/action": methods, "/api/login": ["POST"]}}}}
    headers = {"Authorization": (await manager.post("/api/api-key", json=key)).json()["apiKey"]["key"]}
    lock = {
        "action": {
            "actioneeUserId": user["id"],
            "actionerUserId": user["id"],
            "userActionId": definition["id"],
            "expiry": 253402300799000,
        },
        "broadcast": False,
    }
    async with plain_http.client(service.base_url, timeout=30) as http:
        http.headers.update({**headers, "X-FusionAuth-TenantId": DEFAULT_TENANT})
        refused = await http.post("/api/user/action", json=lock)
        assert refused.status_code == 401, refused.text
        duration = {"actionDuration": 3, "actionDurationUnit": "MINUTES"}
        locks = {"tooManyAttempts": 1, "userActionId": definition["id"], **duration}
        path = f"/api/tenant/{DEFAULT_TENANT}"
        before = (await api.get(path)).json()["tenant"]["failedAuthenticationConfiguration"]
        await api.patch(path, json={"tenant": {"failedAuthenticationConfiguration": locks}})
        try:
            wrong = {"loginId": user["email"], "password": "wrong", "applicationId": ADMINISTRATOR_APPLICATION_ID}
            assert (await http.post("/api/login", json=wrong)).status_code == 404
            locked = await http.post("/api/login", json=wrong)
            assert locked.status_code == 409, "an act of the service, whoever sends the logins"
        finally:
            restored = {**before, "userActionId": before.get("userActionId")}
            await api.patch(
                path,
                json={"tenant": {"failedAuthenticationConfiguration": restored}},
                headers={"Content-Type": "application/merge-patch+json"},
            )
            await api.delete(f"/api/user/{user['id']}", params={"hardDelete": "true"})


# Universal applications


@pytest.mark.requirement("audit-a2-keys")
async def test_key_of_a_tenant_makes_no_universal_application(service, api, manager, tenant) -> None:
    key = {"apiKey": {"tenantId": tenant["id"]}}
    headers = {"Authorization": (await manager.post("/api/api-key", json=key)).json()["apiKey"]["key"]}
    universal = {"universalConfiguration": {"universal": True}}
    code = "[notAllowed]application.universalConfiguration.universal"
    async with plain_http.client(service.base_url, timeout=30) as http:
        http.headers.update(headers)
        made = (await http.post("/api/application", json={"application": {"name": new_id()}})).json()["application"]
        path = f"/api/application/{made['id']}"
        answers = [
            await http.post("/api/application", json={"application": {"name": new_id(), **universal}}),
            await http.put(path, json={"application": {"name": made["name"], **universal}}),
            await http.patch(path, json={"application": universal}),
        ]
        codes = [[error["code"] for errors in a.json()["fieldErrors"].values() for error in errors] for a in answers]
        assert codes == [[code]] * 3
        headers = {"X-FusionAuth-TenantId": tenant["id"]}
        assert (await api.patch(path, json={"application": universal}, headers=headers)).status_code == 200
        copied = {"application": {"name": new_id()}, "sourceApplicationId": made["id"]}
        answers = [
            await http.post("/api/application", json=copied),
            await http.patch(path, json={"application": {"name": new_id()}}),
        ]
        assert [answer.status_code for answer in answers] == [400] * 2
        await api.delete(path, params={"hardDelete": "true"}, headers=headers)


@pytest.mark.requirement("audit-b6-key-set")
async def test_key_set_of_a_tenant_has_no_key_of_another_tenants_universal_application(api, http, tenant) -> None:
    generated = await api.post("/api/key/generate", json={"key": {"name": new_id(), "algorithm": "ES256"}})
    key = generated.json()["key"]
    settings = {"enabled": True, "accessTokenKeyId": key["id"], "idTokenKeyId": key["id"], "timeToLiveInSeconds": 60,
                "refreshTokenTimeToLiveInMinutes": 60}  # fmt: skip
    body = {"name": new_id(), "universalConfiguration": {"universal": True}, "jwtConfiguration": settings}
    headers = {"X-FusionAuth-TenantId": tenant["id"]}
    made = await api.post("/api/application", json={"application": body}, headers=headers)
    assert made.status_code == 200, made.text
    sets = {}
    for tenant_id in (tenant["id"], DEFAULT_TENANT):
        keys = (await http.get(f"/{tenant_id}/.well-known/jwks.json")).json()["keys"]
        sets[tenant_id] = {entry["kid"] for entry in keys}
    assert key["kid"] in sets[tenant["id"]]
    assert key["kid"] not in sets[DEFAULT_TENANT]
    path = f"/api/application/{made.json()['application']['id']}"
    await api.delete(path, params={"hardDelete": "true"}, headers=headers)


# Entities that reach users


@pytest.mark.requirement("console-12")
async def test_scim_entities_require_the_user_permissions(service, api, manager) -> None:
    """Otherwise a developer could grant itself a SCIM client, and manage users through it."""
    client = await scim.make_client(service.base_url, api)
    try:
        tenant_id, types = client.tenant["id"], (client.entity["type"]["id"], client.server["type"]["id"])
        endpoints = dict.fromkeys(("/api/entity", "/api/entity/type", "/api/tenant"), METHODS)
        endpoints |= {"/api/entity/grant": ["DELETE", "POST"], "/api/entity/type/permission": ["POST"]}
        key = {"apiKey": {"permissions": {"endpoints": endpoints}}}
        value = (await manager.post("/api/api-key", json=key)).json()["apiKey"]["key"]
        async with plain_http.client(service.base_url, timeout=30) as http:
            http.headers.update({"Authorization": value, "X-FusionAuth-TenantId": tenant_id})
            path = f"/api/entity/{client.entity['id']}"
            grant = {"grant": {"recipientEntityId": client.entity["id"], "permissions": scim.PERMISSIONS}}
            attempts = [
                *[await http.post("/api/entity", json={"entity": {"name": "x", "type": {"id": one}}}) for one in types],
                await http.patch(path, json={"entity": {"clientSecret": "a secret of the developer"}}),
                await http.delete(path),
                await http.post(f"/api/entity/{client.server['id']}/grant", json=grant),
                await http.delete(
                    f"/api/entity/{client.server['id']}/grant", params={"recipientEntityId": client.entity["id"]}
                ),
                await http.patch(f"/api/entity/type/{types[0]}", json={"entityType": {"name": new_id()}}),
                await http.post(f"/api/entity/type/{types[1]}/permission", json={"permission": {"name": new_id()}}),
            ]
            assert [answer.status_code for answer in attempts] == [401] * len(attempts)
            assert (await http.get(path)).json()["entity"]["clientSecret"] == "*****"
            other = await http.post("/api/entity/type", json={"entityType": {"name": new_id()}})
            assert other.status_code == 200
            settings = {"scimServerConfiguration": {"clientEntityTypeId": other.json()["entityType"]["id"]}}
            refused = await http.patch(f"/api/tenant/{tenant_id}", json={"tenant": settings})
            assert list(refused.json()["fieldErrors"]) == ["tenant.scimServerConfiguration"]
            named = {"entity": {"name": "x", "type": {"id": other.json()["entityType"]["id"]}}}
            made = await http.post("/api/entity", json=named)
            assert made.status_code == 200 and made.json()["entity"]["clientSecret"] != "*****"
        assert await client.found("/Users", 'userName eq "nobody"') == []
    finally:
        await scim.close(client)
