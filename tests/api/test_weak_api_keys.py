"""Guessable API keys: minimum length, a warning, and limits per network."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from identity.errors import StartupError
from identity.ids import new_id
from identity.store import rate_limits
from tests.conftest import KICKSTART, MANAGER_KEY, SUPER_KEY, checking_client

GUESSER = {"X-Forwarded-For": "203.0.113.90"}
ELSEWHERE = {"X-Forwarded-For": "203.0.113.91"}


def weak() -> str:
    """A key that is new in every run, and short."""
    return new_id()[:8]


async def made(manager: httpx.AsyncClient, **api_key: Any) -> dict[str, Any]:
    answer = await manager.post("/api/api-key", json={"apiKey": api_key})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["apiKey"])


async def warnings(api: httpx.AsyncClient, key_id: str) -> list[dict[str, Any]]:
    query = {"message": f"*{key_id}*"}
    answer = await api.get("/api/system/event-log/search", params=query)
    return list(answer.json()["eventLogs"])


async def call(http: httpx.AsyncClient, key: str, headers: dict[str, str], path: str = "/api/webhook") -> int:
    return (await http.get(path, headers={"Authorization": key, **headers})).status_code


# The minimum length


@pytest.mark.requirement("audit-a8-api-keys")
async def test_any_chosen_value_is_accepted_by_default(manager) -> None:
    value = chr(0x4E00 + int(new_id()[:3], 16))
    assert (await made(manager, key=value))["key"] == value


@pytest.mark.requirement("audit-a8-api-keys")
async def test_short_values_are_refused_if_configured(build) -> None:
    async with build(api_keys__minimum_length=32) as service:
        headers = {"Authorization": MANAGER_KEY}
        async with checking_client(service.base_url, headers=headers) as manager:
            short = await manager.post("/api/api-key", json={"apiKey": {"key": "x" * 31}})
            assert short.status_code == 400
            (error,) = short.json()["fieldErrors"]["apiKey.key"]
            assert error["code"] == "[tooShort]apiKey.key" and "32 characters" in error["message"]
            key = await made(manager, key=f"long enough {new_id()}")
            path = f"/api/api-key/{key['id']}"
            for method, content in (("PUT", "application/json"), ("PATCH", "application/merge-patch+json")):
                body = {"apiKey": {**key, "key": "short"}}
                answer = await manager.request(method, path, json=body, headers={"Content-Type": content})
                assert answer.status_code == 400, method
            assert (await manager.get(path)).json()["apiKey"]["key"] == key["key"]
            copy = await manager.post("/api/api-key", json={"sourceKeyId": key["id"], "apiKey": {"key": "short"}})
            assert copy.status_code == 400
            assert len((await made(manager))["key"]) == 64
            change = {"apiKey": {"metaData": {"attributes": {"description": "renamed"}}}}
            merge = {"Content-Type": "application/merge-patch+json"}
            assert (await manager.request("PATCH", path, json=change, headers=merge)).status_code == 200


@pytest.mark.requirement("audit-a8-api-keys")
async def test_short_key_in_kickstart_file_is_refused_by_name(build) -> None:
    with pytest.raises(StartupError, match=r"key manager.* was refused"):
        async with build(api_keys__minimum_length=200, kickstart=KICKSTART.replace(SUPER_KEY, "x" * 200)):
            pass


# The warning


@pytest.mark.requirement("audit-a8-api-keys")
async def test_guessable_key_is_logged_without_value(manager, api) -> None:
    value = weak()
    key = await made(manager, key=value, metaData={"attributes": {"description": "for the crawler"}})
    (row,) = await warnings(api, key["id"])
    assert row["type"] == "Information"
    assert row["message"].startswith("Warning: the API key [for the crawler]")
    assert value not in row["message"]
    changed = await manager.put(f"/api/api-key/{key['id']}", json={"apiKey": {**key, "key": weak()}})
    assert changed.status_code == 200
    assert len(await warnings(api, key["id"])) == 2


@pytest.mark.requirement("audit-a8-api-keys")
async def test_random_values_are_not_reported(manager, api) -> None:
    for chosen in ({}, {"key": new_id()}, {"key": new_id().replace("-", "")}):
        key = await made(manager, **chosen)
        assert await warnings(api, key["id"]) == []


# Guesses


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits a network to three unknown keys."""
    monkeypatch.setattr(rate_limits, "DIFFERENT_KEYS", 3)


