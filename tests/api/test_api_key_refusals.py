"""Errors of /api/api-key with their codes, and what a key may do to itself."""

from __future__ import annotations

import pytest

from identity.ids import new_id
from tests.conftest import MANAGER_KEY, checking_client


def codes(answer) -> dict[str, list[str]]:
    assert answer.status_code == 400, answer.text
    return {path: [error["code"] for error in errors] for path, errors in answer.json()["fieldErrors"].items()}


@pytest.mark.requirement("core-5-errors", "core-5-key")
@pytest.mark.parametrize(
    ("body", "path", "code"),
    [
        ({}, "apiKey", "[missing]apiKey"),
        ({"apiKey": []}, "apiKey", "[missing]apiKey"),
        ({"sourceKeyId": "00000000-0000-0000-0000-000000000000"}, "sourceKeyId", "[invalid]sourceKeyId"),
        ({"sourceKeyId": "x"}, "sourceKeyId", "[couldNotConvert]sourceKeyId"),
        ({"apiKey": {"key": MANAGER_KEY}}, "apiKey.key", "[duplicate]apiKey.key"),
        ({"apiKey": {"key": "x" * 1025}}, "apiKey.key", "[tooLong]apiKey.key"),
        ({"apiKey": {"retrievable": False}}, "apiKey.name", "[blank]apiKey.name"),
        ({"apiKey": {"expirationInstant": 1}}, "apiKey.expirationInstant", "[invalid]apiKey.expirationInstant"),
        (
            {"apiKey": {"expirationInstant": "soon"}},
            "apiKey.expirationInstant",
            "[couldNotConvert]apiKey.expirationInstant",
        ),
        ({"apiKey": {"tenantId": "x"}}, "apiKey.tenantId", "[couldNotConvert]apiKey.tenantId"),
        (
            {"apiKey": {"permissions": {"endpoints": {"/api/user": ["FETCH"]}}}},
            "apiKey.permissions.endpoints",
            "[invalid]apiKey.permissions.endpoints",
        ),
        (
            {"apiKey": {"permissions": {"endpoints": {"/api/user": []}}}},
            "apiKey.permissions.endpoints",
            "[invalid]apiKey.permissions.endpoints",
        ),
    ],
)
async def test_each_refusal_has_its_code(manager, body, path, code):
    assert codes(await manager.post("/api/api-key", json=body)) == {path: [code]}


@pytest.mark.requirement("core-5-errors")
async def test_duplicate_names_and_unknown_references(manager):
    name = new_id()
    assert (await manager.post("/api/api-key", json={"apiKey": {"name": name}})).status_code == 200
    again = await manager.post("/api/api-key", json={"apiKey": {"name": name}})
    assert codes(again) == {"apiKey.name": ["[duplicate]apiKey.name"]}
    for member in ("tenantId", "ipAccessControlListId"):
        answer = await manager.post("/api/api-key", json={"apiKey": {member: new_id()}})
        assert codes(answer) == {f"apiKey.{member}": [f"[invalid]apiKey.{member}"]}


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
async def test_path_without_id(manager, method):
    answer = await manager.request(method, "/api/api-key", json={"apiKey": {}})
    assert codes(answer) == {"apiKeyId": ["[missing]apiKeyId"]}


@pytest.mark.requirement("core-5-rule-5")
async def test_key_can_delete_itself(build):
    key_id = new_id()
    kickstart = f"apiKeys: [{{key: {new_id()}}}, {{id: {key_id}, key: {MANAGER_KEY}, keyManager: true}}]"
    async with (
        build(kickstart=kickstart) as service,
        checking_client(service.base_url, headers={"Authorization": MANAGER_KEY}) as client,
    ):
        assert (await client.delete(f"/api/api-key/{key_id}")).status_code == 200
        assert (await client.get(f"/api/api-key/{key_id}")).status_code == 401
