"""An export of Keycloak 26, and many users of its form: password, one-time password and passkey, and what is reported.

`keycloak/acme-realm.json` was exported by Keycloak 26.4 (without the parts of a realm that no import reads, and without
its keys): its users registered their devices on its pages. `keycloak/devices.json` has the secrets of those devices.
IDENTITY_MIGRATION_USERS sets the number of generated users.
"""

from __future__ import annotations

import base64
import copy
import json
import os
import urllib.parse
from pathlib import Path
from typing import Any

import argon2
import httpx
import pytest
from cryptography.hazmat.primitives import serialization

from identity.domain.two_factor import totp
from identity.ids import base64url, new_id
from identity.instants import Instant
from tests import relying_party
from tests.authenticator import Passkey
from tests.cli.test_import import created, reasons, write

DATA = Path(__file__).parent / "keycloak"
PASSWORD = "the password elsewhere"
USERS = int(os.environ.get("IDENTITY_MIGRATION_USERS", "45"))
PASSKEYS = {
    "enabled": True,
    "relyingPartyId": "localhost",
    "bootstrapWorkflow": {"enabled": True},
    "reauthenticationWorkflow": {"enabled": True},
}

Document = dict[str, Any]


def load(name: str) -> Any:
    return json.loads((DATA / name).read_text())


def code(device: Document, now: Instant) -> str:
    """What an authenticator app shows that got Keycloak's secret: the characters of the secret are the key."""
    step = now // 1000 // device["timeStep"]
    return totp.code(device["secret"].encode(), step, device["algorithm"], device["codeLength"])


def passkey(device: Document, origin: str) -> Passkey:
    """The passkey of a device."""
    raw = base64.urlsafe_b64decode(device["id"] + "==")
    made = Passkey(origin=origin, relying_party="localhost", credential_id=raw, user_handle=device["userHandle"])
    made.key = serialization.load_der_private_key(base64.b64decode(device["pkcs8"]), None)
    return made


async def log_in(api: httpx.AsyncClient, login_id: str, password: str = PASSWORD) -> httpx.Response:
    return await api.post("/api/login", json={"loginId": login_id, "password": password})


async def log_in_with_code(api: httpx.AsyncClient, login_id: str, device: Document, now: Instant) -> httpx.Response:
    challenge = await log_in(api, login_id)
    assert challenge.status_code == 242, challenge.text
    body = {"twoFactorId": challenge.json()["twoFactorId"], "code": code(device, now)}
    return await api.post("/api/two-factor/login", json=body)


async def log_in_with_passkey(
    api: httpx.AsyncClient, application_id: str, user_id: str, device: Passkey
) -> httpx.Response:
    start = {"applicationId": application_id, "userId": user_id, "workflow": "bootstrap"}
    begun = await api.post("/api/webauthn/start", json=start)
    assert begun.status_code == 200, begun.text
    return await api.post("/api/webauthn/login", json=device.get(begun.json()["options"]))


@pytest.fixture
async def prepared(tenant: Document, tenant_api: httpx.AsyncClient) -> Document:
    """A tenant that accepts passkeys and rehashes passwords."""
    settings = {
        "webAuthnConfiguration": PASSKEYS,
        "passwordEncryptionConfiguration": {**relying_party.CHEAP, "modifyEncryptionSchemeOnLogin": True},
    }
    answer = await tenant_api.patch(f"/api/tenant/{tenant['id']}", json={"tenant": settings})
    assert answer.status_code == 200, answer.text
    return tenant


async def found(api: httpx.AsyncClient, path: str, name: str) -> Any:
    answer = await api.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()[name]


