"""SSO sessions among the refresh tokens: retrieved by id and user, and revoked by id."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests import relying_party
from tests.conftest import SUPER_KEY, UNKNOWN_ID, checking_client
from tests.receiver import answers, in_turn, receiving
from tests.relying_party import RelyingParty
from tests.subscriber import Subscriber

PATH = "/api/jwt/refresh"


async def records_of(key: httpx.AsyncClient, user_id: str) -> list[dict[str, Any]]:
    answer = await key.get(PATH, params={"userId": user_id})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["refreshTokens"])


async def is_logged_in(rp: RelyingParty, browser: httpx.AsyncClient) -> bool:
    return (await rp.authorize(browser)).status_code == 302


async def bearer_of(rp: RelyingParty, http: httpx.AsyncClient, browser: httpx.AsyncClient) -> dict[str, str]:
    tokens = await rp.tokens(http, browser, scope="openid")
    return {"Authorization": f"Bearer {tokens['access_token']}"}


@pytest.mark.requirement("oauth-1.8-6")
async def test_session_is_listed_with_the_refresh_tokens_of_its_user(key, http, rp, browser, clock) -> None:
    begun = clock.now()
    await rp.tokens(http, browser)
    token, session = sorted(await records_of(key, rp.user["id"]), key=lambda record: "token" not in record)
    assert token["applicationId"] == rp.client_id
    assert session.keys() == {"id", "insertInstant", "startInstant", "tenantId", "userId"}
    assert (session["userId"], session["tenantId"]) == (rp.user["id"], rp.tenant["id"])
    assert begun <= session["insertInstant"] <= session["startInstant"] <= clock.now()
    assert (await key.get(f"{PATH}/{session['id']}")).json()["refreshToken"]["id"] == session["id"]
    # No token comes of it, and its secret is nowhere.
    assert (await http.post(PATH, json={"refreshToken": session["id"]})).status_code == 400
    assert browser.cookies["fusionauth.sso"] not in str(session)
    await rp.configure_tenant(httpSessionMaxInactiveInterval=0)
    assert (await key.get(f"{PATH}/{session['id']}")).status_code == 404
    assert [record["id"] for record in await records_of(key, rp.user["id"])] == [token["id"]]


@pytest.mark.requirement("oauth-1.8-6")
async def test_session_can_be_ended_by_id_without_refresh_tokens(key, http, rp, browser) -> None:
    tokens = await rp.tokens(http, browser)
    (session,) = [record for record in await records_of(key, rp.user["id"]) if "applicationId" not in record]
    assert (await key.delete(f"{PATH}/{session['id']}")).status_code == 200
    assert not await is_logged_in(rp, browser)
    assert (await key.delete(f"{PATH}/{session['id']}")).status_code == 404
    assert (await key.delete(f"{PATH}/{UNKNOWN_ID}")).status_code == 404
    assert (await rp.refresh(http, tokens["refresh_token"])).status_code == 200


@pytest.mark.requirement("oauth-1.8-6")
async def test_end_of_a_session_sends_events_and_logout_tokens(key, http, rp, browser) -> None:
    async with receiving() as application:
        await rp.configure(backChannelLogoutURL=application.url)
        await rp.code(browser)
        (session,) = await records_of(key, rp.user["id"])
        async with receiving(in_turn(answers(500), answers(200))) as receiver:
            subscriber = Subscriber(rp.api, receiver, rp.tenant["id"])
            await subscriber.subscribe(["jwt.refresh-token.revoke"], "AbsoluteMajority")
            assert (await key.delete(f"{PATH}/{session['id']}")).status_code == 504
            assert await is_logged_in(rp, browser) and not application.requests
            assert (await key.delete(f"{PATH}/{session['id']}")).status_code == 200
            _, event = await subscriber.received("jwt.refresh-token.revoke", "jwt.refresh-token.revoke")
        assert event["refreshToken"]["id"] == session["id"] and event["userId"] == rp.user["id"]
        assert not {"applicationId"} & {*event, *event["refreshToken"]}
        await application.wait_for(1)
    assert not await is_logged_in(rp, browser)


@pytest.mark.requirement("oauth-1.8-6")
async def test_user_can_end_own_sessions_only(key, http, rp, browser, service) -> None:
    other = await relying_party.make_user(rp.api, rp.tenant["id"], rp.client_id)
    async with checking_client(service.base_url) as another:
        shown = await rp.authorize(another)
        await rp.submit(another, shown, loginId=other["email"])
        headers = await bearer_of(rp, http, browser)
        (theirs,) = await records_of(key, other["id"])
        assert (await http.delete(f"{PATH}/{theirs['id']}", headers=headers)).status_code == 404
        assert await is_logged_in(rp, another)
    (session,) = await records_of(key, rp.user["id"])
    assert (await http.delete(f"{PATH}/{session['id']}", headers=headers)).status_code == 200
    assert not await is_logged_in(rp, browser)


async def test_third_party_token_cannot_end_sessions(key, http, rp, browser) -> None:
    headers = await bearer_of(rp, http, browser)
    await rp.configure(relationship="ThirdParty")
    (session,) = await records_of(key, rp.user["id"])
    assert (await http.delete(f"{PATH}/{session['id']}", headers=headers)).status_code == 401
    assert [record["id"] for record in await records_of(key, rp.user["id"])] == [session["id"]]


async def test_another_tenant_neither_sees_nor_ends_a_session(key, rp, browser, service, api) -> None:
    await rp.code(browser)
    (session,) = [one for one in await records_of(key, rp.user["id"]) if "applicationId" not in one]
    stranger = await relying_party.make(api)
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": stranger.tenant["id"]}
    async with checking_client(service.base_url, headers=headers) as client:
        path = f"{PATH}/{session['id']}"
        assert (await client.get(path)).status_code == (await client.delete(path)).status_code == 404
        assert await records_of(client, rp.user["id"]) == []
    assert await is_logged_in(rp, browser)
