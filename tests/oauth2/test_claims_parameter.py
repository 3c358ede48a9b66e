"""The claims parameter (OpenID Connect Core 5.5)."""

from __future__ import annotations

import json

import pytest

from tests import relying_party
from tests.relying_party import REDIRECT_URI, claims, response

MEMBERS = {"firstName": "Ada", "lastName": "Lovelace", "mobilePhone": "+441234567890", "data": {"nickname": "Countess"}}
PROTOCOL = {
    "tid",
    "authenticationType",
    "aud",
    "auth_time",
    "exp",
    "gty",
    "iat",
    "iss",
    "jti",
    "sub",
    "scope",
    "tty",
    "at_hash",
    "c_hash",
    "sid",
}


def claims_parameter(**members) -> str:
    return json.dumps(members)


async def get_userinfo(http, token: str) -> dict:
    answer = await http.get("/oauth2/userinfo", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.fixture
async def ada(rp, api):
    """The relying party of a user with many claims."""
    rp.user = await relying_party.make_user(api, rp.tenant["id"], rp.client_id, **MEMBERS)
    return rp


@pytest.mark.requirement("certification-authorize-7", "oauth-1.1-7")
async def test_requested_claims_are_returned_where_requested(ada, browser, http):
    request = claims_parameter(
        userinfo={"given_name": None, "nickname": {"essential": True}, "http://example.info/claims": None},
        id_token={"email": {"essential": True}, "phone_number": None, "picture": {"essential": True}},
        unheard_of={"x": 1},
    )
    tokens = await ada.tokens(http, browser, scope="openid", claims=request)
    id_token = claims(tokens["id_token"])
    assert id_token.keys() - PROTOCOL == {"email", "phone_number"}
    assert (id_token["email"], id_token["phone_number"]) == (ada.login_id, "+441234567890")
    userinfo = await get_userinfo(http, tokens["access_token"])
    assert userinfo == {"sub": ada.user["id"], "given_name": "Ada", "nickname": "Countess"}


@pytest.mark.requirement("certification-authorize-7")
async def test_requested_claims_survive_refresh(ada, browser, http):
    request = claims_parameter(userinfo={"given_name": None}, id_token={"name": None})
    first = await ada.tokens(http, browser, scope="openid offline_access", claims=request)
    refreshed = (await ada.refresh(http, first["refresh_token"])).json()
    assert claims(refreshed["id_token"])["name"] == "Ada Lovelace"
    assert await get_userinfo(http, refreshed["access_token"]) == {"sub": ada.user["id"], "given_name": "Ada"}


@pytest.mark.requirement("oauth-12-25")
async def test_requested_claims_are_in_implicit_id_tokens(ada, browser, http):
    await ada.configure(enabledGrants=["implicit"])
    request = claims_parameter(userinfo={"email": None}, id_token={"given_name": None})
    answer = await ada.log_in(browser, response_type="token id_token", scope="openid", nonce="n", claims=request)
    assert claims(answer["id_token"])["given_name"] == "Ada"
    assert (await get_userinfo(http, answer["access_token"])).keys() == {"sub", "email"}


async def test_claims_parameter_requires_openid(ada, browser, http):
    await ada.configure(scopeHandlingPolicy="Compatibility")
    request = claims_parameter(userinfo={"nickname": None})
    tokens = await ada.tokens(http, browser, scope="email", claims=request)
    assert "nickname" not in await get_userinfo(http, tokens["access_token"])
    tokens = await ada.tokens(http, browser, scope="openid", claims=request)
    userinfo = await get_userinfo(http, tokens["access_token"])
    assert userinfo["nickname"] == "Countess"
    assert "userinfo_claims" not in userinfo


@pytest.mark.requirement("oauth-12-25")
async def test_unavailable_claims_are_omitted(ada, browser, http):
    request = claims_parameter(
        userinfo={"given_name": {"value": "Ada"}, "family_name": {"value": "Byron"}},
        id_token={"email_verified": {"values": [True]}, "phone_number": {"values": ["+1", "+2"]}},
    )
    tokens = await ada.tokens(http, browser, scope="openid", claims=request)
    assert await get_userinfo(http, tokens["access_token"]) == {"sub": ada.user["id"], "given_name": "Ada"}
    assert claims(tokens["id_token"]).keys() - PROTOCOL == {"email_verified"}


@pytest.mark.requirement("oauth-12-25")
async def test_claims_cannot_bypass_disabled_scopes(ada, browser, http):
    await ada.configure(providedScopePolicy={"email": {"enabled": False, "required": False}})
    request = claims_parameter(userinfo={"email": None, "nickname": None})
    tokens = await ada.tokens(http, browser, scope="openid", claims=request)
    assert await get_userinfo(http, tokens["access_token"]) == {"sub": ada.user["id"], "nickname": "Countess"}


@pytest.mark.requirement("oauth-1.1-7")
async def test_claims_cannot_bypass_consent(ada, browser, http):
    await ada.configure(relationship="ThirdParty")
    request = claims_parameter(userinfo={"email": None}, id_token={"email": None})
    tokens = await ada.tokens(http, browser, scope="openid", claims=request)
    assert await get_userinfo(http, tokens["access_token"]) == {"sub": ada.user["id"]}
    assert "email" not in claims(tokens["id_token"])
    await ada.configure(consentMode="NeverPrompt")
    assert "email" in await get_userinfo(http, tokens["access_token"])
    tokens = await ada.tokens(http, browser, scope="openid email", claims=request)
    assert claims(tokens["id_token"])["email"] == ada.login_id


@pytest.mark.requirement("oauth-1.1-7")
@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", "null", "1", '{"userinfo": []}', '{"id_token": "x"}', '{"userinfo": {"email": true}}',
        '{"userinfo": {"email": {"essential": "yes"}}}', '{"id_token": {"acr": {"values": "1"}}}',
        '{"userinfo": {"email": NaN}}', "[" * 2000,
        '{"userinfo": {"email": {"value": ' + "[" * 300 + "]" * 300 + "}}}", '{"x": "' + 9000 * "x" + '"}',
    ],
)  # fmt: skip
async def test_malformed_claims_are_an_invalid_request(rp, browser, text):
    answer = await rp.authorize(browser, claims=text)
    assert answer.headers["Location"].startswith(REDIRECT_URI)
    error = response(answer)
    assert (error["error"], error["error_reason"], error["state"]) == ("invalid_request", "unknown", "the-state")
    assert "claims" in error["error_description"]