async def assert_credentials_work(
    api: httpx.AsyncClient, ids: dict[str, str], application_id: str, origin: str, clock: Any
) -> None:
    devices = load("devices.json")
    names = [name for name in ids if not name.startswith("service-account")]
    statuses = {name: (await log_in(api, name)).status_code for name in names}
    assert statuses == {
        **dict.fromkeys(("user2", "user3", "user6", "user7"), 200),
        **dict.fromkeys(("user1", "user4", "user5"), 242),
        **dict.fromkeys(("user8", "user11"), 423),
        "user9": 203,
        "user10": 404,
    }
    assert (await log_in(api, "user2", PASSWORD + "x")).status_code == 404
    user = await found(api, f"/api/user/{ids['user2']}", "user")
    assert user["encryptionScheme"] == relying_party.CHEAP["encryptionScheme"], "the login has rehashed the password"
    for name, device in devices["otp"].items():
        answer = await log_in_with_code(api, f"{name}@example.com", device, clock.now())
        assert answer.status_code == 200, (name, answer.text)
    for name in ("user2", "user6"):
        device = passkey(devices["passkeys"][name], origin)
        answer = await log_in_with_passkey(api, application_id, ids[name], device)
        assert answer.status_code in {200, 202}, (name, answer.text)
    (second_factor,) = await found(api, f"/api/webauthn?userId={ids['user5']}", "credentials")
    assert second_factor["authenticatorSupportsUserVerification"] is False


async def assert_users_are_complete(api: httpx.AsyncClient, ids: dict[str, str], shop: str) -> None:
    three = await found(api, f"/api/user/{ids['user3']}", "user")
    assert {one["applicationId"]: sorted(one["roles"]) for one in three["registrations"]} == {shop: ["buyer", "seller"]}
    assert three["data"] == {"keycloak": {"realmRoles": ["merchant"]}}
    (link,) = await found(api, f"/api/identity-provider/link?userId={ids['user3']}", "identityProviderLinks")
    assert (link["identityProviderUserId"], link["displayName"]) == ("c-17", "three@corp.example.com")
    locked = await found(api, f"/api/user/{ids['user11']}", "user")
    attributes = {"disabledReason": ["permanentLockout"]}
    assert (locked["active"], locked["data"]["keycloak"]["attributes"]) == (False, attributes)


async def tokens_of(client: Document, browser: httpx.AsyncClient, http: httpx.AsyncClient) -> Document:
    """The tokens of a relying party that has changed nothing but the issuer."""
    redirect_uri = "https://shop.example.com/callback"
    query = {"client_id": client["clientId"], "redirect_uri": redirect_uri, "response_type": "code", "scope": "openid"}
    form = relying_party.page(await browser.get("/oauth2/authorize", params=query)).forms[0]
    filled = {**form["fields"], "loginId": "user2@example.com", "password": PASSWORD}
    answer = await browser.post(form["action"], data=filled)
    given = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(answer.headers["Location"]).query))
    assert "code" in given, answer.headers["Location"]
    grant = {"grant_type": "authorization_code", "code": given["code"], "redirect_uri": redirect_uri}
    tokens = await http.post("/oauth2/token", data=grant, auth=(client["clientId"], client["secret"]))
    assert tokens.status_code == 200, tokens.text
    return dict(tokens.json())


def assert_everything_else_is_reported(report: Document) -> None:
    assert reasons(report, "application") == {
        "https://api.example.com/": "it only accepts tokens, and needs no application here",
        "legacy-saml": "its protocol is saml",
    }
    assert reasons(report, "redirect URL").keys() == {"shop-web: https://shop.example.com/*"}
    assert reasons(report, "realm role").keys() == {"staff", "merchant"}
    assert reasons(report, "required action").keys() == {"user7: UPDATE_PROFILE"}
    assert reasons(report, "service account").keys() == {"batch-job"}
    assert reasons(report, "grant").keys() == {"tv: urn:ietf:params:oauth:grant-type:device_code"}
    assert {one["kind"] for one in report["skipped"]} == {
        *("application", "grant", "identity provider", "realm role", "redirect URL", "required action"),
        *("service account", "setting", "user", "web origins"),
    }


