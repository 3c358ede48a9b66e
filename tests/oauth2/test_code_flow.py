"""The authorization code grant end to end."""

from __future__ import annotations

import pytest

from tests import internals, relying_party
from tests.relying_party import PKCE, REDIRECT_URI, VERIFIER, claims, half_hash, header, response


@pytest.mark.requirement(
    "certification-token-1",
    "contract-authorize-code_challenge",
    "contract-authorize-nonce",
    "contract-authorize-response-1",
    "contract-authorize-response-5",
    "contract-token-response-2",
    "contract-token-response-3",
    "contract-token-response-5",
    "oauth-0.1-7",
    "oauth-0.3-3",
    "oauth-1.3-1",
    "oauth-2.10-1",
    "service-12",
)
async def test_login_returns_a_code_and_the_code_tokens(rp, browser, http):
    answer = await rp.log_in(browser, nonce="n-0S6_WzA2Mj", **PKCE)
    assert answer.keys() == {"code", "state", "userState", "iss"}
    assert answer["state"] == "the-state"
    assert answer["userState"] == "Authenticated"
    assert answer["iss"] == rp.tenant["issuer"]
    assert len(answer["code"]) == 43
    exchanged = await rp.exchange(http, answer["code"], code_verifier=VERIFIER)
    assert exchanged.status_code == 200, exchanged.text
    assert exchanged.headers["Cache-Control"] == "no-store"
    assert exchanged.headers["Pragma"] == "no-cache"
    tokens = exchanged.json()
    assert tokens.keys() == {
        "access_token", "expires_in", "id_token", "refresh_token", "refresh_token_id", "scope", "token_type", "userId",
    }  # fmt: skip
    assert tokens["expires_in"] == 3600
    assert tokens["token_type"] == "Bearer"
    assert tokens["scope"] == "openid offline_access"
    assert tokens["userId"] == rp.user["id"]
    id_token = claims(tokens["id_token"])
    assert id_token["iss"] == rp.tenant["issuer"]
    assert id_token["sub"] == rp.user["id"]
    assert id_token["aud"] == rp.client_id
    assert id_token["nonce"] == "n-0S6_WzA2Mj"
    assert id_token["at_hash"] == half_hash(tokens["access_token"])
    assert id_token["c_hash"] == half_hash(answer["code"])
    access_token = claims(tokens["access_token"])
    assert access_token["sid"] == tokens["refresh_token_id"]
    assert id_token["sid"] not in {None, access_token["sid"]}
    assert access_token["authenticationType"] == "PASSWORD"
    assert access_token["applicationId"] == rp.client_id
    assert access_token["roles"] == []
    assert header(tokens["access_token"])["gty"] == ["authorization_code"]
    info = await http.get("/oauth2/userinfo", headers={"Authorization": f"Bearer {tokens['access_token']}"})
    assert info.status_code == 200
    assert info.headers["Content-Type"] == "application/json"
    assert info.json() == {"sub": rp.user["id"]}


@pytest.mark.requirement("certification-authorize-8", "contract-token-response-1")
async def test_minimal_request_gives_no_id_token_and_no_refresh_token(rp, browser, http):
    tokens = await rp.tokens(http, browser, scope=None)
    assert tokens.keys() == {"access_token", "expires_in", "token_type", "userId"}


@pytest.mark.requirement("contract-token-response-3", "oauth-2.2-25")
async def test_client_without_refresh_tokens_gets_none(rp, browser, http):
    await rp.configure(generateRefreshTokens=False)
    assert "refresh_token" not in await rp.tokens(http, browser)


@pytest.mark.requirement("certification-authorize-1", "service-12")
async def test_request_may_be_posted_by_another_site(rp, browser, http):
    headers = {"Origin": "https://app.example.com", "Sec-Fetch-Site": "cross-site"}
    shown = await browser.post("/oauth2/authorize", data=rp.query(), headers=headers)
    assert shown.status_code == 200
    answer = response(await rp.submit(browser, shown))
    assert (await rp.exchange(http, answer["code"])).status_code == 200


@pytest.mark.requirement("oauth-0.3-1")
async def test_tenant_may_be_in_the_path(rp, browser):
    shown = await browser.get(f"/{rp.tenant['id']}/oauth2/authorize", params=rp.query())
    assert relying_party.page(shown).forms[0]["action"] == f"/{rp.tenant['id']}/oauth2/authorize"
    assert "code" in response(await rp.submit(browser, shown))


@pytest.mark.requirement("certification-authorize-5", "contract-authorize-response-2", "service-12")
async def test_session_responds_without_a_page(rp, browser, http):
    first = await rp.tokens(http, browser)
    again = await rp.authorize(browser)
    assert again.status_code == 302
    second = (await rp.exchange(http, response(again)["code"])).json()
    assert claims(second["access_token"])["authenticationType"] == "PING"
    assert claims(second["id_token"])["auth_time"] == claims(first["id_token"])["auth_time"]


@pytest.mark.requirement("contract-token-1", "oauth-2.1-1", "service-13")
@pytest.mark.parametrize("method", ["basic", "post"])
async def test_client_authenticates_by_header_or_form(rp, browser, http, method):
    form = {"grant_type": "authorization_code", "code": await rp.code(browser), "redirect_uri": REDIRECT_URI}
    if method == "basic":
        answer = await http.post("/oauth2/token", data=form, auth=(rp.client_id, rp.secret))
    else:
        answer = await rp.token(http, **form)
    assert answer.status_code == 200, answer.text


