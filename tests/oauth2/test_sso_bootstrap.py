"""SSO sessions created from an access token, if enabled by the tenant."""

from __future__ import annotations

import pytest

from tests import relying_party
from tests.oauth2.test_device_grant import signed
from tests.relying_party import claims, page, response

ON = {"allowAccessTokenBootstrap": True}


@pytest.fixture
async def party(rp):
    """A relying party whose tenant lets access tokens begin sessions."""
    await rp.configure_tenant(ssoConfiguration=ON)
    return rp


async def begin(party, browser, token: str, **changes: str):
    headers = {"Authorization": f"Bearer {token}"}
    return await browser.get("/oauth2/authorize", params=party.query(**changes), headers=headers)


@pytest.mark.requirement("oauth-1.1-5")
async def test_bootstrap_session_has_the_auth_time_of_the_token(party, new_browser, http, clock):
    tokens = await party.tokens(http, new_browser())
    clock.advance(seconds=60)
    browser = new_browser()
    answer = response(await begin(party, browser, tokens["access_token"], prompt="none"))
    found = (await party.exchange(http, answer["code"])).json()
    before = claims(tokens["id_token"])
    after = claims(found["id_token"])
    assert (after["sub"], after["auth_time"]) == (before["sub"], before["auth_time"])
    assert claims(found["access_token"])["authenticationType"] == "PING"
    assert "code" in response(await party.authorize(browser, prompt="none"))
    assert response(await party.authorize(browser, prompt="none", max_age="59"))["error"] == "login_required"
    assert (await begin(party, new_browser(), tokens["access_token"], max_age="59")).status_code == 200


async def test_bootstrap_applies_to_other_applications_with_their_gates(party, new_browser, http, api):
    token = (await party.tokens(http, new_browser()))["access_token"]
    sibling = await relying_party.make(api, tenant=party.tenant)
    assert "code" in response(await begin(sibling, new_browser(), token, prompt="none"))
    await sibling.configure(requireRegistration=True)
    answer = response(await begin(sibling, new_browser(), token, prompt="none"))
    assert answer["error_reason"] == "registration_required"


@pytest.mark.requirement("attack-27")
async def test_third_party_token_starts_no_session(party, new_browser, http):
    token = (await party.tokens(http, new_browser()))["access_token"]
    await party.configure(relationship="ThirdParty")
    browser = new_browser()
    answer = await begin(party, browser, token)
    assert (answer.status_code, "fusionauth.sso" in browser.cookies) == (401, False)
    assert "access_token_invalid" in page(answer).text


async def test_token_changed_by_a_lambda_starts_a_session(party, new_browser, http, service):
    tokens = await party.tokens(http, new_browser())
    token = await signed(party, service, tokens["access_token"], auth_time=None, authenticationType=None)
    answer = response(await begin(party, new_browser(), token, prompt="none"))
    given = claims((await party.exchange(http, answer["code"])).json()["access_token"])
    assert given["auth_time"] == claims(token)["iat"]


@pytest.mark.requirement("oauth-1.1-5")
async def test_disabled_bootstrap_ignores_the_token(rp, new_browser, http):
    token = (await rp.tokens(http, new_browser()))["access_token"]
    assert (await begin(rp, new_browser(), token)).status_code == 200
    assert (await begin(rp, new_browser(), "nonsense")).status_code == 200


async def test_prompt_login_and_disabled_sso_require_the_password(party, new_browser, http):
    token = (await party.tokens(http, new_browser()))["access_token"]
    browser = new_browser()
    assert (await begin(party, browser, token, prompt="login")).status_code == 200
    assert "fusionauth.sso" not in browser.cookies
    await party.configure_tenant(httpSessionMaxInactiveInterval=0)
    assert (await begin(party, new_browser(), token)).status_code == 200


@pytest.mark.requirement("oauth-1.1-5")
async def test_invalid_request_changes_nothing(party, new_browser, http, api):
    token = (await party.tokens(http, new_browser()))["access_token"]
    party.user = await relying_party.make_user(api, party.tenant["id"], party.client_id)
    browser = new_browser()
    await party.log_in(browser)
    own = browser.cookies["fusionauth.sso"]
    assert response(await begin(party, browser, token, scope="unheard-of"))["error"] == "invalid_scope"
    assert (await begin(party, browser, token, prompt="login")).status_code == 200
    assert (await begin(party, browser, token, max_age="0")).status_code == 200
    assert "code" in response(await party.authorize(browser, prompt="none"))
    assert browser.cookies["fusionauth.sso"] == own


async def test_bootstrap_replaces_the_session_of_another_user_only(party, new_browser, http, api):
    browser = new_browser()
    token = (await party.tokens(http, browser))["access_token"]
    own = browser.cookies["fusionauth.sso"]
    await begin(party, browser, token)
    assert browser.cookies["fusionauth.sso"] == own
    party.user = await relying_party.make_user(api, party.tenant["id"], party.client_id)
    other = new_browser()
    await party.log_in(other)
    answer = response(await begin(party, other, token))
    found = (await party.exchange(http, answer["code"])).json()
    assert claims(found["id_token"])["sub"] == claims(token)["sub"]


@pytest.mark.requirement("oauth-1.1-5")
@pytest.mark.parametrize("kind", ["malformed", "forged", "id token", "expired", "revoked", "of another tenant"])
async def test_invalid_token_is_not_reported_to_the_redirect_uri(party, new_browser, http, api, clock, kind):
    tokens = await party.tokens(http, new_browser())
    token, reason = tokens["access_token"], "access_token_invalid"
    if kind == "malformed":
        token, reason = "nonsense", "access_token_malformed"
    elif kind == "forged":
        token = token[:-8] + ("A" * 8 if not token.endswith("A" * 8) else "B" * 8)
    elif kind == "id token":
        token, reason = tokens["id_token"], "id_token_invalid"
    elif kind == "expired":
        clock.advance(seconds=3601)
        reason = "access_token_expired"
    elif kind == "revoked":
        await http.post("/oauth2/revoke", data={
            "token": tokens["refresh_token"], "client_id": party.client_id, "client_secret": party.secret,
        })  # fmt: skip
    else:
        stranger = await relying_party.make(api)
        token = (await stranger.tokens(http, new_browser()))["access_token"]
    browser = new_browser()
    answer = await begin(party, browser, token)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'
    assert reason in page(answer).text
    assert "Location" not in answer.headers
    assert "fusionauth.sso" not in browser.cookies
