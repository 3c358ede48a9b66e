"""POST /api/user/import: accepted members, errors, and atomicity."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from typing import Any

import argon2
import bcrypt
import httpx
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC

from identity import app
from identity.domain.passwords import password_hashing
from identity.ids import new_id
from identity.operations.users import user_import
from tests import internals, plain_http
from tests.conftest import DEFAULT_TENANT, SUPER_KEY, checking_client

PASSWORD = "pässwörd 🔑"
RAW_SALT = bytes(range(16))
SALT = base64.b64encode(RAW_SALT).decode()
CHEAP = {"encryptionScheme": "salted-hmac-sha256", "factor": 1}

Document = dict[str, Any]


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def repeated(digest: str, value: bytes, times: int, more: bytes = b"") -> bytes:
    for _ in range(times):
        value = hashlib.new(digest, value + more).digest()
    return value


def pbkdf2(algorithm: Any, size: int, factor: int) -> str:
    return b64(PBKDF2HMAC(algorithm, size, RAW_SALT, factor).derive(PASSWORD.encode()))


def bcrypt_parts() -> tuple[str, str]:
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    return hashed[7:29], hashed[29:]


P = PASSWORD.encode()
ONE: Document = {"users": [{"email": "a@example.com"}]}
BCRYPT_SALT, BCRYPT_HASH = bcrypt_parts()
BCRYPT_STRING = f"$2b$04${BCRYPT_SALT}{BCRYPT_HASH}"
SCHEMES: dict[str, Document] = {
    "salted-pbkdf2-hmac-sha256": {"factor": 7, "salt": SALT, "password": pbkdf2(hashes.SHA256(), 32, 7)},
    "salted-pbkdf2-hmac-sha256-512": {"factor": 7, "salt": SALT, "password": pbkdf2(hashes.SHA256(), 64, 7)},
    "salted-pbkdf2-hmac-sha512-512": {"factor": 7, "salt": SALT, "password": pbkdf2(hashes.SHA512(), 64, 7)},
    "bcrypt": {"factor": 4, "salt": BCRYPT_SALT, "password": BCRYPT_HASH},
    "salted-md5": {"factor": 3, "salt": SALT, "password": b64(repeated("md5", P + RAW_SALT, 3))},
    "salted-sha256": {"factor": 3, "salt": SALT, "password": b64(repeated("sha256", P + RAW_SALT, 3))},
    "salted-hmac-sha256": {"salt": SALT, "password": b64(hmac.digest(RAW_SALT, P, "sha256"))},
    "phpass-md5": {"factor": 8, "salt": "abcdefgh",
                   "password": b64(repeated("md5", hashlib.md5(b"abcdefgh" + P).digest(), 8, P))},
    "phpass-sha512": {"factor": 8, "salt": "abcdefgh",
                      "password": b64(repeated("sha512", hashlib.sha512(b"abcdefgh" + P).digest(), 8, P))[:43]},
    "argon2id": {"factor": 1, "salt": SALT,
                 "password": password_hashing._SCHEMES["argon2id"].derive(P, SALT, 1)},
}  # fmt: skip


def codes(answer: httpx.Response) -> dict[str, str]:
    """Field to its code, or the general code to itself."""
    assert answer.status_code == 400, answer.text
    body = answer.json()
    found = {field: entries[0]["code"] for field, entries in body.get("fieldErrors", {}).items()}
    return found | {entry["code"]: entry["code"] for entry in body.get("generalErrors", [])}


def a_user(**members: Any) -> Document:
    return {"email": f"{new_id()}@example.com", "active": True, **members}


async def import_users(api: httpx.AsyncClient, *users: Document, **members: Any) -> httpx.Response:
    return await api.post("/api/user/import", json={"users": list(users), **members})


async def stored(api: httpx.AsyncClient, **query: str) -> Document:
    answer = await api.get("/api/user", params=query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["user"])


async def count(api: httpx.AsyncClient) -> int:
    return int((await api.get("/api/user/search", params={"accurateTotal": "true"})).json()["total"])


async def log_in(api: httpx.AsyncClient, user: Document, password: str = PASSWORD) -> int:
    body = {"loginId": user["email"], "password": password}
    return (await api.post("/api/login", json=body)).status_code


@pytest.mark.requirement("users-2.1-1")
async def test_imported_user_of_every_scheme_logs_in(tenant_api) -> None:
    assert SCHEMES.keys() == password_hashing.SCHEMES
    users = {scheme: a_user(encryptionScheme=scheme, **SCHEMES[scheme]) for scheme in SCHEMES}
    answer = await import_users(tenant_api, *users.values())
    assert (answer.status_code, answer.content) == (200, b"")
    for scheme, user in users.items():
        assert await log_in(tenant_api, user) in {200, 202}, scheme
        assert await log_in(tenant_api, user, PASSWORD + "x") == 404, scheme
        assert (await stored(tenant_api, email=user["email"]))["encryptionScheme"] == scheme


@pytest.mark.requirement("migrate-1")
async def test_phc_strings_log_in_and_are_rehashed(tenant_api) -> None:
    """The parameters of a string are not those of the service: memory and passes are Keycloak's defaults."""
    hasher = argon2.PasswordHasher(time_cost=5, memory_cost=7168, parallelism=1)
    sha1 = hashlib.pbkdf2_hmac("sha1", P, RAW_SALT, 50, 64)
    strings = {
        "argon2": hasher.hash(PASSWORD),
        "sha1": f"$pbkdf2$i=50,l=64${SALT.rstrip('=')}${b64(sha1).rstrip('=')}",
        "bcrypt": bcrypt.hashpw(P, bcrypt.gensalt(4)).decode().replace("$2b$", "$2y$"),
    }
    users = {name: a_user(encryptionScheme="phc", password=text) for name, text in strings.items()}
    assert (await import_users(tenant_api, *users.values())).status_code == 200
    schemes = {
        name: (await stored(tenant_api, email=user["email"]))["encryptionScheme"] for name, user in users.items()
    }
    assert schemes == {"argon2": "phc", "sha1": "phc", "bcrypt": "bcrypt"}
    for user in users.values():
        assert await log_in(tenant_api, user, PASSWORD + "x") == 404
        assert await log_in(tenant_api, user) in {200, 202}
    change = {"passwordEncryptionConfiguration": {"modifyEncryptionSchemeOnLogin": True}}
    path = f"/api/tenant/{tenant_api.headers['X-FusionAuth-TenantId']}"
    assert (await tenant_api.patch(path, json={"tenant": change})).status_code == 200
    for _ in range(2):
        for user in users.values():
            assert await log_in(tenant_api, user) in {200, 202}
            assert (await stored(tenant_api, email=user["email"]))["encryptionScheme"] == "argon2id"


