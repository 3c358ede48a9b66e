"""/api/user over HTTP: every verb, every error code, visible members, and tenant isolation."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import httpx
import pytest

from identity import app
from identity.ids import new_id, unbase64url
from tests import internals
from tests.conftest import DEFAULT_TENANT, SUPER_KEY, UNKNOWN_ID, checking_client

PASSWORD = "correct horse battery staple"
SECRET = base64.b64encode(b"12345678901234567890").decode()


def codes(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 400, answer.text
    body = answer.json()
    fields = {entry["code"] for entries in body.get("fieldErrors", {}).values() for entry in entries}
    return fields | {entry["code"] for entry in body.get("generalErrors", [])}


async def make_user(api: httpx.AsyncClient, user_id: str = "", **members: Any) -> dict[str, Any]:
    wanted = {"email": f"{new_id()}@example.com", "password": PASSWORD, **members}
    answer = await api.post(f"/api/user/{user_id}", json={"user": wanted})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["user"])


@pytest.mark.requirement("core-1-11", "service-10", "users-2-1", "users-2-7")
async def test_user_is_created_with_every_member(tenant_api: httpx.AsyncClient) -> None:
    user_id = new_id()
    wanted = {
        "birthDate": "1981-06-04",
        "data": {"company": "PiedPiper", "nothing": None},
        "email": " Erlich@Example.com ",
        "expiry": 4_000_000_000_000,
        "firstName": " Erlich ",
        "fullName": "Erlich Bachman",
        "imageUrl": "https://example.com/e.png",
        "lastName": "Bachman",
        "middleName": "J",
        "mobilePhone": "555-555-5555",
        "parentEmail": "P@example.com",
        "password": PASSWORD,
        "phoneNumber": "+1 (555) 123-4567",
        "preferredLanguages": ["en", "", "fr", "en"],
        "timezone": "America/Denver",
        "username": " Erlich ",
    }
    answer = await tenant_api.post(f"/api/user/{user_id}", json={"user": wanted})
    assert answer.status_code == 200, answer.text
    user = answer.json()["user"]
    assert user["insertInstant"] == user["lastUpdateInstant"] == user["passwordLastUpdateInstant"]
    assert {identity.pop("type"): identity["value"] for identity in user.pop("identities")} == {
        "email": "erlich@example.com",
        "phoneNumber": "+15551234567",
        "username": "Erlich",
    }
    instants = ("insertInstant", "lastUpdateInstant", "passwordLastUpdateInstant")
    assert {name: value for name, value in user.items() if name not in instants} == {
        "active": True,
        "birthDate": "1981-06-04",
        "connectorId": "e3306678-a53a-4964-9040-1c96f36dda72",
        "data": {"company": "PiedPiper"},
        "email": "erlich@example.com",
        "expiry": 4_000_000_000_000,
        "firstName": "Erlich",
        "fullName": "Erlich Bachman",
        "id": user_id,
        "imageUrl": "https://example.com/e.png",
        "lastName": "Bachman",
        "memberships": [],
        "middleName": "J",
        "mobilePhone": "555-555-5555",
        "parentEmail": "p@example.com",
        "passwordChangeRequired": False,
        "phoneNumber": "+15551234567",
        "preferredLanguages": ["en", "fr"],
        "registrations": [],
        "tenantId": tenant_api.headers["X-FusionAuth-TenantId"],
        "timezone": "America/Denver",
        "twoFactor": {"methods": [], "recoveryCodes": []},
        "uniqueUsername": "Erlich",
        "username": "Erlich",
        "usernameStatus": "ACTIVE",
        "verified": False,
    }
    again = (await tenant_api.get(f"/api/user/{user_id}/")).json()["user"]
    again.pop("identities")
    assert again == {**user, "encryptionScheme": "argon2id"}


@pytest.mark.requirement("service-10", "users-2-9")
async def test_user_is_found_by_every_identifier(tenant_api: httpx.AsyncClient) -> None:
    user = await make_user(tenant_api, email="a@example.com", username="Ann")
    for query in (
        "email=A@example.com",
        "username=ann",
        "loginId=ANN",
        "loginId=a@example.com",
        "loginId=ann&loginIdTypes=email&loginIdTypes=username",
    ):
        answer = await tenant_api.get(f"/api/user?{query}")
        assert answer.json()["user"]["id"] == user["id"], query
    for query in ("email=b@example.com", "username=a@example.com", "loginId=ann&loginIdTypes=email"):
        assert (await tenant_api.get(f"/api/user?{query}")).status_code == 404, query
    assert (await tenant_api.get(f"/api/user/{new_id()}")).status_code == 404
    assert codes(await tenant_api.get("/api/user")) == {"[missing]userId"}
    assert codes(await tenant_api.get("/api/user/nonsense")) == {"[couldNotConvert]userId"}


@pytest.mark.requirement(
    "core-1-6", "core-2-10", "core-2-11", "core-2-3", "core-2-4", "core-2-5", "design-core-3", "users-2-7"
)
@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, {"[blank]user.email", "[blank]user.username", "[blank]user.password"}),
        (
            {"email": " ", "username": "", "password": ""},
            {"[blank]user.email", "[blank]user.username", "[blank]user.password"},
        ),
        ({"email": "a@example.com", "password": "short"}, {"[tooShort]user.password"}),
        ({"email": "a@example.com", "password": "x" * 300}, {"[tooLong]user.password"}),
        ({"email": "nonsense", "password": PASSWORD}, {"[notEmail]user.email"}),
        ({"username": "x" * 192, "password": PASSWORD}, {"[tooLong]user.username"}),
        ({"username": "x\u0001", "password": PASSWORD}, {"[invalid]user.username"}),
        ({"username": "x", "password": PASSWORD, "birthDate": "4.6.1981"}, {"[couldNotConvert]user.birthDate"}),
        ({"username": "x", "password": PASSWORD, "mobilePhone": "call me"}, {"[invalid]user.mobilePhone"}),
        ({"username": "x", "password": PASSWORD, "phoneNumber": "555"}, {"[invalidPhone]user.phoneNumber"}),
        ({"username": "x", "password": PASSWORD, "timezone": "Mars/Base"}, {"[invalid]user.timezone"}),
        ({"username": "x", "password": PASSWORD, "preferredLanguages": ["?"]}, {"[invalid]user.preferredLanguages[0]"}),
        ({"username": "x", "password": PASSWORD, "usernameStatus": "BAD"}, {"[invalid]user.usernameStatus"}),
        ({"username": "x", "password": PASSWORD, "encryptionScheme": "rot13"}, {"[invalid]user.encryptionScheme"}),
        (
            {"username": "x", "password": PASSWORD, "encryptionScheme": "bcrypt", "factor": 99},
            {"[invalid]user.factor"},
        ),
        (
            {"username": "x", "password": PASSWORD, "preferredLanguages": [f"e{c}" for c in "abcdefghijklmnopqrstu"]},
            {"[tooMany]user.preferredLanguages"},
        ),
        (
            {"username": "x", "password": PASSWORD, "memberships": [{"groupId": UNKNOWN_ID}]},
            {"[invalid]user.memberships[0].groupId"},
        ),
        (
            {"username": "x", "password": PASSWORD, "twoFactor": {"methods": [{"method": "authenticator"}]}},
            {"[blank]user.twoFactor.methods[0].secret"},
        ),
        (
            {
                "username": "x",
                "password": PASSWORD,
                "twoFactor": {"methods": [{"method": "authenticator", "secret": "!"}]},
            },
            {"[invalid]user.twoFactor.methods[0].secret"},
        ),
        ({"username": {"$ne": None}, "password": PASSWORD}, {"[invalidJSON]"}),
        ({"email": ["a@example.com"], "password": PASSWORD}, {"[invalidJSON]"}),
    ],
)
async def test_invalid_users_are_refused_with_all_errors(
    tenant_api: httpx.AsyncClient, wanted: dict[str, Any], expected: set[str]
) -> None:
    assert codes(await tenant_api.post("/api/user", json={"user": wanted})) == expected


@pytest.mark.requirement("core-1-1", "users-2-7")
async def test_request_members_next_to_user_are_validated(tenant_api: httpx.AsyncClient) -> None:
    assert codes(await tenant_api.post("/api/user", json={})) == {"[missing]user"}
    assert codes(await tenant_api.post("/api/user", content=b"[1]")) == {"[invalidJSON]"}
    wanted = {"email": "a@example.com", "password": PASSWORD}
    body = {"user": wanted, "applicationId": new_id()}
    assert codes(await tenant_api.post("/api/user", json=body)) == {"[invalid]applicationId"}
    assert codes(await tenant_api.post("/api/user", json={**body, "applicationId": "x"})) == {
        "[couldNotConvert]applicationId"
    }
    for verb in ("put", "patch", "delete"):
        assert codes(await getattr(tenant_api, verb)("/api/user")) == {"[missing]userId"}


@pytest.mark.requirement("core-2-4", "users-2-7")
async def test_login_ids_are_unique_per_tenant_and_inactive_owner_is_reported(
    tenant_api: httpx.AsyncClient,
) -> None:
    await make_user(tenant_api, email="a@example.com", username="Ann")
    other = await make_user(tenant_api, email="b@example.com")
    both = {"email": "A@example.com", "username": "aNN", "password": PASSWORD}
    assert codes(await tenant_api.post("/api/user", json={"user": both})) == {
        "[duplicate]user.email",
        "[duplicate]user.username",
    }
    assert (await tenant_api.delete(f"/api/user/{other['id']}")).status_code == 200
    taken = {"email": "b@example.com", "username": "ann", "password": PASSWORD}
    answer = await tenant_api.post("/api/user", json={"user": taken})
    assert codes(answer) == {"[inactive]user.email", "[duplicate]user.username"}
    (entry,) = answer.json()["fieldErrors"]["user.username"]
    assert entry["message"] == "A User with username = [ann] already exists."


@pytest.mark.requirement("users-2-7")
async def test_id_is_unique_across_tenants(tenant_api: httpx.AsyncClient, api: httpx.AsyncClient) -> None:
    user = await make_user(tenant_api)
    wanted = {"email": f"{new_id()}@example.com", "password": PASSWORD}
    for client in (tenant_api, api):
        assert codes(await client.post(f"/api/user/{user['id']}", json={"user": wanted})) == {"[duplicate]userId"}


@pytest.mark.requirement("design-state-1")
async def test_of_concurrent_equal_creates_one_succeeds(tenant_api: httpx.AsyncClient) -> None:
    wanted = {"user": {"username": "Ann", "password": PASSWORD}}
    answers = await asyncio.gather(*(tenant_api.post("/api/user", json=wanted) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 7
    assert all(codes(answer) == {"[duplicate]user.username"} for answer in answers if answer.status_code == 400)


@pytest.mark.requirement("core-2-5", "users-2-7")
async def test_blocked_domains_are_refused_unless_overridden(tenant_api: httpx.AsyncClient) -> None:
    tenant_id = tenant_api.headers["X-FusionAuth-TenantId"]
    change = {"tenant": {"registrationConfiguration": {"blockedDomains": ["blocked.example"]}}}
    assert (await tenant_api.patch(f"/api/tenant/{tenant_id}", json=change)).status_code == 200
    wanted = {"email": "a@Blocked.Example", "password": PASSWORD}
    assert codes(await tenant_api.post("/api/user", json={"user": wanted})) == {"[blocked]user.email"}
    allowed = await tenant_api.post("/api/user", json={"user": wanted, "disableDomainBlock": True})
    assert allowed.status_code == 200
    user_id = allowed.json()["user"]["id"]
    kept = await tenant_api.patch(f"/api/user/{user_id}", json={"user": {"firstName": "Ann"}})
    assert kept.status_code == 200
    moved = {"user": {"email": "b@blocked.example"}}
    assert codes(await tenant_api.patch(f"/api/user/{user_id}", json=moved)) == {"[blocked]user.email"}


@pytest.mark.requirement("users-2-5")
async def test_usernames_are_made_unique_if_configured(tenant_api: httpx.AsyncClient) -> None:
    tenant_id = tenant_api.headers["X-FusionAuth-TenantId"]

    async def configure(strategy: str) -> None:
        unique = {"enabled": True, "strategy": strategy, "separator": "-", "numberOfDigits": 3}
        change = {"tenant": {"usernameConfiguration": {"unique": unique}}}
        assert (await tenant_api.patch(f"/api/tenant/{tenant_id}", json=change)).status_code == 200

    await configure("OnCollision")
    first = await make_user(tenant_api, username="Ann")
    second = await make_user(tenant_api, username="ann")
    assert (first["uniqueUsername"], second["username"]) == ("Ann", "ann")
    assert second["uniqueUsername"][:4] == "ann-" and second["uniqueUsername"][4:].isdigit()
    found = await tenant_api.get("/api/user", params={"username": second["uniqueUsername"]})
    assert found.json()["user"]["id"] == second["id"]
    changed = await tenant_api.patch(f"/api/user/{second['id']}", json={"user": {"firstName": "A"}})
    assert changed.json()["user"]["uniqueUsername"] == second["uniqueUsername"]
    await configure("Always")
    third = await make_user(tenant_api, username="Bob")
    assert len(third["uniqueUsername"]) == len("Bob-123")


async def test_verification_follows_tenant_and_request(tenant_api: httpx.AsyncClient) -> None:
    wanted = {"email": "a@example.com", "password": PASSWORD}
    answer = await tenant_api.post("/api/user", json={"user": wanted, "skipVerification": True})
    user = answer.json()["user"]
    assert user["verified"] is True and user["verifiedInstant"] == user["insertInstant"]
    assert [(entry["verified"], entry["verifiedReason"]) for entry in user["identities"]] == [(True, "Skipped")]
    other = await make_user(tenant_api)
    assert other["verified"] is False
    assert other["identities"][0]["verifiedReason"] == "Disabled"


@pytest.mark.requirement("attack-51", "event-user.deactivate-2", "users-2-1")
async def test_read_only_members_are_ignored(tenant_api: httpx.AsyncClient) -> None:
    forged = {
        "active": False,
        "connectorId": new_id(),
        "id": new_id(),
        "identities": [{"type": "email", "value": "x@example.com"}],
        "insertInstant": 1,
        "lastLoginInstant": 1,
        "private": {"password": {}},
        "registrations": [{"applicationId": new_id(), "roles": ["admin"]}],
        "tenantId": DEFAULT_TENANT,
        "uniqueUsername": "root",
        "verified": True,
    }
    user_id = new_id()
    user = await make_user(tenant_api, user_id, username="ann", **forged)
    for changed in (
        user,
        (await tenant_api.put(f"/api/user/{user_id}", json={"user": {"username": "ann", **forged}})).json()["user"],
        (await tenant_api.patch(f"/api/user/{user_id}", json={"user": forged})).json()["user"],
    ):
        assert changed["id"] == user_id
        assert changed["active"] is True
        assert changed["insertInstant"] == user["insertInstant"] != 1
        assert changed["registrations"] == []
        assert changed["tenantId"] == tenant_api.headers["X-FusionAuth-TenantId"]
        assert changed["uniqueUsername"] == "ann"
        assert changed["verified"] is False
        assert "lastLoginInstant" not in changed and "private" not in changed


@pytest.mark.requirement("core-1-10", "service-10", "users-2-1", "users-2-11")
async def test_put_replaces_all_but_fixed_members(tenant_api: httpx.AsyncClient) -> None:
    user = await make_user(tenant_api, username="Ann", firstName="Ann", data={"a": 1}, preferredLanguages=["en"])
    body = {"user": {"email": "NEW@example.com"}}
    changed = (await tenant_api.put(f"/api/user/{user['id']}", json=body)).json()["user"]
    assert changed["email"] == "new@example.com"
    assert changed["data"] == {} and changed["preferredLanguages"] == []
    assert not {"firstName", "username", "uniqueUsername"} & changed.keys()
    assert changed["lastUpdateInstant"] > user["lastUpdateInstant"]
    assert changed["passwordLastUpdateInstant"] == user["passwordLastUpdateInstant"]
    assert codes(await tenant_api.put(f"/api/user/{user['id']}", json={"user": {}})) == {
        "[blank]user.email",
        "[blank]user.username",
    }
    assert (await tenant_api.put(f"/api/user/{new_id()}", json=body)).status_code == 404
    again = await make_user(tenant_api, username="ann")
    assert codes(await tenant_api.put(f"/api/user/{again['id']}", json=body)) == {"[duplicate]user.email"}


@pytest.mark.requirement("service-10", "users-2-11")
async def test_the_three_kinds_of_patch(tenant_api: httpx.AsyncClient) -> None:
    user = await make_user(
        tenant_api, firstName="Ann", data={"a": 1, "b": {"c": 2}}, preferredLanguages=["en"], timezone="Europe/Berlin"
    )
    path = f"/api/user/{user['id']}"

    async def patched(body: Any, kind: str) -> dict[str, Any]:
        answer = await tenant_api.patch(path, content=json.dumps(body), headers={"Content-Type": kind})
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["user"])

    merged = await patched(
        {"user": {"firstName": None, "data": {"b": {"d": 3}}, "preferredLanguages": ["fr", "en"]}}, "application/json"
    )
    assert "firstName" not in merged
    assert merged["data"] == {"a": 1, "b": {"c": 2, "d": 3}}
    assert merged["preferredLanguages"] == ["en", "fr"]
    assert merged["email"] == user["email"] and merged["timezone"] == "Europe/Berlin"
    operations = [
        {"op": "replace", "path": "/user/data/a", "value": 5},
        {"op": "add", "path": "/user/preferredLanguages/0", "value": "de"},
        {"op": "remove", "path": "/user/timezone"},
    ]
    operated = await patched(operations, "application/json-patch+json")
    assert operated["data"]["a"] == 5 and operated["preferredLanguages"] == ["de", "en", "fr"]
    assert "timezone" not in operated
    replaced = await patched(
        {"user": {"preferredLanguages": ["es"], "data": {"b": None}}}, "application/merge-patch+json"
    )
    assert replaced["preferredLanguages"] == ["es"] and replaced["data"] == {"a": 5}
    bad = await tenant_api.patch(
        path,
        content=b'[{"op": "test", "path": "/user/email", "value": "x"}]',
        headers={"Content-Type": "application/json-patch+json"},
    )
    assert bad.status_code == 400
    assert (await tenant_api.patch(f"/api/user/{new_id()}", json={"user": {}})).status_code == 404


@pytest.mark.requirement("users-2-11", "webhooks-4-7")
async def test_concurrent_patches_all_apply(tenant_api: httpx.AsyncClient) -> None:
    user = await make_user(tenant_api)
    path = f"/api/user/{user['id']}"
    answers = await asyncio.gather(*(tenant_api.patch(path, json={"user": {"data": {str(n): n}}}) for n in range(4)))
    assert [answer.status_code for answer in answers] == [200] * 4
    assert (await tenant_api.get(path)).json()["user"]["data"] == {str(n): n for n in range(4)}


@pytest.mark.requirement("users-2-11")
async def test_new_password_is_validated_and_current_one_may_be_required(
    tenant_api: httpx.AsyncClient, service: app.Service
) -> None:
    user = await make_user(tenant_api, username="ann", passwordChangeRequired=True)
    path = f"/api/user/{user['id']}"
    assert codes(await tenant_api.patch(path, json={"user": {"password": "short"}})) == {"[tooShort]user.password"}
    body = {"user": {"password": "another password"}, "currentPassword": "wrong"}
    assert codes(await tenant_api.patch(path, json=body)) == {"[invalid]currentPassword"}
    changed = await tenant_api.patch(path, json={**body, "currentPassword": PASSWORD})
    assert changed.status_code == 200
    answer = changed.json()["user"]
    assert answer["passwordLastUpdateInstant"] > user["passwordLastUpdateInstant"]
    assert answer["passwordChangeRequired"] is False
    stored = await internals.store(service, "users").get(tenant_api.headers["X-FusionAuth-TenantId"], user["id"])
    assert stored["private"]["password"]["scheme"] == "argon2id"


@pytest.mark.requirement("core-2-6", "users-2-12")
async def test_previous_passwords_are_refused_if_configured(tenant_api: httpx.AsyncClient, clock: Any) -> None:
    tenant_id = tenant_api.headers["X-FusionAuth-TenantId"]
    change = {
        "tenant": {
            "passwordValidationRules": {"rememberPreviousPasswords": {"enabled": True, "count": 2}},
            "minimumPasswordAge": {"enabled": True, "seconds": 30},
        }
    }
    assert (await tenant_api.patch(f"/api/tenant/{tenant_id}", json=change)).status_code == 200
    user = await make_user(tenant_api, password="password number 1")
    path = f"/api/user/{user['id']}"

    async def changed(password: str) -> httpx.Response:
        return await tenant_api.patch(path, json={"user": {"password": password}})

    assert codes(await changed("password number 2")) == {"[tooYoung]user.password"}
    clock.advance(seconds=31)
    assert codes(await changed("password number 1")) == {"[previouslyUsed]user.password"}
    assert (await changed("password number 2")).status_code == 200
    clock.advance(seconds=31)
    assert codes(await changed("password number 1")) == {"[previouslyUsed]user.password"}
    assert (await changed("password number 3")).status_code == 200
    clock.advance(seconds=31)
    assert (await changed("password number 1")).status_code == 200


@pytest.mark.requirement("users-2-7")
async def test_authenticator_and_required_change_are_returned_on_creation(tenant_api) -> None:
    methods = [{"method": "authenticator", "secret": SECRET}, {"method": "email", "email": "a@b.c"}]
    required = {"passwordChangeRequired": True, "twoFactor": {"methods": methods}}
    user = await make_user(tenant_api, **required)
    assert user["passwordChangeReason"] == "Administrative"
    app, mail = user["twoFactor"]["methods"]
    assert app["authenticator"] == {"algorithm": "HmacSHA1", "codeLength": 6, "timeStep": 30}
    assert "authenticator" not in mail
    path, own = (
        f"/api/user/{user['id']}",
        {**user, "twoFactor": {"methods": [{"id": app["id"], "method": app["method"]}]}},
    )
    put = (await tenant_api.put(path, json={"user": own})).json()["user"]
    assert (put["passwordChangeReason"], put["twoFactor"]["methods"]) == ("Administrative", [app])
    assert "passwordChangeReason" not in await make_user(tenant_api)


@pytest.mark.requirement("attack-56", "users-2-3")
async def test_two_factor_secrets_are_hidden_and_survive_update(
    tenant_api: httpx.AsyncClient, service: app.Service
) -> None:
    methods = [
        {"method": "authenticator", "secret": SECRET, "authenticator": {}},
        {"method": "email", "email": "a@b.c"},
    ]
    user = await make_user(tenant_api, twoFactor={"methods": methods, "recoveryCodes": ["one-code"]})
    path = f"/api/user/{user['id']}"
    assert user["twoFactor"]["recoveryCodes"] == []
    first, second = user["twoFactor"]["methods"]
    assert first["authenticator"] == {"algorithm": "HmacSHA1", "codeLength": 6, "timeStep": 30}
    assert len(first["id"]) == len(second["id"]) == 4
    kept = await tenant_api.put(path, json={"user": {**user, "firstName": "Ann"}})
    patched = await tenant_api.patch(path, json={"user": {"lastName": "B"}})
    copied = await tenant_api.patch(
        path,
        content=b'[{"op": "copy", "from": "/user/twoFactor/methods/0/secret", "path": "/user/data/stolen"}]',
        headers={"Content-Type": "application/json-patch+json"},
    )
    assert copied.status_code == 400
    for answer in (kept, patched, await tenant_api.get(path), await tenant_api.get("/api/user/search?queryString=ann")):
        assert answer.status_code == 200
        assert SECRET not in answer.text and "one-code" not in answer.text
    stored = await internals.store(service, "users").get(user["tenantId"], user["id"])
    assert [method.get("secret") for method in stored["twoFactor"]["methods"]] == [SECRET, None]
    assert stored["twoFactor"]["recoveryCodes"] == ["one-code"]
    removed = await tenant_api.put(path, json={"user": {"email": user["email"]}})
    assert removed.json()["user"]["twoFactor"] == {"methods": [], "recoveryCodes": []}


@pytest.mark.requirement("design-state-9", "users-2-3")
async def test_password_is_hashed_with_requested_scheme(tenant_api: httpx.AsyncClient) -> None:
    user = await make_user(tenant_api, encryptionScheme="bcrypt", factor=4)
    assert "encryptionScheme" not in user
    answer = await tenant_api.get(f"/api/user/{user['id']}")
    assert answer.json()["user"]["encryptionScheme"] == "bcrypt"
    for name in ("password", "salt", "factor"):
        assert name not in answer.json()["user"]


@pytest.mark.requirement("core-1-12", "service-10", "users-2-13")
async def test_deactivate_reactivate_and_delete(tenant_api: httpx.AsyncClient) -> None:
    user = await make_user(tenant_api)
    path = f"/api/user/{user['id']}"
    for _ in range(2):
        gone = await tenant_api.delete(path)
        assert gone.status_code == 200 and gone.content == b""
    assert (await tenant_api.get(path)).json()["user"]["active"] is False
    for _ in range(2):
        back = await tenant_api.put(f"{path}?reactivate=true")
        assert back.status_code == 200 and back.json()["user"]["active"] is True
    assert (await tenant_api.delete(f"{path}?hardDelete=TRUE")).status_code == 200
    for answer in (
        await tenant_api.get(path),
        await tenant_api.delete(path),
        await tenant_api.put(f"{path}?reactivate=true"),
        await tenant_api.delete(f"{path}?hardDelete=true"),
    ):
        assert answer.status_code == 404
    other = await make_user(tenant_api)
    body = {"hardDelete": True, "eventInfo": {"ipAddress": "192.0.2.1"}}
    assert (await tenant_api.request("DELETE", f"/api/user/{other['id']}", json=body)).status_code == 200
    assert (await tenant_api.get(f"/api/user/{other['id']}")).status_code == 404


@pytest.mark.requirement("core-1.2-6", "users-2-15")
async def test_search_over_http_in_both_forms(tenant_api: httpx.AsyncClient) -> None:
    for name in ("ann", "bob", "cy"):
        await make_user(tenant_api, email=f"{name}@example.com", username=name)
    by_query = await tenant_api.get(
        "/api/user/search?queryString=*example.com&sortFields[0].name=email&sortFields[0].order=desc"
        "&startRow=false&numberOfResults=2"
    )
    assert [user["username"] for user in by_query.json()["users"]] == ["cy", "bob"]
    assert by_query.json()["total"] == 3
    token = by_query.json()["nextResults"]
    rest = await tenant_api.post("/api/user/search", json={"search": {"nextResults": token}})
    assert [user["username"] for user in rest.json()["users"]] == ["ann"]
    assert "nextResults" not in rest.json()
    ids = [user["id"] for user in by_query.json()["users"]]
    by_ids = await tenant_api.get("/api/user/search", params={"ids": [*ids, new_id()]})
    assert {user["id"] for user in by_ids.json()["users"]} == set(ids)
    assert (await tenant_api.put("/api/user/search")).status_code == 200
    everybody = await tenant_api.post("/api/user/search", json={"search": {"queryString": "*"}})
    assert everybody.json()["total"] == 3


@pytest.mark.requirement("users-2-15")
@pytest.mark.parametrize(
    ("criteria", "code"),
    [
        ({"query": '{"match_everything": {}}'}, "[invalid]search.query"),
        ({"queryString": {"$ne": None}}, "[invalid]search.queryString"),
        ({"queryString": "password:x"}, "[invalid]search.queryString"),
        ({"queryString": "private.password:x"}, "[invalid]search.queryString"),
        ({"sortFields": [{"name": "private.password.hash"}]}, "[invalid]search.sortFields[0]"),
        ({"sortFields": [{"name": {"$where": "1"}}]}, "[invalid]search.sortFields[0]"),
        ({"sortFields": "email"}, "[invalid]search.sortFields"),
        ({"ids": ["x"]}, "[couldNotConvert]search.ids"),
        ({"ids": [{"$ne": 1}]}, "[couldNotConvert]search.ids"),
        ({"startRow": -1}, "[invalid]search.startRow"),
        ({"numberOfResults": {"$gt": 0}}, "[invalid]search.numberOfResults"),
        ({"nextResults": "bm9uc2Vuc2U"}, "[invalid]search.nextResults"),
        ({"nextResults": {"$ne": 1}}, "[invalid]search.nextResults"),
    ],
)
async def test_invalid_searches_are_refused(tenant_api: httpx.AsyncClient, criteria: dict[str, Any], code: str) -> None:
    assert codes(await tenant_api.post("/api/user/search", json={"search": criteria})) == {code}


@pytest.mark.requirement("attack-69", "users-2-15")
@pytest.mark.parametrize(
    "term", ["(a+)+$", r"a\{1,99999\}", ".*.*.*.*x", r"\[", "*" * 300, "a" * 400, "$where", "\\\\"]
)
async def test_search_term_is_not_a_pattern(tenant_api: httpx.AsyncClient, term: str) -> None:
    await make_user(tenant_api, email="a@example.com", fullName="a" * 200)
    answer = await tenant_api.post("/api/user/search", json={"search": {"queryString": term}})
    assert answer.status_code == 200
    assert answer.json()["total"] == (1 if set(term) == {"*"} else 0)


@pytest.mark.requirement("attack-69")
async def test_data_accepts_any_names(tenant_api: httpx.AsyncClient) -> None:
    data = {"$where": "1", "a.b": {"$ne": 1}, "$ref": "x", "$id": "y", "__proto__": {"x": 1}, "": "empty"}
    user = await make_user(tenant_api, data=data)
    assert user["data"] == data
    changed = await tenant_api.patch(f"/api/user/{user['id']}", json={"user": {"data": {"$set": {"active": False}}}})
    assert changed.json()["user"]["data"] == {**data, "$set": {"active": False}}
    assert changed.json()["user"]["active"] is True


@pytest.mark.requirement("attack-54", "core-4-12", "users-2-16")
async def test_user_of_another_tenant_is_not_found(tenant_api: httpx.AsyncClient, api: httpx.AsyncClient) -> None:
    user = await make_user(tenant_api, email="only-here@example.com", username="only-here")
    path = f"/api/user/{user['id']}"
    body = {"user": {"email": "x@example.com", "password": PASSWORD}}
    for answer in (
        await api.get(path),
        await api.put(path, json=body),
        await api.patch(path, json=body),
        await api.delete(path),
        await api.delete(f"{path}?hardDelete=true"),
        await api.put(f"{path}?reactivate=true"),
        await api.get("/api/user?email=only-here@example.com"),
        await api.get("/api/user?username=only-here"),
        await api.get("/api/user?loginId=only-here"),
    ):
        assert answer.status_code == 404
    found = await api.post("/api/user/search", json={"search": {"ids": [user["id"]]}})
    assert found.json() == {"total": 0, "users": []}
    assert (await tenant_api.get(path)).json()["user"]["lastUpdateInstant"] == user["lastUpdateInstant"]


@pytest.mark.requirement("core-4-10", "core-4-11", "users-2-16")
async def test_user_id_determines_tenant_without_header(
    service: app.Service, tenant_api: httpx.AsyncClient, api: httpx.AsyncClient
) -> None:
    user = await make_user(tenant_api, email="a@example.com")
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as client:
        path = f"/api/user/{user['id']}"
        assert (await client.get(path)).json()["user"]["id"] == user["id"]
        changed = await client.patch(path, json={"user": {"firstName": "Ann"}})
        assert changed.json()["user"]["tenantId"] == user["tenantId"]
        for answer in (
            await client.get("/api/user?email=a@example.com"),
            await client.get("/api/user?loginId=a@example.com"),
            await client.post("/api/user", json={"user": {"email": "b@example.com", "password": PASSWORD}}),
        ):
            assert codes(answer) == {"[TenantIdRequired]"}
        found = await client.post("/api/user/search", json={"search": {"ids": [user["id"]]}})
        assert found.json()["total"] == 1
        assert (await client.delete(path)).status_code == 200
        assert (await client.get(f"/api/user/{new_id()}")).status_code == 404


@pytest.mark.requirement("users-2-16")
async def test_users_require_api_key(http: httpx.AsyncClient, tenant_api: httpx.AsyncClient) -> None:
    user = await make_user(tenant_api)
    path = f"/api/user/{user['id']}"
    for method, where in [
        ("GET", path), ("PUT", path), ("PATCH", path), ("DELETE", path), ("POST", path), ("POST", "/api/user"),
        ("GET", "/api/user?loginId=x"), ("GET", "/api/user/search"), ("POST", "/api/user/search"),
        ("PUT", "/api/user/search"),
    ]:  # fmt: skip
        assert (await http.request(method, where, json={"user": {}})).status_code == 401


def claims_of(token: str) -> dict[str, Any]:
    return dict(json.loads(unbase64url(token.split(".")[1])))


@pytest.mark.requirement("users-2-8")
async def test_create_returns_token_with_or_without_application(tenant_api: httpx.AsyncClient) -> None:
    tenant_id = tenant_api.headers["X-FusionAuth-TenantId"]
    wanted = {"user": {"email": "a@example.com", "password": PASSWORD}}
    plain = (await tenant_api.post("/api/user", json=wanted)).json()
    claims = claims_of(plain["token"])
    assert claims["sub"] == plain["user"]["id"] and claims["tid"] == tenant_id
    assert claims["authenticationType"] == "USER_CREATE"
    assert claims["iss"] == (await tenant_api.get(f"/api/tenant/{tenant_id}")).json()["tenant"]["issuer"]
    assert not {"aud", "applicationId", "roles"} & claims.keys()
    assert plain["tokenExpirationInstant"] // 1000 == claims["exp"] == claims["iat"] + 3600
    application = (await tenant_api.post("/api/application", json={"application": {"name": "App"}})).json()
    application_id = application["application"]["id"]
    body = {"user": {"email": "b@example.com", "password": PASSWORD}, "applicationId": application_id}
    claims = claims_of((await tenant_api.post("/api/user", json=body)).json()["token"])
    assert claims["aud"] == application_id
    assert not {"applicationId", "roles"} & claims.keys()
    assert "token" not in (await tenant_api.get(f"/api/user/{plain['user']['id']}")).json()


@pytest.mark.requirement("audit-b6-defaults")
async def test_new_user_has_documented_nested_defaults(tenant_api: httpx.AsyncClient) -> None:
    """Terraform compares them with what its configuration leaves out."""
    user = (
        await tenant_api.post("/api/user", json={"user": {"email": "defaults@example.com", "password": PASSWORD}})
    ).json()["user"]
    wanted = {
        "active": True, "data": {}, "memberships": [], "passwordChangeRequired": False, "preferredLanguages": [],
        "registrations": [], "twoFactor": {"methods": [], "recoveryCodes": []}, "usernameStatus": "ACTIVE",
    }  # fmt: skip
    assert {name: user.get(name) for name in wanted} == wanted
