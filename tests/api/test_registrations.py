"""/api/user/registration over HTTP."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from identity import app
from identity.ids import new_id, unbase64url
from tests import internals
from tests.conftest import DEFAULT_TENANT, EMAIL_TEMPLATE, SUPER_KEY, checking_client

PASSWORD = "correct horse battery staple"


def codes(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 400, answer.text
    body = answer.json()
    fields = {entry["code"] for entries in body.get("fieldErrors", {}).values() for entry in entries}
    return fields | {entry["code"] for entry in body.get("generalErrors", [])}


async def make_application(api: httpx.AsyncClient, **members: Any) -> str:
    roles = [{"name": "admin"}, {"name": "user", "isDefault": True}, {"name": "guest", "isDefault": True}]
    wanted = {"name": f"App {new_id()}", "roles": roles, **members}
    answer = await api.post("/api/application", json={"application": wanted})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["application"]["id"])


async def make_user(api: httpx.AsyncClient) -> str:
    wanted = {"email": f"{new_id()}@example.com", "password": PASSWORD}
    answer = await api.post("/api/user", json={"user": wanted})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["user"]["id"])


async def register(api: httpx.AsyncClient, user_id: str, **registration: Any) -> httpx.Response:
    return await api.post(f"/api/user/registration/{user_id}", json={"registration": registration})


@pytest.fixture
async def application_id(tenant_api: httpx.AsyncClient) -> str:
    return await make_application(tenant_api)


@pytest.fixture
async def user_id(tenant_api: httpx.AsyncClient) -> str:
    return await make_user(tenant_api)


@pytest.mark.requirement("audit-b4-registration")
async def test_application_may_be_given_in_path(
    tenant_api: httpx.AsyncClient, user_id: str, application_id: str
) -> None:
    path = f"/api/user/registration/{user_id}/{application_id}"
    other = await make_application(tenant_api)
    for body in ({"registration": {"applicationId": other, "data": {"a": 1}}},):
        answer = await tenant_api.post(path, json=body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["registration"]["applicationId"] == application_id
        assert answer.json()["registration"]["data"] == {"a": 1}
    assert (await tenant_api.get(path)).status_code == 200
    assert codes(await tenant_api.post(path, json=body)) == {"[duplicate]registration"}
    assert codes(await tenant_api.post(path, json={"registration": 5})) == {"[invalidJSON]"}
    missing = f"/api/user/registration/{user_id}/{new_id()}"
    assert codes(await tenant_api.post(missing, json={})) == {"[invalid]registration.applicationId"}
    assert (await tenant_api.post(f"/api/user/registration/{new_id()}/{other}", json={})).status_code == 404
    assert (await tenant_api.post(f"/api/user/registration/{user_id}/{other}", json={})).status_code == 200


@pytest.mark.requirement("audit-b4-registration")
@pytest.mark.parametrize(
    "user", [{}, {"email": "", "verified": False, "twoFactor": {"methods": []}, "factor": 0, "data": None}]
)
async def test_empty_user_in_request_is_treated_as_absent(
    tenant_api: httpx.AsyncClient, user_id: str, application_id: str, user: dict[str, Any]
) -> None:
    body = {"user": user, "registration": {"applicationId": application_id}}
    answer = await tenant_api.post(f"/api/user/registration/{user_id}", json=body)
    assert answer.status_code == 200, answer.text
    assert "user" not in answer.json()
    assert codes(await tenant_api.post("/api/user/registration", json=body)) == {"[missing]userId"}


@pytest.mark.requirement("core-9-default-roles", "users-2-17")
async def test_existing_user_is_registered_with_default_roles(
    tenant_api: httpx.AsyncClient, user_id: str, application_id: str
) -> None:
    answer = await register(tenant_api, user_id, applicationId=application_id, username=" Nick ", data={"a": 1})
    assert answer.status_code == 200, answer.text
    assert answer.json().keys() == {"registration", "token", "tokenExpirationInstant"}
    claims = json.loads(unbase64url(answer.json()["token"].split(".")[1]))
    assert claims["authenticationType"] == "REGISTRATION" and claims["roles"] == ["guest", "user"]
    assert claims["aud"] == claims["applicationId"] == application_id and claims["sub"] == user_id
    registration = answer.json()["registration"]
    assert registration["insertInstant"] == registration["lastUpdateInstant"] == registration["verifiedInstant"]
    instants = ("insertInstant", "lastUpdateInstant", "verifiedInstant")
    assert {name: value for name, value in registration.items() if name not in instants} == {
        "applicationId": application_id,
        "data": {"a": 1},
        "id": registration["id"],
        "preferredLanguages": [],
        "roles": ["guest", "user"],
        "username": "Nick",
        "usernameStatus": "ACTIVE",
        "verified": True,
    }
    read = await tenant_api.get(f"/api/user/registration/{user_id}/{application_id}/")
    assert read.json() == {"registration": registration}
    user = (await tenant_api.get(f"/api/user/{user_id}")).json()["user"]
    assert user["registrations"] == [registration]
    assert user["lastUpdateInstant"] >= registration["insertInstant"]


@pytest.mark.requirement("service-11", "users-2-18")
async def test_user_and_registration_are_created_in_one_call(
    tenant_api: httpx.AsyncClient, application_id: str
) -> None:
    chosen = new_id()
    body = {
        "user": {"email": "a@example.com", "password": PASSWORD},
        "registration": {"applicationId": application_id, "roles": ["admin"]},
    }
    answer = await tenant_api.post(f"/api/user/registration/{chosen}", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["user"]["id"] == chosen
    assert answer.json()["registration"]["roles"] == ["admin"]
    assert answer.json()["user"]["registrations"] == [answer.json()["registration"]]
    other = await tenant_api.post("/api/user/registration", json={**body, "user": {**body["user"], "email": "b@x.org"}})
    assert other.json()["user"]["email"] == "b@x.org"
    assert codes(await tenant_api.post(f"/api/user/registration/{chosen}", json=body)) == {"[duplicate]userId"}
    assert codes(await tenant_api.post("/api/user/registration", json=body)) == {"[duplicate]user.email"}


@pytest.mark.requirement("users-2-19")
async def test_registration_returns_refresh_token_if_application_issues_them(
    tenant_api: httpx.AsyncClient, user_id: str, application_id: str
) -> None:
    gives = {"loginConfiguration": {"generateRefreshTokens": True, "allowTokenRefresh": True}}
    giving = await make_application(tenant_api, **gives)
    made = (await register(tenant_api, user_id, applicationId=giving)).json()
    answer = await tenant_api.post("/api/jwt/refresh", json={"refreshToken": made["refreshToken"]})
    assert answer.status_code == 200, answer.text
    records = (await tenant_api.get("/api/jwt/refresh", params={"userId": user_id})).json()["refreshTokens"]
    assert [(record["id"], record["applicationId"]) for record in records] == [(made["refreshTokenId"], giving)]
    other = (await register(tenant_api, user_id, applicationId=application_id)).json()
    assert "token" in other and not {"refreshToken", "refreshTokenId"} & other.keys()


@pytest.mark.requirement("users-2-19")
async def test_locked_user_is_registered_without_token(
    tenant_api: httpx.AsyncClient, user_id: str, application_id: str
) -> None:
    assert (await tenant_api.delete(f"/api/user/{user_id}")).status_code == 200
    made = await register(tenant_api, user_id, applicationId=application_id)
    assert (made.status_code, made.json().keys()) == (200, {"registration"})


@pytest.mark.requirement("users-2-18")
async def test_all_errors_of_user_and_registration_are_reported_together(
    tenant_api: httpx.AsyncClient, application_id: str
) -> None:
    bad = {"user": {"firstName": "x"}, "registration": {"applicationId": application_id, "roles": ["pope"]}}
    assert codes(await tenant_api.post("/api/user/registration", json=bad)) == {
        "[blank]user.email",
        "[blank]user.username",
        "[blank]user.password",
        "[invalid]registration.roles",
    }
    assert (await tenant_api.get("/api/user/search")).json()["total"] == 0


@pytest.mark.requirement("users-2-17")
@pytest.mark.parametrize(
    ("registration", "expected"),
    [
        ({}, {"[missing]registration.applicationId"}),
        ({"applicationId": "x"}, {"[couldNotConvert]registration.applicationId"}),
        ({"applicationId": "00000000-0000-0000-0000-00000000dead"}, {"[invalid]registration.applicationId"}),
        ({"roles": {"admin": True}}, {"[invalidJSON]"}),
        ({"timezone": "x"}, {"[invalid]registration.timezone"}),
        ({"username": {"$gt": ""}}, {"[invalidJSON]"}),
    ],
)
async def test_invalid_registrations_are_refused(
    tenant_api: httpx.AsyncClient, user_id: str, registration: dict[str, Any], expected: set[str]
) -> None:
    assert codes(await register(tenant_api, user_id, **registration)) == expected


@pytest.mark.requirement("users-2-17")
async def test_registration_requires_existing_unregistered_user(
    tenant_api: httpx.AsyncClient, user_id: str, application_id: str
) -> None:
    assert (await register(tenant_api, new_id(), applicationId=application_id)).status_code == 404
    body = {"registration": {"applicationId": application_id}}
    assert codes(await tenant_api.post("/api/user/registration", json=body)) == {"[missing]userId"}
    assert codes(await tenant_api.post("/api/user/registration", json={})) == {"[missing]registration"}
    assert (await register(tenant_api, user_id, applicationId=application_id)).status_code == 200
    assert codes(await register(tenant_api, user_id, applicationId=application_id)) == {"[duplicate]registration"}


async def test_of_concurrent_registrations_one_succeeds(
    tenant_api: httpx.AsyncClient, user_id: str, application_id: str
) -> None:
    answers = await asyncio.gather(*(register(tenant_api, user_id, applicationId=application_id) for _ in range(4)))
    assert sorted(answer.status_code for answer in answers) == [200, 400, 400, 400]
    assert len((await tenant_api.get(f"/api/user/{user_id}")).json()["user"]["registrations"]) == 1


async def test_registrations_are_ordered_by_application(tenant_api: httpx.AsyncClient, user_id: str) -> None:
    made = [await make_application(tenant_api) for _ in range(3)]
    for application_id in made:
        await register(tenant_api, user_id, applicationId=application_id)
    user = (await tenant_api.get(f"/api/user/{user_id}")).json()["user"]
    assert [entry["applicationId"] for entry in user["registrations"]] == sorted(made)


@pytest.mark.requirement("service-11", "users-2-20")
async def test_update_replaces_all_but_fixed_members(
    tenant_api: httpx.AsyncClient, user_id: str, application_id: str
) -> None:
    made = (await register(tenant_api, user_id, applicationId=application_id, username="Nick", data={"a": 1})).json()[
        "registration"
    ]
    other = await make_application(tenant_api)
    forged = {"id": new_id(), "verified": False, "insertInstant": 1, "applicationId": other, "roles": ["user", "admin"]}
    path = f"/api/user/registration/{user_id}"
    changed = await tenant_api.put(f"{path}/{application_id}", json={"registration": forged})
    assert changed.status_code == 200, changed.text
    registration = changed.json()["registration"]
    assert registration["lastUpdateInstant"] > made["lastUpdateInstant"]
    assert {**registration, "lastUpdateInstant": 0} == {
        "applicationId": application_id,
        "data": {},
        "id": made["id"],
        "insertInstant": made["insertInstant"],
        "lastUpdateInstant": 0,
        "preferredLanguages": [],
        "roles": ["admin", "user"],
        "usernameStatus": "ACTIVE",
        "verified": True,
        "verifiedInstant": made["verifiedInstant"],
    }
    by_body = await tenant_api.put(path, json={"registration": {"applicationId": application_id, "roles": ["admin"]}})
    assert by_body.json()["registration"]["roles"] == ["admin"]
    assert codes(await tenant_api.put(path, json={"registration": {}})) == {"[missing]registration.applicationId"}
    bad = await tenant_api.put(f"{path}/{application_id}", json={"registration": {"roles": ["pope"]}})
    assert codes(bad) == {"[invalid]registration.roles"}
    assert (await tenant_api.put(f"{path}/{other}", json={"registration": {}})).status_code in {400, 404}
    elsewhere = await tenant_api.put(f"/api/user/registration/{new_id()}/{other}", json={"registration": {}})
    assert elsewhere.status_code == 404


@pytest.mark.requirement("service-11", "users-2-20")
async def test_the_three_kinds_of_patch(tenant_api: httpx.AsyncClient, user_id: str, application_id: str) -> None:
    await register(tenant_api, user_id, applicationId=application_id, roles=["user"], data={"a": 1})
    path = f"/api/user/registration/{user_id}/{application_id}"

    async def patched(body: Any, kind: str, where: str = path) -> dict[str, Any]:
        answer = await tenant_api.patch(where, content=json.dumps(body), headers={"Content-Type": kind})
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["registration"])

    merged = await patched({"registration": {"roles": ["admin"], "data": {"b": 2}}}, "application/json")
    assert merged["roles"] == ["admin", "user"] and merged["data"] == {"a": 1, "b": 2}
    operations = [{"op": "replace", "path": "/registration/roles", "value": ["guest"]}]
    assert (await patched(operations, "application/json-patch+json"))["roles"] == ["guest"]
    replaced = await patched({"registration": {"data": {"a": None}}}, "application/merge-patch+json")
    assert replaced["data"] == {"b": 2} and replaced["roles"] == ["guest"]
    named = {"registration": {"applicationId": application_id, "timezone": "Europe/Berlin"}}
    by_body = await patched(named, "application/json", f"/api/user/registration/{user_id}")
    assert by_body["timezone"] == "Europe/Berlin"
    nameless = await tenant_api.patch(
        f"/api/user/registration/{user_id}",
        content=json.dumps(operations),
        headers={"Content-Type": "application/json-patch+json"},
    )
    assert codes(nameless) == {"[missing]registration.applicationId"}


@pytest.mark.requirement("users-2-21")
async def test_verification_follows_application_and_request(tenant_api: httpx.AsyncClient, user_id: str) -> None:
    verifying = {"verifyRegistration": True, "verificationEmailTemplateId": EMAIL_TEMPLATE}
    application_id = await make_application(tenant_api, **verifying)
    plain = (await register(tenant_api, user_id, applicationId=application_id)).json()["registration"]
    assert plain["verified"] is False and "verifiedInstant" not in plain
    body = {"registration": {"applicationId": application_id}, "skipRegistrationVerification": True}
    other = await make_user(tenant_api)
    skipped = (await tenant_api.post(f"/api/user/registration/{other}", json=body)).json()["registration"]
    assert skipped["verified"] is True


@pytest.mark.requirement("users-2-21")
async def test_authentication_token_is_created_on_request_sealed_and_kept(
    tenant_api: httpx.AsyncClient, service: app.Service, user_id: str, application_id: str
) -> None:
    body = {"registration": {"applicationId": application_id}, "generateAuthenticationToken": True}
    made = (await tenant_api.post(f"/api/user/registration/{user_id}", json=body)).json()["registration"]
    token = made["authenticationToken"]
    assert len(token) == 43
    raw = await internals.store(service, "users")._collection.find_one({"_id": user_id})
    assert token not in str(raw)
    path = f"/api/user/registration/{user_id}/{application_id}"
    changed = await tenant_api.put(path, json={"registration": {}})
    assert changed.json()["registration"]["authenticationToken"] == token


@pytest.mark.requirement("service-11", "users-2-20")
async def test_registration_is_deleted(tenant_api: httpx.AsyncClient, user_id: str, application_id: str) -> None:
    await register(tenant_api, user_id, applicationId=application_id)
    path = f"/api/user/registration/{user_id}/{application_id}"
    gone = await tenant_api.request("DELETE", path, json={"eventInfo": {"ipAddress": "192.0.2.1"}})
    assert gone.status_code == 200 and gone.content == b""
    for answer in (await tenant_api.delete(path), await tenant_api.get(path)):
        assert answer.status_code == 404
    assert (await tenant_api.get(f"/api/user/{user_id}")).json()["user"]["registrations"] == []
    for verb in ("get", "delete"):
        answer = await getattr(tenant_api, verb)(f"/api/user/registration/{user_id}")
        assert codes(answer) == {"[missing]applicationId"}


@pytest.mark.requirement("attack-54", "core-4-12")
async def test_users_and_applications_of_another_tenant_are_not_found(
    tenant_api: httpx.AsyncClient, api: httpx.AsyncClient, user_id: str, application_id: str
) -> None:
    await register(tenant_api, user_id, applicationId=application_id)
    path = f"/api/user/registration/{user_id}/{application_id}"
    body = {"registration": {"applicationId": application_id, "roles": ["admin"]}}
    for answer in (
        await api.get(path),
        await api.put(path, json=body),
        await api.patch(path, json=body),
        await api.delete(path),
        await api.post(f"/api/user/registration/{user_id}", json=body),
    ):
        assert answer.status_code == 404
    foreigner = await make_user(api)
    crossed = await register(api, foreigner, applicationId=application_id)
    assert codes(crossed) == {"[invalid]registration.applicationId"}
    kept = (await tenant_api.get(path)).json()["registration"]
    assert kept["roles"] == ["guest", "user"]
    assert (await api.get(f"/api/user/{foreigner}")).json()["user"]["tenantId"] == DEFAULT_TENANT


@pytest.mark.requirement("core-4-10")
async def test_ids_determine_tenant_without_header(
    service: app.Service, tenant_api: httpx.AsyncClient, user_id: str, application_id: str
) -> None:
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as client:
        answer = await register(client, user_id, applicationId=application_id)
        assert answer.status_code == 200, answer.text
        body = {
            "user": {"email": f"{new_id()}@example.com", "password": PASSWORD},
            "registration": {"applicationId": application_id},
        }
        both = await client.post("/api/user/registration", json=body)
        assert both.json()["user"]["tenantId"] == tenant_api.headers["X-FusionAuth-TenantId"]
        nowhere = {**body, "registration": {"applicationId": new_id()}}
        assert codes(await client.post("/api/user/registration", json=nowhere)) == {"[TenantIdRequired]"}


async def test_registrations_require_api_key(http: httpx.AsyncClient, user_id: str, application_id: str) -> None:
    path = f"/api/user/registration/{user_id}/{application_id}"
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        assert (await http.request(method, path, json={})).status_code == 401
    for where in (f"/api/user/registration/{user_id}", "/api/user/registration"):
        assert (await http.post(where, json={})).status_code == 401