@pytest.mark.requirement("users-2.1-1")
async def test_imported_user_without_salt_has_empty_salt(tenant_api) -> None:
    user = a_user(encryptionScheme="salted-md5", factor=1, salt="", password=b64(hashlib.md5(P).digest()))
    assert (await import_users(tenant_api, user)).status_code == 200
    assert await log_in(tenant_api, user) in {200, 202}


@pytest.mark.requirement("users-2.1-1")
async def test_plain_text_password_is_hashed_by_requested_or_tenant_scheme(tenant_api) -> None:
    change = {"passwordEncryptionConfiguration": {"encryptionScheme": "salted-sha256", "encryptionSchemeFactor": 2}}
    assert (await tenant_api.patch(f"/api/tenant/{tenant_api.headers['X-FusionAuth-TenantId']}",
                                   json={"tenant": change})).status_code == 200  # fmt: skip
    one, other, brought = a_user(password=PASSWORD), a_user(password="x"), a_user(**CHEAP, **SCHEMES_HMAC)
    assert (await import_users(tenant_api, one, brought, **CHEAP)).status_code == 200
    assert (await import_users(tenant_api, other)).status_code == 200
    found = [(await stored(tenant_api, email=user["email"]))["encryptionScheme"] for user in (one, brought, other)]
    assert found == ["salted-hmac-sha256", "salted-hmac-sha256", "salted-sha256"]
    assert await log_in(tenant_api, one) in {200, 202}
    assert await log_in(tenant_api, brought) in {200, 202}
    assert await log_in(tenant_api, other, "x") in {200, 202}, "no rule judges an imported password"


SCHEMES_HMAC = {name: SCHEMES["salted-hmac-sha256"][name] for name in ("salt", "password")}


