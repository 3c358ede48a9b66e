"""Webhook events of logins, refreshes and revocations, and their veto."""

from __future__ import annotations

import pytest

from tests import relying_party
from tests.receiver import Receiver, answers, receiving
from tests.relying_party import page, response
from tests.subscriber import check_event
from tests.webhooks import subscribe

TYPES = ("jwt.refresh", "jwt.refresh-token.revoke", "user.login.failed", "user.login.success")


@pytest.fixture
async def receiver(rp, api, receiver) -> Receiver:
    """Receives every event of the tenant."""
    await subscribe(api, rp.tenant, receiver.url, TYPES)
    return receiver


async def received(receiver: Receiver, *types: str) -> list[dict]:
    """The events, which arrive in any order."""
    requests = await receiver.wait_for(len(types))
    events = [request.event for request in requests]
    for event in events:
        check_event(event)
    assert sorted(event["type"] for event in events) == sorted(types)
    return sorted(events, key=lambda event: event["type"])


@pytest.mark.requirement("oauth-1.8-12", "service-21")
async def test_login_event_has_the_authentication_type(rp, browser, receiver):
    await rp.log_in(browser)
    await rp.authorize(browser)
    events = await received(receiver, "user.login.success", "user.login.success")
    assert {event["authenticationType"] for event in events} == {"PASSWORD", "PING"}
    for event in events:
        assert event["tenantId"] == rp.tenant["id"]
        assert event["applicationId"] == rp.client_id
        assert event["user"]["id"] == rp.user["id"]
        assert event["info"]["ipAddress"] == "127.0.0.1"


@pytest.mark.requirement("service-21")
async def test_failed_login_sends_an_event(rp, browser, receiver):
    await rp.submit(browser, await rp.authorize(browser), password="wrong")
    (event,) = await received(receiver, "user.login.failed")
    assert event["user"]["id"] == rp.user["id"]
    assert "wrong" not in str(event["user"])


@pytest.mark.requirement("contract-events-2", "event-jwt.refresh-2", "oauth-2.2-19")
async def test_refresh_event_has_new_and_original_tokens(rp, browser, http, receiver):
    tokens = await rp.tokens(http, browser)
    await receiver.wait_for(1)
    receiver.requests.clear()
    by_body = (await rp.refresh(http, tokens["refresh_token"], access_token="the-old-one")).json()
    (event,) = await received(receiver, "jwt.refresh")
    assert event["original"] == "the-old-one"
    assert event["refreshToken"] == tokens["refresh_token"]
    assert event["token"] == by_body["access_token"]
    assert event["userId"] == event["linkedObjectId"] == rp.user["id"]
    assert event["applicationId"] == rp.client_id


@pytest.mark.requirement("contract-token-13")
async def test_cookie_takes_precedence_as_the_original_token(rp, browser, http, receiver):
    tokens = await rp.tokens(http, browser)
    await receiver.wait_for(1)
    receiver.requests.clear()
    http.cookies.set("access_token", "from-the-cookie", domain="localhost.local", path="/")
    await rp.refresh(http, tokens["refresh_token"], access_token="from-the-body")
    (event,) = await received(receiver, "jwt.refresh")
    assert event["original"] == "from-the-cookie"


@pytest.mark.requirement("event-jwt.refresh-token.revoke-7")
async def test_replay_event_lists_revoked_tokens(rp, browser, http, receiver):
    code = await rp.code(browser)
    tokens = (await rp.exchange(http, code)).json()
    await rp.exchange(http, code)
    event, _ = await received(receiver, "jwt.refresh-token.revoke", "user.login.success")
    assert event["refreshToken"]["id"] == tokens["refresh_token_id"]
    assert "token" not in event["refreshToken"]
    assert "private" not in event["refreshToken"]
    assert event["applicationTimeToLiveInSeconds"] == {rp.client_id: 3600}
    assert event["applicationId"] == rp.client_id
    assert event["userId"] == rp.user["id"]


@pytest.mark.requirement("oauth-2.2-19", "webhooks-8-17")
async def test_vetoed_refresh_does_not_change_the_token(rp, browser, http, api):
    await rp.configure_tenant(jwtConfiguration={"refreshTokenUsagePolicy": "OneTimeUse"})
    value = (await rp.tokens(http, browser))["refresh_token"]
    async with receiving(answers(500)) as receiver:
        await subscribe(api, rp.tenant, receiver.url, TYPES, "AbsoluteMajority")
        answer = await rp.refresh(http, value)
        assert (answer.status_code, answer.json()["error"], answer.json()["error_reason"]) == (
            400,
            "invalid_grant",
            "unknown",
        )
        receiver.behaviour = answers(200)
        assert (await rp.refresh(http, value)).status_code == 200


@pytest.mark.requirement("oauth-1.9-4", "webhooks-8-15")
async def test_vetoed_login_creates_no_session(rp, browser, api):
    async with receiving(answers(500)) as receiver:
        await subscribe(api, rp.tenant, receiver.url, TYPES, "AbsoluteMajority")
        shown = await rp.submit(browser, await rp.authorize(browser))
        assert shown.status_code == 200
        assert "rejected" in page(shown).text
        assert "fusionauth.sso" not in browser.cookies
        receiver.behaviour = answers(200)
        assert "code" in response(await rp.submit(browser, shown))
        receiver.behaviour = answers(500)
        assert response(await rp.authorize(browser, prompt="none"))["error"] == "access_denied"
        assert (await rp.authorize(browser)).status_code == 200


async def test_lost_rotation_race_sends_no_event(rp, browser, http, api, receiver):
    await rp.configure_tenant(
        jwtConfiguration={
            "refreshTokenUsagePolicy": "OneTimeUse",
            "refreshTokenRevocationPolicy": {"onOneTimeTokenReuse": False},
        }
    )
    tokens = await rp.tokens(http, browser)
    await receiver.wait_for(1)
    receiver.requests.clear()
    for _ in range(3):
        await rp.refresh(http, tokens["refresh_token"])
    other = await relying_party.make(api)
    await other.refresh(http, tokens["refresh_token"])
    await received(receiver, "jwt.refresh")
