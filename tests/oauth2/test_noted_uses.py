"""Uses without changes are written at most once a minute."""

from __future__ import annotations

import pytest

from identity.domain.login.login_outcomes import SESSION_RECORD_INTERVAL_SECONDS
from tests import internals


async def noted_login(service, rp) -> int:
    user = await internals.store(service, "users").find(rp.tenant["id"], rp.user["id"])
    assert user["lastLoginInstant"] == user["registrations"][0]["lastLoginInstant"]
    return user["lastLoginInstant"]


@pytest.mark.requirement("oauth-1.8-10")
async def test_session_use_is_recorded_once_a_minute(rp, browser, service, clock):
    await rp.log_in(browser)
    first = await noted_login(service, rp)
    clock.advance(seconds=SESSION_RECORD_INTERVAL_SECONDS / 2)
    await rp.code(browser)
    assert await noted_login(service, rp) == first
    clock.advance(seconds=SESSION_RECORD_INTERVAL_SECONDS)
    await rp.code(browser)
    assert await noted_login(service, rp) > first


async def test_every_password_login_is_recorded(rp, browser, service, clock):
    await rp.log_in(browser)
    first = await noted_login(service, rp)
    clock.advance(seconds=1)
    await rp.submit(browser, await rp.authorize(browser, prompt="login"))
    assert await noted_login(service, rp) > first


async def device(service, rp, tokens) -> tuple[str, int]:
    record = await internals.store(service, "refresh_tokens").find(rp.tenant["id"], tokens["refresh_token_id"])
    seen = record["metaData"]["device"]
    return seen["lastAccessedAddress"], seen["lastAccessedInstant"]


async def test_use_of_a_reusable_refresh_token_is_recorded_once_a_minute(rp, browser, http, service, clock):
    tokens = await rp.tokens(http, browser)
    first = await device(service, rp, tokens)
    clock.advance(seconds=SESSION_RECORD_INTERVAL_SECONDS / 2)
    assert (await rp.refresh(http, tokens["refresh_token"])).status_code == 200
    assert await device(service, rp, tokens) == first
    clock.advance(seconds=SESSION_RECORD_INTERVAL_SECONDS)
    assert (await rp.refresh(http, tokens["refresh_token"])).status_code == 200
    assert (await device(service, rp, tokens))[1] > first[1]


async def test_refresh_from_another_address_is_recorded_immediately(rp, browser, http, service):
    tokens = await rp.tokens(http, browser)
    http.headers["X-Forwarded-For"] = "203.0.113.9"
    assert (await rp.refresh(http, tokens["refresh_token"])).status_code == 200
    assert (await device(service, rp, tokens))[0] == "203.0.113.9"


async def test_sliding_refresh_token_is_written_at_every_use(rp, browser, http, service, clock):
    await rp.configure_tenant(jwtConfiguration={"refreshTokenExpirationPolicy": "SlidingWindow"})
    tokens = await rp.tokens(http, browser)
    first = await internals.store(service, "refresh_tokens").find(rp.tenant["id"], tokens["refresh_token_id"])
    clock.advance(seconds=1)
    assert (await rp.refresh(http, tokens["refresh_token"])).status_code == 200
    second = await internals.store(service, "refresh_tokens").find(rp.tenant["id"], tokens["refresh_token_id"])
    assert second["startInstant"] > first["startInstant"]
    assert second["expiresAt"] > first["expiresAt"]