@pytest.mark.requirement("users-2.1-2")
async def test_imported_members_are_kept_and_others_derived(tenant_api) -> None:
    application = await tenant_api.post(
        "/api/application",
        json={"application": {"name": new_id(), "roles": [{"name": "admin"}, {"name": "user", "isDefault": True}]}},
    )
    application_id = application.json()["application"]["id"]
    group = (await tenant_api.post("/api/group", json={"group": {"name": new_id()}})).json()["group"]["id"]
    user_id, member_id = new_id(), new_id()
    wanted = {
        "id": user_id,
        "email": " Erlich@Example.com ",
        "username": "Erlich",
        "birthDate": "1981-06-04",
        "verified": True,
        "insertInstant": 1_331_449_200_000,
        "data": {"a": [1, {"b": None}]},
        "passwordChangeRequired": True,
        "preferredLanguages": ["en", "fr"],
        "memberships": [{"groupId": group, "id": member_id, "insertInstant": 1_331_449_200_001}],
        "registrations": [
            {"applicationId": application_id, "roles": ["admin"], "verified": True, "insertInstant": 1_331_449_200_002}
        ],
        "twoFactor": {"methods": [{"method": "authenticator", "secret": b64(bytes(20))}]},
        **CHEAP, **SCHEMES_HMAC,
    }  # fmt: skip
    assert (await import_users(tenant_api, wanted)).status_code == 200
    user = await stored(tenant_api, username="erlich")
    assert (user["id"], user["email"], user["uniqueUsername"]) == (user_id, "erlich@example.com", "Erlich")
    assert user["active"] is False, "an import has to say that a user is active"
    assert (user["insertInstant"], user["verified"], user["verifiedInstant"]) == (
        1_331_449_200_000,
        True,
        1_331_449_200_000,
    )
    assert user["data"] == {"a": [1, {}]}
    assert user["passwordChangeReason"] == "Administrative"
    assert {one["type"]: one["verifiedReason"] for one in user["identities"]} == {
        "email": "Import", "username": "Unverifiable",
    }  # fmt: skip
    (registration,) = user["registrations"]
    assert (registration["roles"], registration["verified"], registration["insertInstant"]) == (
        ["admin"], True, 1_331_449_200_002,
    )  # fmt: skip
    (member,) = user["memberships"]
    assert (member["id"], member["groupId"], member["insertInstant"]) == (member_id, group, 1_331_449_200_001)
    found = await tenant_api.get("/api/group/member/search", params={"groupId": group})
    assert [one["userId"] for one in found.json()["members"]] == [user_id]
    assert len(user["twoFactor"]["methods"][0]["id"]) == 4
    assert "private" not in user


@pytest.mark.requirement("users-2.1-3")
@pytest.mark.parametrize(
    ("members", "name", "kind"),
    [
        ({"email": "nowhere"}, "email", "notEmail"),
        ({"email": None}, "email", "blank"),
        ({"birthDate": "1981-13-01"}, "birthDate", "couldNotConvert"),
        ({"id": "x"}, "id", "couldNotConvert"),
        ({"data": 1}, "data", "invalidJSON"),
        ({"insertInstant": -1}, "insertInstant", "invalid"),
        ({"mobilePhone": "call me"}, "mobilePhone", "invalid"),
        ({"encryptionScheme": "rot13", "salt": "", "password": "x"}, "encryptionScheme", "invalid"),
        ({"encryptionScheme": "salted-md5", "password": b64(bytes(16))}, "salt", "blank"),
        ({"encryptionScheme": "salted-md5", "salt": ""}, "password", "blank"),
        ({"encryptionScheme": "salted-md5", "salt": "?", "password": b64(bytes(16))}, "salt", "invalid"),
        ({"encryptionScheme": "salted-md5", "salt": "", "password": b64(bytes(15))}, "password", "invalid"),
        ({"encryptionScheme": "salted-md5", "salt": "", "password": b64(bytes(16)), "factor": 0}, "factor", "invalid"),
        ({"encryptionScheme": "bcrypt", "salt": BCRYPT_SALT, "password": BCRYPT_HASH[1:]}, "password", "invalid"),
        ({"encryptionScheme": "argon2id", "salt": "", "password": b64(bytes(32))}, "salt", "invalid"),
        ({"encryptionScheme": "phc"}, "password", "blank"),
        ({"encryptionScheme": "phc", "password": "${0}$1$AAAA$AAAA"}, "password", "invalid"),
        ({"encryptionScheme": "phc", "password": BCRYPT_STRING, "salt": ""}, "salt", "invalid"),
        ({"encryptionScheme": "phc", "password": BCRYPT_STRING, "factor": 4}, "factor", "invalid"),
        ({"password": "x" * 5000}, "password", "tooLong"),
        ({"registrations": [{"applicationId": DEFAULT_TENANT}]}, "registrations[0].applicationId", "invalid"),
        ({"registrations": [{}]}, "registrations[0].applicationId", "missing"),
        ({"memberships": [{"groupId": DEFAULT_TENANT}]}, "memberships[0].groupId", "invalid"),
        ({"tenantId": DEFAULT_TENANT}, "tenantId", "invalid"),
    ],
)
async def test_invalid_row_is_named_and_nothing_is_imported(tenant_api, members, name, kind) -> None:
    answer = await import_users(tenant_api, a_user(), a_user(**members), **CHEAP)
    code = "[invalidJSON]" if kind == "invalidJSON" else f"[{kind}]users.{name}"
    assert codes(answer)[f"users[1].{name}"] == code
    assert await count(tenant_api) == 0