@pytest.mark.requirement("migrate-3", "migrate-4")
async def test_export_of_keycloak(identity, service, prepared, tenant_api, browser, http, clock) -> None:
    """Its users keep passwords, devices, roles and links; its relying parties keep client_id and secret."""
    provider = {
        "type": "OpenIDConnect",
        "name": "Corporate",
        "oauth2": {"client_id": "x", "issuer": "https://a.example"},
    }
    provider["oauth2"] |= {"authorization_endpoint": "https://a.example/a", "token_endpoint": "https://a.example/t"}
    provider["oauth2"] |= {"userinfo_endpoint": "https://a.example/u", "client_secret": "s"}
    made = await tenant_api.post("/api/identity-provider", json={"identityProvider": {**provider, "enabled": True}})
    assert made.status_code == 200, made.text
    arguments = ("import", "keycloak", str(DATA / "acme-realm.json"), "--tenant", prepared["id"], "--json")
    arguments = (*arguments, "--relying-party-id", "localhost")
    planned = (await identity(*arguments, "--dry-run")).json
    assert planned["created"] == created(application=4, group=2, user=11, passkey=3, link=1)
    assert {"kind": "passkey", "name": "user2@example.com: Laptop"} in planned["objects"]
    done = (await identity(*arguments)).json
    assert (done["created"], done["skipped"], done["objects"]) == (
        planned["created"],
        planned["skipped"],
        planned["objects"],
    )

    exported = load("acme-realm.json")
    ids = {user["username"]: user["id"] for user in exported["users"]}
    clients = {client["clientId"]: client for client in exported["clients"]}
    await assert_credentials_work(tenant_api, ids, clients["shop-web"]["id"], service.base_url, clock)
    await assert_users_are_complete(tenant_api, ids, clients["shop-web"]["id"])
    tokens = await tokens_of(clients["shop-web"], browser, http)
    assert relying_party.claims(tokens["id_token"])["aud"] == "shop-web"
    assert_everything_else_is_reported(done)

    before = await found(tenant_api, f"/api/user/{ids['user8']}", "user")
    again = (await identity(*arguments)).json
    assert again["created"] == created()
    assert set(reasons(again, "user").values()) == {"exists already", "it is the service account of a client"}
    assert await found(tenant_api, f"/api/user/{ids['user8']}", "user") == before, "a disabled user is unchanged"


