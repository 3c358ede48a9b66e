"""identity import: users of other products log in with their passwords; dry run, repetition, and what is skipped."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import bcrypt
import pytest

from identity.ids import new_id

PASSWORD = "the password elsewhere"
SALT = b"0123456789abcdef"


def pbkdf2(digest: str, size: int) -> str:
    return base64.b64encode(hashlib.pbkdf2_hmac(digest, PASSWORD.encode(), SALT, 100, size)).decode()


def credential(algorithm: str, value: str, **parameters: list[str]) -> dict[str, Any]:
    """A password credential as Keycloak exports it."""
    secret = {"value": value, "salt": base64.b64encode(SALT).decode(), "additionalParameters": {}}
    settings = {"hashIterations": 100, "algorithm": algorithm, "additionalParameters": parameters}
    return {"type": "password", "secretData": json.dumps(secret), "credentialData": json.dumps(settings)}


def realm() -> dict[str, Any]:
    """A realm export with names of its own."""
    name = new_id()[:8]
    client_id, group_id = new_id(), new_id()
    argon2 = {"hashLength": ["32"], "memory": ["7168"], "parallelism": ["1"], "type": ["id"], "version": ["1.3"]}
    users = {
        "sha256-64": [credential("pbkdf2-sha256", pbkdf2("sha256", 64))],
        "sha256-32": [credential("pbkdf2-sha256", pbkdf2("sha256", 32))],
        "sha512": [credential("pbkdf2-sha512", pbkdf2("sha512", 64))],
        "argon2": [credential("argon2", base64.b64encode(b"x" * 32).decode(), **{**argon2, "memory": ["1048576"]})],
        "sha1": [credential("pbkdf2", pbkdf2("sha1", 64))],
        "otp": [credential("pbkdf2-sha512", pbkdf2("sha512", 64)), {"type": "otp"}],
        "none": [],
    }
    return {
        "realm": "acme",
        "clients": [
            {"id": new_id(), "clientId": "account", "redirectUris": ["/realms/acme/account/*"]},
            {
                "id": client_id,
                "clientId": f"shop-{name}",
                "secret": "a-secret-of-the-client-43-characters-long-x",
                "redirectUris": ["https://shop.example.com/callback", "https://shop.example.com/*"],
            },
            {"id": new_id(), "clientId": f"saml-{name}", "protocol": "saml"},
        ],
        "roles": {"realm": [{"name": "staff"}], "client": {f"shop-{name}": [{"name": "buyer"}, {"name": "seller"}]}},
        "groups": [{"id": group_id, "name": name, "path": f"/{name}", "subGroups": [{"name": "sub"}]}],
        "users": [
            {
                "id": new_id(),
                "username": f"{kind}-{name}",
                "email": f"{kind}-{name}@example.com",
                "enabled": True,
                "emailVerified": True,
                "firstName": "Ada",
                "createdTimestamp": 1_700_000_000_000,
                "attributes": {"locale": ["en"]},
                "credentials": credentials,
                "realmRoles": ["staff"],
                "clientRoles": {f"shop-{name}": ["buyer"], "account": ["manage-account"]},
                "groups": [f"/{name}"],
            }
            for kind, credentials in users.items()
        ]
        + [{"id": new_id(), "username": f"service-account-{name}", "serviceAccountClientId": f"shop-{name}"}],
    }


def write(tmp_path: Path, *documents: Any) -> list[str]:
    """Write each document to a JSON file, and each string as it is."""
    paths = []
    for number, document in enumerate(documents):
        path = tmp_path / f"export-{number}.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        paths.append(str(path))
    return paths


async def log_in(api: Any, login_id: str, application_id: str | None = None) -> Any:
    body = {"loginId": login_id, "password": PASSWORD}
    return await api.post(
        "/api/login", json=body if application_id is None else {**body, "applicationId": application_id}
    )


def created(**counts: int) -> dict[str, int]:
    return {**dict.fromkeys(("application", "group", "user", "passkey", "link"), 0), **counts}


def reasons(report: dict[str, Any], kind: str) -> dict[str, str]:
    return {one["name"]: one["reason"] for one in report["skipped"] if one["kind"] == kind}


@pytest.mark.requirement("ship-17")
async def test_keycloak_users_log_in_with_their_passwords(identity, tenant, tenant_api, tmp_path) -> None:
    exported = realm()
    files = write(tmp_path, exported)
    arguments = ("import", "keycloak", *files, "--tenant", tenant["id"], "--json")
    planned = (await identity(*arguments, "--dry-run")).json
    assert planned["created"] == created(application=1, group=2, user=7)
    assert (await tenant_api.get(f"/api/user/{exported['users'][0]['id']}")).status_code == 404
    done = (await identity(*arguments)).json
    assert (done["created"], done["skipped"]) == (planned["created"], planned["skipped"])
    client = exported["clients"][1]
    by_name = {user["username"].rpartition("-")[0]: user for user in exported["users"]}
    for user in [by_name[kind] for kind in ("sha256-64", "sha256-32", "sha512", "sha1")]:
        answer = await log_in(tenant_api, user["email"], client["id"])
        assert answer.status_code == 200, answer.text
        imported = answer.json()["user"]
        assert (imported["id"], imported["username"], imported["verified"]) == (user["id"], user["username"], True)
        assert imported["data"] == {"keycloak": {"attributes": {"locale": ["en"]}, "realmRoles": ["staff"]}}
        assert [one["roles"] for one in imported["registrations"]] == [["buyer"]]
        assert [one["groupId"] for one in imported["memberships"]] == [exported["groups"][0]["id"]]
    unusable = reasons(done, "password")
    name = exported["groups"][0]["name"]
    assert unusable.keys() == {f"argon2-{name}"}
    assert (await log_in(tenant_api, f"argon2-{name}@example.com")).status_code == 404
    assert reasons(done, "credential").keys() == {f"otp-{name}"}
    assert reasons(done, "application") == {f"saml-{name}": "its protocol is saml"}
    assert reasons(done, "redirect URL").keys() == {f"shop-{name}: https://shop.example.com/*"}
    application = (await tenant_api.get(f"/api/application/{client['id']}")).json()["application"]
    assert application["oauthConfiguration"]["clientSecret"] == client["secret"]
    assert application["oauthConfiguration"]["authorizedRedirectURLs"] == ["https://shop.example.com/callback"]
    assert {role["name"] for role in application["roles"]} == {"buyer", "seller"}


@pytest.mark.requirement("ship-17")
async def test_repeated_import_creates_only_what_is_missing(identity, tenant, tenant_api, tmp_path) -> None:
    exported = realm()
    arguments = ("import", "keycloak", *write(tmp_path, exported), "--tenant", tenant["id"], "--json")
    await identity(*arguments)
    missing, name = exported["users"][0], exported["groups"][0]["name"]
    assert (await tenant_api.delete(f"/api/user/{missing['id']}?hardDelete=true")).status_code == 200
    exported["users"][1]["email"] = "not an address"
    write(tmp_path, exported)
    for extra in ("--dry-run",), ():
        done = (await identity(*arguments, *extra)).json
        assert done["created"] == created(user=1)
        skipped = reasons(done, "user")
        assert skipped.pop(f"service-account-{name}") == "it is the service account of a client"
        assert len(skipped) == 6
        assert skipped.pop("not an address") == "[notEmail]user.email"
        assert set(skipped.values()) == {"exists already"}
    assert (await log_in(tenant_api, missing["email"])).status_code == 200


@pytest.mark.requirement("ship-17")
async def test_auth0_users_log_in_with_their_passwords(identity, tenant, tenant_api, tmp_path) -> None:
    name = new_id()[:8]
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    profiles = [
        {"user_id": f"auth0|{name}", "email": f"a-{name}@example.com", "email_verified": True, "given_name": "Ada",
         "created_at": "2024-01-01T00:00:00.000Z", "app_metadata": {"plan": "pro"}},
        {"user_id": f"google-oauth2|{name}", "email": f"g-{name}@example.com"},
        {"user_id": f"auth0|blocked-{name}", "email": f"b-{name}@example.com", "blocked": True},
    ]  # fmt: skip
    hashes = [
        {"_id": {"$oid": name}, "email": f"a-{name}@example.com", "passwordHash": hashed, "email_verified": True},
        {"_id": {"$oid": f"blocked-{name}"}, "email": f"b-{name}@example.com", "passwordHash": "md5:0"},
    ]
    lines = ["\n".join(map(json.dumps, rows)) for rows in (profiles, hashes)]
    apps = [{"client_id": f"client-{name}", "name": f"App {name}", "callbacks": ["https://app.example.com/callback"]}]
    files = write(tmp_path, *lines, apps)
    done = (await identity("import", "auth0", *files, "--tenant", tenant["id"], "--json")).json
    assert done["created"] == created(application=1, user=3)
    answer = await log_in(tenant_api, f"a-{name}@example.com")
    assert answer.status_code == 200, answer.text
    imported = answer.json()["user"]
    assert (imported["firstName"], imported["insertInstant"]) == ("Ada", 1_704_067_200_000)
    assert imported["data"]["auth0"] == {"user_id": f"auth0|{name}", "app_metadata": {"plan": "pro"}}
    assert reasons(done, "password") == {f"b-{name}@example.com": "the hash is neither bcrypt nor another PHC string"}
    again = (await identity("import", "auth0", *files, "--tenant", tenant["id"], "--json")).json
    assert again["created"] == created()


@pytest.mark.requirement("ship-17")
async def test_fusionauth_users_log_in_with_their_passwords(identity, tenant, tenant_api, tmp_path) -> None:
    name, application_id, group_id = new_id()[:8], new_id(), new_id()
    salt = base64.b64encode(SALT).decode()
    user = {
        "id": new_id(),
        "tenantId": new_id(),
        "email": f"{name}@example.com",
        "active": True,
        "verified": True,
        "encryptionScheme": "salted-pbkdf2-hmac-sha256",
        "factor": 100,
        "salt": salt,
        "password": pbkdf2("sha256", 32),
        "registrations": [
            {"applicationId": application_id, "roles": ["editor"]},
            {"applicationId": "3c219e58-ed0e-4b18-ad48-f4f92793ae32", "roles": ["admin"]},
        ],
        "memberships": [{"groupId": group_id}],
        "twoFactor": {"methods": [{"method": "authenticator"}]},
    }
    application = {
        "id": application_id,
        "tenantId": new_id(),
        "name": f"App {name}",
        "jwtConfiguration": {"accessTokenKeyId": new_id()},
        "oauthConfiguration": {"authorizedRedirectURLs": ["https://app.example.com/callback"]},
        "roles": [{"id": new_id(), "name": "editor"}],
    }
    export = (
        {"users": [user], "total": 1},
        {"applications": [application]},
        {"groups": [{"id": group_id, "name": name}]},
    )
    files = write(tmp_path, *export)
    done = (await identity("import", "fusionauth", *files, "--tenant", tenant["id"], "--json")).json
    assert done["created"] == created(application=1, group=1, user=1)
    assert reasons(done, "registration").keys() == {user["email"]}
    answer = await log_in(tenant_api, user["email"], application_id)
    assert answer.status_code == 200, answer.text
    assert [one["roles"] for one in answer.json()["user"]["registrations"]] == [["editor"]]


@pytest.mark.requirement("ship-17")
async def test_table_and_file_that_is_no_export(identity, tenant, tmp_path) -> None:
    files = write(tmp_path, realm(), "no JSON")
    done = await identity("import", "keycloak", files[0], "--tenant", tenant["id"], "--dry-run")
    assert done.code == 0
    assert "7 users would be created. Skipped:" in done.out
    refused = await identity("import", "keycloak", files[1], "--tenant", tenant["id"])
    assert refused.code == 1
    assert "neither JSON nor a JSON value per line" in refused.err