@pytest.mark.requirement("users-2.1-3")
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, {"users": "[missing]users"}),
        ({"users": []}, {"users": "[empty]users"}),
        ({"users": {}}, {"users": "[invalidJSON]"}),
        ({"users": [5]}, {"users[0]": "[invalidJSON]"}),
        ({"users": [None]}, {"users[0]": "[missing]users"}),
        ({**ONE, "encryptionScheme": "phc"}, {"encryptionScheme": "[invalid]encryptionScheme"}),
        ({**ONE, "encryptionScheme": "rot13"}, {"encryptionScheme": "[invalid]encryptionScheme"}),
        ({**ONE, "encryptionScheme": "bcrypt", "factor": 99}, {"factor": "[invalid]factor"}),
        ({**ONE, "validateDbConstraints": "perhaps"}, {"validateDbConstraints": "[invalidJSON]"}),
    ],
)  # fmt: skip
async def test_invalid_requests(tenant_api, body, expected) -> None:
    assert codes(await tenant_api.post("/api/user/import", json=body)) == expected
    assert await count(tenant_api) == 0


@pytest.mark.requirement("users-2.1-3")
async def test_too_many_users_or_errors_end_validation(tenant_api) -> None:
    many = {"users": [{"email": "a@example.com"}] * 10_001}
    assert codes(await tenant_api.post("/api/user/import", json=many)) == {"users": "[tooMany]users"}
    bad = await tenant_api.post("/api/user/import", json={"users": [{"email": "x"}] * 5000})
    assert len(codes(bad)) == 100


@pytest.mark.requirement("users-2.1-4")
@pytest.mark.parametrize("kind", ["email", "username", "id", "twice"])
async def test_duplicates_abort_import_and_are_named_on_request(service: app.Service, tenant_api, kind) -> None:
    first = a_user(id=new_id(), username=new_id())
    assert (await import_users(tenant_api, first)).status_code == 200
    other = a_user(id=new_id(), username=new_id())
    if kind == "twice":
        users = [other, a_user(), a_user(email=other["email"].upper())]
    else:
        users = [a_user(), other, {**other, **a_user(), "id": new_id(), "username": new_id(), kind: first[kind]}]
    field = "email" if kind == "twice" else kind
    answer = await import_users(tenant_api, *users, validateDbConstraints=True)
    assert codes(answer) == {f"users[2].{field}": f"[duplicate]users.{field}"}
    headers = dict(tenant_api.headers)
    async with plain_http.client(service.base_url, headers=headers) as plain:
        answer = await plain.post("/api/user/import", json={"users": users})
    assert (answer.status_code, answer.content) == (500, b"")
    assert await count(tenant_api) == 1, "nothing was imported"


@pytest.mark.requirement("users-2.1-4")
async def test_concurrent_duplicate_rolls_import_back(service, tenant_api, monkeypatch) -> None:
    users = [a_user() for _ in range(4)]
    insert = internals.store(service, "users").insert_encoded
    monkeypatch.setattr(user_import, "_BATCH", 2)
    written = []

    async def insert_after_conflict(packed: Any) -> None:
        if written:
            await tenant_api.post("/api/user", json={"user": {**users[3], "password": PASSWORD, **CHEAP}})
        written.append(len(packed))
        await insert(packed)

    monkeypatch.setattr(internals.store(service, "users"), "insert_encoded", insert_after_conflict)
    answer = await import_users(tenant_api, *users, validateDbConstraints=True)
    assert codes(answer) == {"users[3].email": "[duplicate]users.email"}
    assert written == [2, 2]
    assert await count(tenant_api) == 1
    journal = internals.database(service).collection("user_imports")
    assert await journal.count_documents({}) == 0