@pytest.mark.requirement("contract-authorize-response-5", "contract-states-2", "oauth-1.3-3")
async def test_user_state_reports_missing_steps(rp, browser, new_browser, api):
    rp.user = await relying_party.make_user(api, rp.tenant["id"])
    assert (await rp.log_in(browser))["userState"] == "AuthenticatedNotRegistered"


@pytest.mark.requirement(
    "contract-authorize-locale", "contract-authorize-metaData.device.description", "contract-authorize-response-5"
)
async def test_locale_and_device_are_passed_through(rp, browser, service, http):
    device = {"metaData.device.name": "phone", "metaData.device.description": "my phone"}
    answer = await rp.log_in(browser, locale="fr_CA", **device)
    assert answer["locale"] == "fr_CA"
    tokens = (await rp.exchange(http, answer["code"])).json()
    record = await internals.store(service, "refresh_tokens").find(rp.tenant["id"], tokens["refresh_token_id"])
    assert record["metaData"]["device"]["name"] == "phone"
    assert record["metaData"]["device"]["description"] == "my phone"
    assert record["metaData"]["scopes"] == ["openid", "offline_access"]


@pytest.mark.requirement("certification-authorize-10", "contract-authorize-state")
async def test_state_is_returned_unchanged(rp, browser):
    state = "-._~" + "aZ09" * 30 + "~._-"
    assert (await rp.log_in(browser, state=state))["state"] == state


@pytest.mark.requirement("oauth-1.2-query")
async def test_redirect_uri_with_a_query_keeps_it(rp, browser):
    uri = REDIRECT_URI + "?tenant=one"
    await rp.configure(authorizedRedirectURLs=[uri])
    answer = await rp.submit(browser, await rp.authorize(browser, redirect_uri=uri))
    assert answer.headers["Location"].startswith(uri + "&code=")


@pytest.mark.requirement("certification-authorize-6", "oauth-0.1-5")
async def test_unknown_parameters_and_hints_are_never_an_error(rp, browser):
    extra = {
        "foo": "bar", "display": "popup", "ui_locales": "se", "claims_locales": "se", "acr_values": "1 2",
        "login_hint": "unknown@example.com", "id_token_hint": "not-a-token", "claims": "{}",
    }  # fmt: skip
    assert "code" in await rp.log_in(browser, **extra)


@pytest.mark.requirement("contract-authorize-response_mode", "oauth-1.3-5")
@pytest.mark.parametrize("mode", ["query", "fragment", "form_post"])
async def test_code_is_returned_in_every_response_mode(rp, browser, mode):
    shown = await rp.authorize(browser, response_mode=mode)
    answer = await rp.submit(browser, shown)
    assert "code" in response(answer)
    if mode == "form_post":
        assert answer.status_code == 200
    else:
        assert {"query": "?code=", "fragment": "#code="}[mode] in answer.headers["Location"]


@pytest.mark.requirement("certification-discovery-4", "service-17")
@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "HS256"])
async def test_application_signs_with_its_own_key(rp, browser, http, api, algorithm):
    key = {"algorithm": algorithm, "name": f"key of {rp.client_id}"}
    if algorithm == "RS256":
        key["length"] = 2048
    made = await api.post("/api/key/generate", json={"key": key})
    assert made.status_code == 200, made.text
    key_id = made.json()["key"]["id"]
    settings = {"enabled": True, "accessTokenKeyId": key_id, "idTokenKeyId": key_id, "timeToLiveInSeconds": 77}
    await rp.patch(f"/api/application/{rp.client_id}", {"application": {"jwtConfiguration": settings}})
    tokens = await rp.tokens(http, browser)
    assert tokens["expires_in"] == 77
    for name in ("access_token", "id_token"):
        assert header(tokens[name])["alg"] == algorithm
        assert header(tokens[name])["kid"] == made.json()["key"]["kid"]
    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    assert (await http.get("/oauth2/userinfo", headers=bearer)).status_code == 200


@pytest.mark.requirement(
    "certification-authorize-9", "contract-authorize-response-6", "contract-authorize-response_type", "oauth-1.3-2"
)
@pytest.mark.parametrize("response_type", ["token", "id_token", "token id_token", "id_token token"])
async def test_implicit_grant_returns_tokens(rp, browser, http, response_type):
    await rp.configure(enabledGrants=["implicit"])
    scope = "profile" if response_type == "token" else "openid profile offline_access"
    answer = await rp.log_in(browser, response_type=response_type, scope=scope, nonce="n")
    words = response_type.split()
    assert ("access_token" in answer) == ("token" in words)
    assert ("id_token" in answer) == ("id_token" in words)
    assert "code" not in answer
    assert "refresh_token" not in answer
    assert answer["state"] == "the-state"
    assert answer["iss"] == rp.tenant["issuer"]
    if "token" in words:
        assert answer["token_type"] == "Bearer"
        assert answer["expires_in"] == "3600"
        assert header(answer["access_token"])["gty"] == ["implicit"]
    if "id_token" in words:
        assert claims(answer["id_token"])["nonce"] == "n"
        assert "c_hash" not in claims(answer["id_token"])
        assert ("at_hash" in claims(answer["id_token"])) == ("token" in words)
