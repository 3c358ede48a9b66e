"""Callers with few permissions cannot become administrators or take over the account of one."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from identity.app import ADMINISTRATOR_APPLICATION_ID
from identity.ids import new_id
from tests import plain_http
from tests.authenticator import RELYING_PARTY, Passkey
from tests.conftest import DEFAULT_TENANT, MANAGER_KEY
from tests.console import administrator

METHODS = ["DELETE", "GET", "PATCH", "POST", "PUT"]
USER_ENDPOINTS = {
    "/api/user": METHODS, "/api/user/registration": METHODS, "/api/user/change-password": ["POST"],
    "/api/user/forgot-password": ["POST"], "/api/group": METHODS, "/api/group/member": ["POST", "PUT"],
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
    return [one["token"] for one in found.get("refreshTokens", [])]


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