async def test_unusual_claim_values_are_stored(rp, browser, http):
    request = claims_parameter(
        userinfo={"email": {"value": {"$where": {"a.b": 2**63}}}, "__proto__": None, "$set": None},
        id_token={"given_name": {"values": [[], {"x": None}, 1e300]}},
    )
    tokens = await rp.tokens(http, browser, claims=request)
    assert (await rp.refresh(http, tokens["refresh_token"])).status_code == 200
    assert await get_userinfo(http, tokens["access_token"]) == {"sub": rp.user["id"]}


@pytest.mark.requirement("oauth-12-25")
async def test_requested_sub_must_match_the_user(rp, browser, api):
    other = await relying_party.make_user(api, rp.tenant["id"], rp.client_id)
    mine, others = (claims_parameter(id_token={"sub": {"value": user["id"]}}) for user in (rp.user, other))
    assert "code" in await rp.log_in(browser, claims=mine)
    assert "code" in response(await rp.authorize(browser, claims=mine, prompt="none"))
    refused = response(await rp.authorize(browser, claims=others, prompt="none"))
    assert (refused["error"], refused["error_reason"]) == ("login_required", "authentication_required")
    shown = await rp.authorize(browser, claims=others)
    refused = response(await rp.submit(browser, shown))
    assert (refused["error"], refused["error_reason"]) == ("login_required", "authentication_required")
    assert "code" in response(await rp.submit(browser, shown, loginId=other["email"]))


@pytest.mark.requirement("oauth-12-25")
async def test_login_of_another_user_than_the_hint_is_rejected(rp, browser, new_browser, http, api):
    hint = (await rp.tokens(http, browser))["id_token"]
    other = await relying_party.make_user(api, rp.tenant["id"], rp.client_id)
    fresh = new_browser()
    shown = await rp.authorize(fresh, id_token_hint=hint)
    refused = response(await rp.submit(fresh, shown, loginId=other["email"]))
    assert refused["error"] == "login_required"
    assert "code" in response(await rp.submit(fresh, shown))


async def test_tokens_without_claims_request_are_unchanged(rp, browser, http):
    tokens = await rp.tokens(http, browser)
    assert "userinfo_claims" not in claims(tokens["access_token"])