@pytest.mark.requirement("users-2.1-4")
async def test_import_of_killed_process_is_rolled_back_by_another(service, tenant_api, clock, monkeypatch) -> None:
    imports, users = internals.store(service, "user_imports"), [a_user(), a_user()]

    async def killed(*_arguments: Any) -> bool:
        raise asyncio.CancelledError

    with monkeypatch.context() as patched:
        patched.setattr(imports, "finish", killed)
        patched.setattr(imports, "begin_rollback", killed)
        headers = dict(tenant_api.headers)
        async with plain_http.client(service.base_url, headers=headers, timeout=30) as plain:
            await plain.post("/api/user/import", json={"users": users})
    assert await count(tenant_api) == 2, "they are there, and no import continues with them"
    await internals.run(service, user_import.undo_abandoned)
    assert await count(tenant_api) == 2, "they may still be going on"
    clock.advance(seconds=121)
    await internals.run(service, user_import.undo_abandoned)
    assert await count(tenant_api) == 0
    assert (await import_users(tenant_api, *users)).status_code == 200


@pytest.mark.requirement("users-2.1-4")
async def test_of_two_concurrent_equal_imports_one_succeeds(service, tenant_api) -> None:
    users = [a_user() for _ in range(20)]
    headers = dict(tenant_api.headers)
    async with plain_http.client(service.base_url, headers=headers) as plain:
        answers = await asyncio.gather(*(plain.post("/api/user/import", json={"users": users}) for _ in range(4)))
    assert sorted(answer.status_code for answer in answers)[1:] == [500, 500, 500]
    assert await count(tenant_api) in {0, 20}, "all of them or none"


@pytest.mark.requirement("users-2.1-5")
async def test_tenant_may_be_given_per_user(service: app.Service, api, tenant_api) -> None:
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as everywhere:
        answer = await import_users(everywhere, a_user())
        assert codes(answer) == {"users[0].tenantId": "[missing]users.tenantId"}
        own = tenant_api.headers["X-FusionAuth-TenantId"]
        user = a_user(tenantId=own, id=new_id())
        assert (await import_users(everywhere, user)).status_code == 200
    assert (await tenant_api.get(f"/api/user/{user['id']}")).status_code == 200
    assert (await api.get(f"/api/user/{user['id']}")).status_code == 404


@pytest.mark.requirement("users-2.1-7")
async def test_large_body_is_accepted_for_authorized_import_only(service: app.Service, tenant_api) -> None:
    users = [a_user(data={"x": "y" * 200_000}) for _ in range(8)]
    assert (await import_users(tenant_api, *users)).status_code == 200
    large = {"user": a_user(data={"x": "y" * 2_000_000})}
    assert (await tenant_api.post("/api/user", json=large)).status_code == 413
    async with checking_client(service.base_url) as anonymous:
        assert (await anonymous.post("/api/user/import", json={"users": users})).status_code == 413
    one = await tenant_api.post("/api/user/import", json={"users": [large["user"]]})
    assert codes(one) == {"[invalidJSON]": "[invalidJSON]"}


@pytest.mark.requirement("users-2.1-7")
async def test_import_body_is_limited_by_configuration(build) -> None:
    """Both ways of sending one: with a content length, and chunked."""
    limit = 8 * 2**20

    def sized(size: int, email: str) -> bytes:
        users = [{"email": email, "data": {"x": ""}}]
        users += [{"email": f"{new_id()}@example.com", "data": {"x": "y" * 200_000}} for _ in range(40)]
        body = json.dumps({"users": users}).encode()
        hole = body.index(b'"x": ""') + len(b'"x": "')
        return body[:hole] + b"y" * (size - len(body)) + body[hole:]

    async with build(server__max_import_bytes=limit) as service:
        headers = {
            "Authorization": SUPER_KEY,
            "Content-Type": "application/json",
            "X-FusionAuth-TenantId": DEFAULT_TENANT,
        }
        async with checking_client(service.base_url, headers=headers) as client:

            async def send(size: int, email: str, *, in_pieces: bool) -> httpx.Response:
                body = sized(size, email)
                assert len(body) == size

                async def pieces() -> AsyncIterator[bytes]:
                    for start in range(0, len(body), 2**18):
                        yield body[start : start + 2**18]

                return await client.post("/api/user/import", content=pieces() if in_pieces else body)

            for in_pieces in (False, True):
                small, large = f"{new_id()}@example.com", f"{new_id()}@example.com"
                answer = await send(limit, small, in_pieces=in_pieces)
                assert answer.status_code == 200, answer.text
                refused = await send(limit + 1, large, in_pieces=in_pieces)
                assert refused.status_code == 413
                message = f"The request body is larger than {limit} bytes."
                assert refused.json() == {"generalErrors": [{"code": "[TooLarge]", "message": message}]}
                assert (await client.get("/api/user", params={"email": small})).status_code == 200
                assert (await client.get("/api/user", params={"email": large})).status_code == 404


