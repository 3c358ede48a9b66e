"""The cost of password hashes that a caller may choose: hashing takes CPU time of the whole instance."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests import relying_party
from tests.conftest import SUPER_KEY, checking_client
from tests.members import codes

Document = dict[str, Any]
BCRYPT_HASH = {"password": "a" * 31, "salt": "abcdefghijklmnopqrstuu", "encryptionScheme": "bcrypt"}


def user(**members: Any) -> Document:
    return {"email": f"{new_id()}@example.com", "password": relying_party.PASSWORD, **members}


@pytest.fixture(params=["tenant", "single permission"])
async def lesser(request, service, manager, tenant):
    """A client with a key of one tenant, or with an instance-wide key for users and tenants only."""
    endpoints = {"/api/user": ["POST", "PUT", "PATCH"], "/api/user/import": ["POST"], "/api/tenant": ["PATCH"]}
    settings = {
        "tenant": {"tenantId": tenant["id"]},
        "single permission": {"permissions": {"endpoints": endpoints}},
    }[request.param]
    made = await manager.post("/api/api-key", json={"apiKey": settings})
    headers = {"Authorization": made.json()["apiKey"]["key"], "X-FusionAuth-TenantId": tenant["id"]}
    async with checking_client(service.base_url, headers=headers) as client:
        yield client


@pytest.fixture
async def full(service, tenant):
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": tenant["id"]}
    async with checking_client(service.base_url, headers=headers) as client:
        yield client


@pytest.mark.requirement("audit-a2-keys")
async def test_lesser_caller_may_not_choose_a_costly_factor(lesser: httpx.AsyncClient) -> None:
    wanted = user(encryptionScheme="bcrypt", factor=14)
    assert codes(await lesser.post("/api/user", json={"user": wanted})) == {"[invalid]user.factor"}
    made = (await lesser.post("/api/user", json={"user": user()})).json()["user"]
    path = f"/api/user/{made['id']}"
    assert codes(await lesser.put(path, json={"user": {**wanted, "email": made["email"]}})) == {"[invalid]user.factor"}
    assert codes(await lesser.patch(path, json={"user": {"password": "another one!", "encryptionScheme": "argon2id",
                 "factor": 5}})) == {"[invalid]user.factor"}  # fmt: skip
    hashed = {"email": f"{new_id()}@example.com", **BCRYPT_HASH}
    for factor, expected in ((14, {"[invalid]users.factor"}), (31, {"[invalid]users.factor"}), (13, set())):
        answer = await lesser.post("/api/user/import", json={"users": [{**hashed, "factor": factor}]})
        assert (codes(answer) if expected else answer.status_code) == (expected or 200), factor
    plain = {"users": [user()], "encryptionScheme": "bcrypt", "factor": 14}
    assert codes(await lesser.post("/api/user/import", json=plain)) == {"[invalid]factor"}


@pytest.mark.requirement("migrate-1")
async def test_lesser_caller_may_not_import_a_costly_phc_string(lesser: httpx.AsyncClient, full) -> None:
    salt, hash_ = "A" * 22, "A" * 43
    costly = f"$argon2id$v=19$m=65536,t=2,p=1${salt}${hash_}"
    imported = {"email": f"{new_id()}@example.com", "encryptionScheme": "phc"}
    refused = await lesser.post("/api/user/import", json={"users": [{**imported, "password": costly}]})
    assert codes(refused) == {"[invalid]users.password"}
    cheap = f"$argon2id$v=19$m=7168,t=5,p=1${salt}${hash_}"
    assert (await lesser.post("/api/user/import", json={"users": [{**imported, "password": cheap}]})).status_code == 200
    other = {**imported, "email": f"{new_id()}@example.com", "password": costly}
    assert (await full.post("/api/user/import", json={"users": [other]})).status_code == 200


@pytest.mark.requirement("audit-a2-keys")
async def test_factor_of_the_tenant_and_full_authority_are_permitted(full, manager, service, tenant) -> None:
    cost = {"encryptionScheme": "bcrypt", "encryptionSchemeFactor": 14}
    changed = {"tenant": {"passwordEncryptionConfiguration": cost}}
    assert (await full.patch(f"/api/tenant/{tenant['id']}", json=changed)).status_code == 200
    hashed = {"email": f"{new_id()}@example.com", **BCRYPT_HASH, "factor": 15}
    assert (await full.post("/api/user/import", json={"users": [hashed]})).status_code == 200
    made = await manager.post("/api/api-key", json={"apiKey": {"tenantId": tenant["id"]}})
    async with checking_client(service.base_url, headers={"Authorization": made.json()["apiKey"]["key"]}) as scoped:
        hashed = {"email": f"{new_id()}@example.com", **BCRYPT_HASH, "factor": 14}
        assert (await scoped.post("/api/user/import", json={"users": [hashed]})).status_code == 200
        kept = await scoped.patch(f"/api/tenant/{tenant['id']}", json={"tenant": {"data": {"a": 1}}})
        assert kept.status_code == 200