def generated(count: int, origin: str) -> tuple[Document, dict[str, Document], dict[str, Passkey]]:
    """An export of so many users: each has a password, a third also a one-time password, another third a passkey."""
    template = next(user for user in load("acme-realm.json")["users"] if user["username"] == "user2")
    hasher = argon2.PasswordHasher(time_cost=5, memory_cost=7168, parallelism=1)
    unique, users = new_id()[:8], []
    devices: dict[str, Document] = {}
    passkeys: dict[str, Passkey] = {}
    for number in range(count):
        user = copy.deepcopy(template)
        name = f"many{number}-{unique}"
        user |= {"id": new_id(), "username": name, "email": f"{name}@example.com", "groups": [], "clientRoles": {}}
        password, other = user["credentials"]
        salt, hashed = hasher.hash(PASSWORD).split("$")[-2:]
        secret = {"value": padded(hashed), "salt": padded(salt), "additionalParameters": {}}
        user["credentials"] = [password | {"secretData": json.dumps(secret)}]
        if number % 3 == 1:
            device = devices[user["email"]] = {
                "secret": new_id()[:20],
                "timeStep": 30,
                "codeLength": (6, 8)[number % 2],
                "algorithm": ("HmacSHA1", "HmacSHA256", "HmacSHA512")[number % 9 // 3],
            }
            settings = {"subType": "totp", "counter": 0, "period": 30, "digits": device["codeLength"]}
            data = json.dumps({**settings, "algorithm": device["algorithm"]})
            secret_data = json.dumps({"value": device["secret"]})
            user["credentials"].append({"type": "otp", "secretData": secret_data, "credentialData": data})
        if number % 3 == 2:
            handle = base64url(user["id"].encode())
            made = passkeys[user["id"]] = Passkey(origin=origin, relying_party="localhost", user_handle=handle)
            data = json.loads(other["credentialData"])
            data |= {"credentialId": base64.b64encode(made.credential_id).decode()}
            data |= {"credentialPublicKey": base64url(made.cose())}
            user["credentials"].append(other | {"credentialData": json.dumps(data)})
        users.append(user)
    realm = load("acme-realm.json")
    policies = {name: value for name, value in realm.items() if name.startswith("webAuthn")}
    return {**policies, "realm": "many", "clients": [], "roles": {}, "users": users}, devices, passkeys


def padded(text: str) -> str:
    return text + "=" * (-len(text) % 4)


@pytest.mark.requirement("migrate-3")
async def test_every_user_of_an_export_logs_in(identity, service, prepared, api, tenant_api, clock, tmp_path) -> None:
    party = await relying_party.make(api, tenant=prepared)
    export, devices, passkeys = generated(USERS, service.base_url)
    arguments = ("import", "keycloak", *write(tmp_path, export), "--tenant", prepared["id"], "--json")
    done = (await identity(*arguments, "--relying-party-id", "localhost")).json
    assert done["created"] == created(user=USERS, passkey=len(passkeys))
    assert {one["kind"] for one in done["skipped"]} <= {"application"}
    logged_in = {"password": 0, "code": 0, "passkey": 0}
    for user in export["users"]:
        answer = await log_in(tenant_api, user["email"])
        logged_in["password"] += answer.status_code in {200, 202, 242}
        if user["email"] in devices:
            answer = await log_in_with_code(tenant_api, user["email"], devices[user["email"]], clock.now())
            logged_in["code"] += answer.status_code in {200, 202}
        if user["id"] in passkeys:
            answer = await log_in_with_passkey(tenant_api, party.client_id, user["id"], passkeys[user["id"]])
            logged_in["passkey"] += answer.status_code in {200, 202}
    assert logged_in == {"password": USERS, "code": len(devices), "passkey": len(passkeys)}


@pytest.mark.requirement("migrate-4")
async def test_interrupted_import_is_completed_until_the_user_logs_in(
    identity, service, prepared, tenant_api, tmp_path
) -> None:
    export, _, passkeys = generated(3, service.base_url)
    user_id = next(iter(passkeys))
    arguments = ("import", "keycloak", *write(tmp_path, export), "--tenant", prepared["id"], "--json")
    arguments = (*arguments, "--relying-party-id", "localhost")
    assert (await identity(*arguments)).json["created"] == created(user=3, passkey=1)
    for expected in (1, 0):
        if expected:
            assert (await tenant_api.delete(f"/api/webauthn?userId={user_id}")).status_code == 200
        for extra in ("--dry-run",), ():
            assert (await identity(*arguments, *extra)).json["created"] == created(passkey=expected)
    user = next(user for user in export["users"] if user["id"] == user_id)
    assert (await log_in(tenant_api, user["email"])).status_code == 200
    assert (await tenant_api.delete(f"/api/webauthn?userId={user_id}")).status_code == 200
    again = (await identity(*arguments)).json
    assert again["created"] == created()
    assert set(reasons(again, "passkey").values()) == {"the user exists and has logged in"}


@pytest.mark.requirement("migrate-4")
async def test_taken_client_ids_and_login_ids_of_disabled_users(identity, prepared, tenant_api, tmp_path) -> None:
    """A second realm has a client with a client_id in use, and a user with the email of a deactivated one."""
    name, disabled = f"app-{new_id()}", await relying_party.make_user(tenant_api, prepared["id"])
    assert (await tenant_api.delete(f"/api/user/{disabled['id']}")).status_code == 200
    taken = {"application": {"name": new_id(), "oauthConfiguration": {"clientId": name}}}
    assert (await tenant_api.post("/api/application", json=taken)).status_code == 200
    client = {"id": new_id(), "clientId": name, "redirectUris": ["/callback"], "rootUrl": "https://app.example.com/"}
    uuid_client = {"id": new_id(), "clientId": new_id(), "redirectUris": []}
    realm = {
        "clients": [client, uuid_client],
        "roles": {},
        "users": [{"id": new_id(), "username": new_id(), "email": disabled["email"]}],
    }
    files = write(tmp_path, realm)
    done = (await identity("import", "keycloak", *files, "--tenant", prepared["id"], "--json")).json
    assert done["created"] == created(application=2)
    assert reasons(done, "user") == {disabled["email"]: "exists already"}
    assert client["id"] in reasons(done, "client_id")[name]
    oauth = (await found(tenant_api, f"/api/application/{client['id']}", "application"))["oauthConfiguration"]
    assert oauth["clientId"] == client["id"]
    assert oauth["authorizedRedirectURLs"] == ["https://app.example.com/callback"]
    assert await found(tenant_api, f"/api/application/{uuid_client['clientId']}", "application")
