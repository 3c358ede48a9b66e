"""The access log: one entry per request, with who made it, and without secrets; request ids of proxies."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

import pytest
import structlog

from identity.ids import new_id
from identity.logs import ACCESS
from identity.web.client_address import ClientAddresses
from tests.relying_party import PASSWORD


@pytest.fixture(autouse=True)
def access_log(caplog: pytest.LogCaptureFixture) -> None:
    """Enable the access log, which the level of the root logger disables in tests."""
    caplog.set_level(logging.INFO, logger=ACCESS)


async def entries(send: Any) -> list[dict[str, Any]]:
    """The entries that a request makes."""
    with structlog.testing.capture_logs() as lines:
        await send
    return [line for line in lines if line["event"] == "request"]


@pytest.mark.requirement("operate-1")
async def test_entry_of_a_login_names_client_and_user(rp, key):
    login = {"loginId": rp.login_id, "password": PASSWORD, "applicationId": rp.client_id}
    (entry,) = await entries(key.post("/api/login?secret=hidden", json=login))
    assert entry.pop("ms") >= 0
    assert re.fullmatch("[0-9a-f]{32}", entry.pop("request_id"))
    assert re.fullmatch("[0-9a-f-]{36}", entry.pop("api_key_id"))
    assert entry == {
        "event": "request", "log_level": "info", "route": "/api/login", "method": "POST", "status": 200,
        "address": "127.0.0.1", "client_id": rp.client_id, "user_id": rp.user["id"],
    }  # fmt: skip


@pytest.mark.requirement("operate-1")
async def test_entry_of_a_failed_login_names_the_user_and_not_the_password(rp, key):
    login = {"loginId": rp.login_id, "password": "a wrong password", "applicationId": rp.client_id}
    (entry,) = await entries(key.post("/api/login", json=login))
    assert (entry["status"], entry["user_id"], entry["reason"]) == (404, rp.user["id"], "wrong credentials")
    assert "a wrong password" not in str(entry)
    assert rp.login_id not in str(entry)


@pytest.mark.requirement("operate-1")
async def test_entry_of_a_refused_token_request_has_its_error_reason(rp, http):
    form = {"grant_type": "authorization_code", "client_id": rp.client_id, "code": "c0de", "client_secret": "s3cret"}
    (entry,) = await entries(http.post("/oauth2/token", data=form))
    assert (entry["status"], entry["error"], entry["error_reason"]) == (
        401, "invalid_client", "invalid_client_authentication",
    )  # fmt: skip
    assert entry["client_id"] == rp.client_id
    assert not re.search("c0de|s3cret", str(entry))


@pytest.mark.requirement("operate-1")
async def test_probes_are_logged_at_debug_level(api):
    assert [entry["log_level"] for entry in await entries(api.get("/api/status"))] in ([], ["debug"])


@pytest.mark.requirement("operate-2")
async def test_request_id_of_a_trusted_proxy_is_kept_and_returned(http):
    (entry,) = await entries(http.get("/api/tenant", headers={"X-Request-Id": "from-the.proxy_1"}))
    assert entry["request_id"] == "from-the.proxy_1"
    answer = await http.get("/api/tenant", headers={"X-Request-Id": "from-the.proxy_1"})
    assert answer.headers["X-Request-Id"] == "from-the.proxy_1"


@pytest.mark.requirement("operate-2")
@pytest.mark.parametrize(
    "given",
    ["", "a b", "a;b", "é".encode(), "x" * 129, "<script>"],
    ids=["none", "space", "semicolon", "latin", "long", "html"],
)
async def test_unsafe_request_id_is_replaced(http, given):
    answer = await http.get("/api/tenant", headers={"X-Request-Id": given} if given else {})
    assert re.fullmatch("[0-9a-f]{32}", answer.headers["X-Request-Id"])


@pytest.mark.requirement("operate-2")
def test_request_id_of_other_peers_is_replaced():
    class Request:
        headers = {"X-Request-Id": "chosen-by-a-client"}
        remote_ip = "192.0.2.1"

    addresses = ClientAddresses((), None)
    assert re.fullmatch("[0-9a-f]{32}", addresses.request_id(Request()))


@pytest.mark.requirement("operate-1")
async def test_concurrent_requests_do_not_mix_their_users(key, rp):
    made = await key.post(
        f"/api/user/registration/{new_id()}",
        json={
            "user": {"username": new_id(), "password": PASSWORD},
            "registration": {"applicationId": rp.client_id},
            "skipVerification": True,
        },
    )
    other = made.json()["user"]
    logins = [
        {"loginId": login_id, "password": PASSWORD, "applicationId": rp.client_id}
        for login_id in (rp.login_id, other["username"])
    ]
    with structlog.testing.capture_logs() as lines:
        answers = await asyncio.gather(*(key.post("/api/login", json=login) for login in logins * 3))
    expected = {answer.headers["X-Request-Id"]: answer.json()["user"]["id"] for answer in answers}
    logged = {line["request_id"]: line["user_id"] for line in lines if line["event"] == "request"}
    assert logged == expected
    assert set(expected.values()) == {rp.user["id"], other["id"]}
