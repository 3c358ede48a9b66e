"""Step-up authentication (RFC 9470): a stronger login on request, and resources that require one."""

from __future__ import annotations

import json

import pytest

from tests import relying_party, two_factor
from tests.hosted.steps import follow, log_in, path, send
from tests.hosted.test_two_factor import add_methods, policy
from tests.relying_party import claims, response

GOLD, BRONZE = "urn:example:gold", "urn:example:bronze"
USERINFO = "/oauth2/userinfo"
ESSENTIAL = json.dumps({"id_token": {"acr": {"essential": True, "values": [GOLD]}}})


@pytest.fixture
async def rp(api):
    """An application with two classes, whose user has an authenticator app that no policy requires."""
    party = await relying_party.make(api, authenticationContextClass=BRONZE, stepUpConfiguration={"contextClass": GOLD})
    await add_methods(party, two_factor.authenticator())
    await policy(party, "Disabled")
    return party


async def tokens_of(rp, http, answer):
    exchanged = await rp.exchange(http, response(answer)["code"])
    assert exchanged.status_code == 200, exchanged.text
    return exchanged.json()


@pytest.mark.requirement("oauth-12-43", "oauth-12-44")
@pytest.mark.parametrize("asked", [{"acr_values": f"{GOLD} {BRONZE}"}, {"claims": ESSENTIAL}])
async def test_session_is_stepped_up_on_request(rp, browser, http, clock, asked):
    first = await rp.tokens(http, browser, acr_values=BRONZE)
    assert claims(first["id_token"])["acr"] == claims(first["access_token"])["acr"] == BRONZE
    assert "code" in response(await rp.authorize(browser))
    shown = await follow(browser, await rp.authorize(browser, **asked))
    assert path(shown) == "/oauth2/two-factor"
    answer = await send(browser, shown, code=two_factor.code(clock.now()))
    tokens = await tokens_of(rp, http, answer)
    for token in (tokens["id_token"], tokens["access_token"]):
        assert claims(token)["acr"] == GOLD
        assert claims(token)["auth_time"] == claims(first["id_token"])["auth_time"]
    again = await rp.tokens(http, browser, **asked)
    assert claims(again["id_token"])["acr"] == GOLD
    refreshed = (await rp.refresh(http, tokens["refresh_token"])).json()
    assert claims(refreshed["access_token"])["acr"] == GOLD


@pytest.mark.requirement("oauth-12-43")
async def test_new_login_is_stepped_up_before_the_response(rp, browser, http, clock):
    shown = await log_in(rp, browser, acr_values=GOLD)
    assert path(shown) == "/oauth2/two-factor"
    reloaded = await browser.get(shown.url)
    assert path(reloaded) == "/oauth2/two-factor"
    answer = await send(browser, reloaded, code=two_factor.code(clock.now()))
    assert claims((await tokens_of(rp, http, answer))["id_token"])["acr"] == GOLD


@pytest.mark.requirement("oauth-12-43")
async def test_trusted_device_is_no_second_factor(rp, browser, http, clock):
    await policy(rp, "Enabled")
    shown = await log_in(rp, browser)
    await send(browser, shown, code=two_factor.code(clock.now()), trustComputer="true")
    browser.cookies.delete("fusionauth.sso")
    assert claims((await rp.tokens(http, browser, acr_values=BRONZE))["id_token"])["acr"] == BRONZE
    shown = await follow(browser, await rp.authorize(browser, acr_values=GOLD))
    assert path(shown) == "/oauth2/two-factor"
    clock.advance(seconds=60)
    answer = await send(browser, shown, code=two_factor.code(clock.now()))
    assert claims((await tokens_of(rp, http, answer))["id_token"])["acr"] == GOLD


@pytest.mark.requirement("oauth-12-43")
async def test_prompt_none_names_what_is_missing(rp, browser, http):
    await rp.tokens(http, browser)
    error = response(await rp.authorize(browser, acr_values=GOLD, prompt="none"))
    assert (error["error"], error["error_reason"]) == ("interaction_required", "multi_factor_challenge_required")


@pytest.mark.requirement("oauth-12-43", "error-unmet_authentication_requirements")
async def test_user_without_a_second_factor(rp, browser, http):
    await add_methods(rp)
    assert claims((await rp.tokens(http, browser, acr_values=GOLD))["id_token"])["acr"] == BRONZE
    error = response(await rp.authorize(browser, claims=ESSENTIAL))
    assert error["error"] == "unmet_authentication_requirements"
    browser.cookies.delete("fusionauth.sso")
    shown = await rp.authorize(browser, claims=ESSENTIAL)
    assert response(await rp.submit(browser, shown))["error"] == "unmet_authentication_requirements"


@pytest.mark.requirement("oauth-12-44", "error-insufficient_user_authentication")
async def test_userinfo_challenges_weak_and_old_logins(rp, browser, http, clock):
    weak = (await rp.tokens(http, browser))["access_token"]
    settings = {"contextClass": GOLD, "requiredAtUserinfo": True, "maximumAgeAtUserinfo": 600}
    await rp.configure(stepUpConfiguration=settings)
    answer = await http.get(USERINFO, headers={"Authorization": f"Bearer {weak}"})
    assert (answer.status_code, answer.json()["error"]) == (401, "insufficient_user_authentication")
    challenge = f'Bearer error="insufficient_user_authentication", acr_values="{GOLD}", max_age="600"'
    assert answer.headers["WWW-Authenticate"].startswith(challenge)
    shown = await follow(browser, await rp.authorize(browser, acr_values=GOLD, max_age="600"))
    answer = await send(browser, shown, code=two_factor.code(clock.now()))
    strong = (await tokens_of(rp, http, answer))["access_token"]
    headers = {"Authorization": f"Bearer {strong}"}
    assert (await http.get(USERINFO, headers=headers)).status_code == 200
    clock.advance(seconds=601)
    answer = await http.get(USERINFO, headers=headers)
    assert answer.json()["error"] == "insufficient_user_authentication"


@pytest.mark.requirement("oauth-12-43")
async def test_metadata_lists_both_classes(rp, http):
    metadata = (await http.get(f"/{rp.tenant['id']}/.well-known/openid-configuration")).json()
    assert metadata["acr_values_supported"] == [BRONZE, GOLD]