async def spend(http: httpx.AsyncClient, headers: dict[str, str]) -> None:
    assert [await call(http, new_id(), headers) for _ in range(4)] == [401, 401, 401, 503]


@pytest.mark.requirement("audit-a8-api-keys")
@pytest.mark.usefixtures("few")
async def test_guesses_are_limited_per_network(manager, http) -> None:
    key = await made(manager, key=weak())
    await spend(http, GUESSER)
    refused = await http.get("/api/webhook", headers={"Authorization": key["key"], **GUESSER})
    unknown = await http.get("/api/webhook", headers={"Authorization": weak(), **GUESSER})
    assert refused.status_code == unknown.status_code == 503
    assert refused.json()["generalErrors"][0]["code"] == unknown.json()["generalErrors"][0]["code"]
    assert await call(http, key["key"], ELSEWHERE) == 200


@pytest.mark.requirement("audit-a8-api-keys")
@pytest.mark.usefixtures("few")
async def test_correct_keys_from_limited_network_keep_working(manager, http) -> None:
    nat = {"X-Forwarded-For": "203.0.113.92"}
    used = await made(manager, key=weak())
    assert await call(http, used["key"], nat) == 200
    await spend(http, nat)
    assert await call(http, used["key"], nat) == 200, "used from there before"
    assert await call(http, (await made(manager))["key"], nat) == 200, "cannot be guessed"


@pytest.mark.requirement("audit-a8-api-keys")
@pytest.mark.usefixtures("few")
async def test_repeated_outdated_key_counts_once(http) -> None:
    headers = {"X-Forwarded-For": "203.0.113.93"}
    outdated = new_id()
    assert {await call(http, outdated, headers) for _ in range(10)} == {401}
    assert [await call(http, new_id(), headers) for _ in range(2)] == [401, 401]
    assert await call(http, new_id(), headers) == 503
    assert await call(http, outdated, headers) == 401


@pytest.mark.requirement("audit-a8-api-keys")
@pytest.mark.usefixtures("few")
async def test_ipv6_guesses_count_by_network(http) -> None:
    guesses = [await call(http, new_id(), {"X-Forwarded-For": f"2001:db8:9::{n}"}) for n in range(4)]
    assert guesses == [401, 401, 401, 503]
    assert await call(http, new_id(), {"X-Forwarded-For": "2001:db8:9:1::1"}) == 401


@pytest.mark.requirement("audit-a8-api-keys")
@pytest.mark.usefixtures("few")
async def test_public_routes_do_not_bypass_limit_and_stay_public(manager, http) -> None:
    key = await made(manager, key=weak())
    headers = {"X-Forwarded-For": "203.0.113.94"}
    body = {"loginId": "unknown@example.com", "applicationId": new_id()}
    for _ in range(4):
        answer = await http.post("/api/passwordless/send", json=body, headers={"Authorization": new_id(), **headers})
        assert answer.status_code == 400
    assert await call(http, key["key"], headers) == 503


@pytest.mark.requirement("audit-a8-api-keys")
async def test_permission_and_expiry_failures_are_not_counted(manager, http, monkeypatch) -> None:
    monkeypatch.setattr(rate_limits, "DIFFERENT_KEYS", 1)
    headers = {"X-Forwarded-For": "203.0.113.95"}
    endpoints = {"endpoints": {"/api/user": ["GET"]}}
    limited = [await made(manager, permissions=endpoints) for _ in range(3)]
    assert [await call(http, key["key"], headers) for key in limited] == [401] * 3
    assert await call(http, new_id(), headers) == 401
