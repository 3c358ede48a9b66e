"""What callers without authority can make the service parse: small bodies, and few cookies."""

from __future__ import annotations

import json

import pytest

from identity.ids import new_id
from tests.conftest import SUPER_KEY

LIMIT = 65_536
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def body(size: int) -> bytes:
    return b'{"a": "' + b"x" * (size - 9) + b'"}'


async def in_chunks(content: bytes):
    for start in range(0, len(content), 16_384):
        yield content[start : start + 16_384]


@pytest.mark.requirement("attack-67")
@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api/login", JSON),
        ("/api/user/change-password/x", JSON),
        ("/api/passwordless/login", JSON),
        ("/oauth2/register-client", JSON),
        ("/oauth2/token", FORM),
        ("/oauth2/authorize", FORM),
        ("/oauth2/par", FORM),
        ("/admin/users", FORM),
        ("/api/scim/resource/v2/Users", {"Content-Type": "application/scim+json"}),
        ("/api/webhook", JSON),
    ],
)
@pytest.mark.parametrize("key", ["", "Bearer nonsense", "unknown-key"])
async def test_anonymous_body_beyond_the_limit_is_413(http, path, kind, key) -> None:
    headers = {**kind, **({"Authorization": key} if key else {})}
    content = body(LIMIT + 1)
    for sent in (content, in_chunks(content)):
        answer = await http.post(path, content=sent, headers=headers)
        assert answer.status_code == 413, answer.text
        if path.startswith("/api/scim"):
            assert answer.json()["status"] == "413"
        else:
            assert answer.json()["generalErrors"][0]["code"] == "[TooLarge]"
    answer = await http.post(path, content=body(LIMIT), headers=headers)
    assert answer.status_code != 413


@pytest.mark.requirement("attack-67")
async def test_expired_key_is_no_authority(http, manager, clock) -> None:
    expires = {"apiKey": {"expirationInstant": clock.now() + 60_000}}
    made = (await manager.post("/api/api-key", json=expires)).json()["apiKey"]
    headers = {**JSON, "Authorization": made["key"]}
    assert (await http.post("/api/webhook", content=body(LIMIT + 1), headers=headers)).status_code == 400
    clock.advance(seconds=61)
    assert (await http.post("/api/webhook", content=body(LIMIT + 1), headers=headers)).status_code == 413


async def test_api_key_may_send_larger_bodies_in_pieces(http) -> None:
    content = json.dumps({"group": {"name": new_id(), "data": {"a": "x" * 900_000}}}).encode()
    headers = {**JSON, "Authorization": SUPER_KEY, "X-FusionAuth-TenantId": "none"}
    for sent in (content, in_chunks(content)):
        answer = await http.post("/api/group", content=sent, headers=headers)
        assert answer.status_code == 400, "the tenant is unknown, but the body was read"


@pytest.mark.requirement("attack-67")
@pytest.mark.parametrize(
    ("cookie", "status"),
    [
        ("; ".join(f"c{number}=x" for number in range(100)), 200),
        ("; ".join(f"c{number}=x" for number in range(101)), 431),
        ("; ".join(f"c{number}=x" for number in range(6_500)), 431),
        (f"c={'x' * 32_000}", 200),
        (f"c={'x' * 33_000}", 431),
    ],
    ids=["100", "101", "6,500", "32 kB", "33 kB"],
)
async def test_cookies_are_bounded_by_number_and_size(http, cookie, status) -> None:
    assert (await http.get("/", headers={"Cookie": cookie})).status_code == status
