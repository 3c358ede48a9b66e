"""POST /api/user/import: what an import may bring, what stands in its way, and that it is all or nothing."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import bcrypt
import httpx
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC

from identity.domain import passwords
from identity.ids import new_id

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
BCRYPT_SALT, BCRYPT_HASH = bcrypt_parts()
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
                 "password": passwords._SCHEMES["argon2id"].derive(P, SALT, 1)},
}  # fmt: skip


def codes(answer: httpx.Response) -> dict[str, str]:
    """Field to its code, or the general code to itself."""
    assert answer.status_code == 400, answer.text
    body = answer.json()
    found = {field: entries[0]["code"] for field, entries in body.get("fieldErrors", {}).items()}
    return found | {entry["code"]: entry["code"] for entry in body.get("generalErrors", [])}


def somebody(**members: Any) -> Document:
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


async def test_user_of_every_scheme_logs_in_afterwards(tenant_api) -> None:
    assert SCHEMES.keys() == passwords.SCHEMES
    users = {scheme: somebody(encryptionScheme=scheme, **SCHEMES[scheme]) for scheme in SCHEMES}
    answer = await import_users(tenant_api, *users.values())
    assert (answer.status_code, answer.content) == (200, b"")
    for scheme, user in users.items():
        assert await log_in(tenant_api, user) in {200, 202}, scheme
        assert await log_in(tenant_api, user, PASSWORD + "x") == 404, scheme
        assert (await stored(tenant_api, email=user["email"]))["encryptionScheme"] == scheme


async def test_user_without_a_salt_of_before_has_an_empty_one(tenant_api) -> None:
    user = somebody(encryptionScheme="salted-md5", factor=1, salt="", password=b64(hashlib.md5(P).digest()))
    assert (await import_users(tenant_api, user)).status_code == 200
    assert await log_in(tenant_api, user) in {200, 202}


async def test_password_in_plain_text_is_hashed_by_the_scheme_of_the_request_or_of_the_tenant(tenant_api) -> None:
    change = {"passwordEncryptionConfiguration": {"encryptionScheme": "salted-sha256", "encryptionSchemeFactor": 2}}
    assert (await tenant_api.patch(f"/api/tenant/{tenant_api.headers['X-FusionAuth-TenantId']}",
                                   json={"tenant": change})).status_code == 200  # fmt: skip
    one, other, brought = somebody(password=PASSWORD), somebody(password="x"), somebody(**CHEAP, **SCHEMES_HMAC)
    assert (await import_users(tenant_api, one, brought, **CHEAP)).status_code == 200
    assert (await import_users(tenant_api, other)).status_code == 200
    found = [(await stored(tenant_api, email=user["email"]))["encryptionScheme"] for user in (one, brought, other)]
    assert found == ["salted-hmac-sha256", "salted-hmac-sha256", "salted-sha256"]
    assert await log_in(tenant_api, one) in {200, 202}
    assert await log_in(tenant_api, brought) in {200, 202}
    assert await log_in(tenant_api, other, "x") in {200, 202}, "no rule judges an imported password"


SCHEMES_HMAC = {name: SCHEMES["salted-hmac-sha256"][name] for name in ("salt", "password")}