@pytest.mark.requirement("users-2.1-7")
async def test_attack_45_import_of_ten_thousand_users_does_not_block_others(service: app.Service, tenant_api) -> None:
    """The import yields to the event loop after every short step."""
    users = [{"email": f"{index}@example.com", "data": {"index": index}} for index in range(3000)]
    loop, turns = asyncio.get_running_loop(), 0

    def turn() -> None:
        nonlocal turns
        turns += 1
        loop.call_soon(turn) if turns < 10**7 and not importing.done() else None

    importing = asyncio.create_task(import_users(tenant_api, *users))
    loop.call_soon(turn)
    assert (await importing).status_code == 200
    assert turns > 200
    assert await count(tenant_api) == 3000


@pytest.mark.requirement("users-2.1-8")
async def test_refresh_tokens_are_imported_and_used(service: app.Service, tenant_api) -> None:
    settings = {"generateRefreshTokens": True, "allowTokenRefresh": True}
    oauth = {"clientAuthenticationPolicy": "NotRequired", "enabledGrants": ["refresh_token", "authorization_code"]}
    wanted = {"name": new_id(), "loginConfiguration": settings, "oauthConfiguration": oauth}
    application_id = (await tenant_api.post("/api/application", json={"application": wanted})).json()["application"][
        "id"
    ]
    user = a_user(id=new_id(), registrations=[{"applicationId": application_id}])
    stranger = a_user(id=new_id())
    assert (await import_users(tenant_api, user, stranger)).status_code == 200
    own = {"applicationId": application_id, "userId": user["id"]}
    one, other = {**own, "token": new_id()}, {**own, "token": new_id(), "startInstant": 1_700_000_000_000}
    one["metaData"] = {"device": {"name": "Phone"}, "scopes": ["offline_access"]}

    async def bring(*tokens: Document, **members: Any) -> httpx.Response:
        body = {"refreshTokens": list(tokens), **members}
        return await tenant_api.post("/api/user/refresh-token/import", json=body)

    assert codes(await bring(one, {**other, "userId": DEFAULT_TENANT})) == {
        "refreshTokens[1].userId": "[invalid]refreshTokens.userId"
    }
    assert codes(await bring(one, {**other, "userId": stranger["id"]})) == {
        "refreshTokens[1].applicationId": "[invalid]refreshTokens.applicationId"
    }
    assert codes(await bring({**own})) == {"refreshTokens[0].token": "[blank]refreshTokens.token"}
    assert codes(await bring()) == {"refreshTokens": "[empty]refreshTokens"}
    twice = await bring(one, one, validateDbConstraints=True)
    assert codes(twice) == {"refreshTokens[1].token": "[duplicate]refreshTokens.token"}
    found = await tenant_api.get("/api/jwt/refresh", params={"userId": user["id"]})
    assert found.json().get("refreshTokens", []) == [], "nothing of all that was imported"

    answer = await bring(one, {**own, "token": new_id(), "insertInstant": 1_000_000_000_000})
    assert (answer.status_code, answer.content) == (200, b"")
    again = await bring(one, validateDbConstraints=True)
    assert codes(again) == {"refreshTokens[0].token": "[duplicate]refreshTokens.token"}
    headers = dict(tenant_api.headers)
    async with plain_http.client(service.base_url, headers=headers) as plain:
        repeated = await plain.post("/api/user/refresh-token/import", json={"refreshTokens": [one]})
    assert (repeated.status_code, repeated.content) == (500, b"")
    (live,) = (await tenant_api.get("/api/jwt/refresh", params={"userId": user["id"]})).json()["refreshTokens"]
    assert (live["token"], live["metaData"]["device"]["name"]) == (one["token"], "Phone"), "the old one has expired"
    refreshed = await tenant_api.post("/api/jwt/refresh", json={"refreshToken": one["token"]})
    assert refreshed.status_code == 200, refreshed.text
    tenant_id = tenant_api.headers["X-FusionAuth-TenantId"]
    form = {"grant_type": "refresh_token", "refresh_token": one["token"], "client_id": application_id}
    async with plain_http.client(service.base_url) as client:
        answer = await client.post("/oauth2/token", data={**form, "tenantId": tenant_id})
    assert answer.status_code == 200, answer.text
    assert answer.json()["userId"] == user["id"]
