"""The reason of a refusal without a body is logged, without secrets."""

from __future__ import annotations

import ast
import logging
from pathlib import Path
from typing import Any

import pytest
import structlog

from identity.ids import new_id
from identity.logs import ACCESS
from tests.conftest import DEFAULT_TENANT, ROOT, SUPER_KEY, UNKNOWN_ID, checking_client
from tests.relying_party import PASSWORD

WRONG = "a-wrong-value-that-no-log-may-hold"


@pytest.fixture(autouse=True)
def access_log(caplog: pytest.LogCaptureFixture) -> None:
    """Enable the access log, which the level of the root logger disables in tests."""
    caplog.set_level(logging.INFO, logger=ACCESS)


async def refusal(client, method: str, path: str, **arguments: Any) -> dict[str, Any]:
    """The line of the log about a refused request."""
    with structlog.testing.capture_logs() as lines:
        answer = await client.request(method, path, **arguments)
    assert answer.content == b"", answer.text
    assert WRONG not in str(lines)
    assert PASSWORD not in str(lines)
    (line,) = [line for line in lines if line["event"] == "request"]
    assert line["status"] == answer.status_code
    assert line["address"] == "127.0.0.1"
    assert line["request_id"]
    return line


@pytest.mark.requirement("audit-c1-refusals")
@pytest.mark.parametrize(
    ("path", "headers", "reason"),
    [
        ("/api/tenant", {}, "the request has no API key"),
        ("/api/tenant", {"Authorization": WRONG}, "no API key has this value"),
        ("/api/jwt/validate", {}, "An access token is required."),
        ("/api/jwt/validate", {"Authorization": f"Bearer {WRONG}"}, "The access token is malformed."),
        ("/api/api-key/" + UNKNOWN_ID, {"Authorization": SUPER_KEY}, "is not a key manager"),
    ],
)
async def test_reason_of_401_without_body_is_logged(http, path, headers, reason):
    line = await refusal(http, "GET", path, headers=headers)
    assert (line["status"], line["log_level"], line["method"]) == (401, "info", "GET")
    assert reason in line["reason"]


@pytest.mark.requirement("audit-c1-refusals")
async def test_logged_401_names_key_without_value(service, manager, clock):
    acl = {"ipAccessControlList": {"name": new_id(), "entries": [{"startIPAddress": "*", "action": "Block"}]}}
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as api:
        made = await api.post("/api/ip-acl", json=acl)
        tenant = {"name": new_id(), "issuer": f"https://{new_id()}.example.com"}
        other = (await api.post("/api/tenant", json={"tenant": tenant})).json()["tenant"]["id"]
    cases = [
        ({"permissions": {"endpoints": {"/api/user": ["GET"]}}}, {}, "has no permission for GET /api/tenant"),
        ({"ipAccessControlListId": made.json()["ipAccessControlList"]["id"]}, {}, "blocks the address"),
        ({"expirationInstant": clock.now() + 12_000}, {}, "has expired"),
        ({"tenantId": DEFAULT_TENANT}, {"X-FusionAuth-TenantId": other}, "the tenant header differs"),
    ]
    for members, headers, reason in cases:
        key = (await manager.post("/api/api-key", json={"apiKey": members})).json()["apiKey"]
        clock.advance(seconds=5)
        async with checking_client(service.base_url, headers={"Authorization": key["key"], **headers}) as client:
            line = await refusal(client, "GET", "/api/application" if headers else "/api/tenant")
        assert reason in line["reason"]
        assert key["id"] in line["reason"] or line["api_key_id"] == key["id"]
        assert key["key"] not in str(line)


@pytest.mark.requirement("audit-c1-refusals")
async def test_reason_of_other_refusals_without_body_is_logged(service, rp, key):
    login = {"loginId": rp.login_id, "password": WRONG, "applicationId": rp.client_id}
    line = await refusal(key, "POST", "/api/login", json=login)
    assert (line["status"], line["log_level"], line["reason"]) == (404, "info", "wrong credentials")
    await key.delete(f"/api/user/{rp.user['id']}")
    line = await refusal(key, "POST", "/api/login", json={**login, "password": PASSWORD})
    assert (line["status"], line["reason"]) == (423, "the user is deactivated")
    line = await refusal(key, "GET", "/api/nonsense")
    assert (line["status"], line["log_level"]) == (404, "info")
    line = await refusal(key, "DELETE", "/api/health")
    assert (line["status"], line["log_level"]) == (405, "info")


@pytest.mark.requirement("audit-c1-refusals")
async def test_reason_of_403_for_foreign_origin_is_logged(build):
    async with (
        build() as service,
        checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as api,
    ):
        cors = {"enabled": True, "allowedMethods": ["GET"], "allowedOrigins": ["https://app.example.com"]}
        body = {"systemConfiguration": {"corsConfiguration": cors}}
        assert (await api.patch("/api/system-configuration", json=body)).status_code == 200
        line = await refusal(api, "GET", "/api/tenant", headers={"Origin": "https://other.example.com"})
    assert line["status"] == 403
    assert line["reason"] == "CORS configuration: the origin [https://other.example.com] is not allowed"


@pytest.mark.requirement("audit-c1-refusals")
def test_every_401_and_403_has_a_reason():
    """The caller receives none, so the log is the only place for it."""
    for file in sorted(Path(ROOT / "identity").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Raise) and node.exc is not None:
                raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
                if getattr(raised, "id", "") in {"Unauthorized", "Forbidden", "WrongCode", "Unaddressable"}:
                    named = {word.arg for word in node.exc.keywords} if isinstance(node.exc, ast.Call) else set()
                    assert "log_detail" in named, f"{file.relative_to(ROOT)}:{node.lineno}"
