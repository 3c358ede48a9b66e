"""Hybrid response types (OpenID Connect Core 3.3), if enabled by the application."""

from __future__ import annotations

import pytest
from authlib.oidc.core import HybridIDToken
from joserfc import jwt
from joserfc.errors import InvalidClaimError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

from tests.relying_party import REDIRECT_URI, claims, half_hash, header, response

BOTH = ["authorization_code", "implicit", "refresh_token"]
SAME = ("iss", "sub", "aud", "auth_time", "nonce")


@pytest.fixture
async def hybrid(rp):
    """The relying party, with the switch on."""
    await rp.configure(hybridResponseTypesEnabled=True, enabledGrants=BOTH)
    return rp


async def redirected_error(rp, browser, **changes):
    answer = await rp.authorize(browser, **{"nonce": "n", **changes})
    error = response(answer)
    return answer.headers.get("Location", ""), (error["error"], error.get("error_reason")), error


@pytest.mark.requirement("certification-authorize-9", "oauth-12-24")
@pytest.mark.parametrize("response_type", ["code id_token", "code token", "id_token code token"])
async def test_hybrid_response_has_its_types_and_a_usable_code(hybrid, browser, http, response_type):
    words = response_type.split()
    shown = await hybrid.authorize(browser, response_type=response_type, nonce="n-1")
    answered = await hybrid.submit(browser, shown)
    assert answered.headers["Location"].startswith(f"{REDIRECT_URI}#")
    answer = response(answered)
    token_members = {"access_token", "token_type", "expires_in"} if "token" in words else set()
    id_token_members = {"id_token"} if "id_token" in words else set()
    common = {"code", "state", "scope", "userState", "iss"}
    assert answer.keys() == common | token_members | id_token_members
    assert answer["scope"] == "openid offline_access"
    tokens = (await hybrid.exchange(http, answer["code"])).json()
    assert tokens["refresh_token"]
    later = claims(tokens["id_token"])
    assert later["nonce"] == "n-1"
    if "id_token" in words:
        first = claims(answer["id_token"])
        assert {name: first[name] for name in SAME} == {name: later[name] for name in SAME}
        assert first["c_hash"] == half_hash(answer["code"])
        assert first.get("at_hash") == (half_hash(answer["access_token"]) if "token" in words else None)
    if "token" in words:
        assert answer["token_type"] == "Bearer"
        assert header(answer["access_token"])["gty"] == ["implicit"]
        bearer = {"Authorization": f"Bearer {answer['access_token']}"}
        assert (await http.get("/oauth2/userinfo", headers=bearer)).json() == {"sub": hybrid.user["id"]}


@pytest.mark.requirement("audit-b2")
async def test_minimal_hybrid_id_token_has_no_scope_claims(hybrid, browser):
    answer = await hybrid.log_in(browser, response_type="code id_token", scope="openid email", nonce="n")
    assert claims(answer["id_token"])["email"] == hybrid.login_id
    await hybrid.configure(idTokenClaims="Minimal")
    answer = await hybrid.log_in(
        browser, response_type="code id_token", scope="openid email", nonce="n", prompt="login"
    )
    assert "email" not in claims(answer["id_token"])
    answer = await hybrid.log_in(browser, response_type="id_token", scope="openid email", nonce="n", prompt="login")
    assert claims(answer["id_token"])["email"] == hybrid.login_id


async def test_hybrid_response_may_be_posted_but_never_in_a_query(hybrid, browser):
    posted = await hybrid.log_in(browser, response_type="code id_token", nonce="n", response_mode="form_post")
    assert posted.keys() >= {"code", "id_token"}
    for response_type in ("code id_token", "code token", "code id_token token"):
        where, error, _ = await redirected_error(
            hybrid, browser, response_type=response_type, response_mode="query", prompt="none"
        )
        assert error == ("invalid_request", "invalid_response_mode")
        assert where.startswith(f"{REDIRECT_URI}#")


@pytest.mark.requirement("oauth-1.3-6")
async def test_hybrid_types_are_disabled_by_default(rp, browser):
    await rp.configure(enabledGrants=BOTH)
    for response_type in ("code id_token", "code token", "code id_token token"):
        where, error, _ = await redirected_error(rp, browser, response_type=response_type)
        assert error == ("unsupported_response_type", "invalid_response_type")
        assert where.startswith(f"{REDIRECT_URI}?")


async def test_response_type_values_must_not_be_repeated(hybrid, browser):
    _, error, answer = await redirected_error(hybrid, browser, response_type="code code id_token")
    assert error == ("unsupported_response_type", "invalid_response_type")
    assert "code id_token token" in answer["error_description"]


@pytest.mark.requirement("oauth-12-24")
@pytest.mark.parametrize("missing", ["authorization_code", "implicit"])
async def test_hybrid_types_need_both_grants(hybrid, browser, missing):
    await hybrid.configure(enabledGrants=[grant for grant in BOTH if grant != missing])
    where, error, answer = await redirected_error(hybrid, browser, response_type="code id_token")
    assert error == ("unauthorized_client", "grant_type_disabled")
    assert missing in answer["error_description"]
    assert where.startswith(f"{REDIRECT_URI}#")


@pytest.mark.requirement("certification-authorize-8")
async def test_nonce_is_required_for_front_channel_id_tokens(hybrid, browser):
    for response_type in ("code id_token", "code id_token token"):
        where, error, answer = await redirected_error(hybrid, browser, response_type=response_type, nonce=None)
        assert error == ("invalid_request", "unknown")
        assert "nonce" in answer["error_description"]
        assert where.startswith(f"{REDIRECT_URI}#")
    assert "code" in await hybrid.log_in(browser, response_type="code token", nonce=None)


async def test_id_token_needs_the_scope_openid(hybrid, browser):
    _, error, _ = await redirected_error(hybrid, browser, response_type="code id_token", scope="email")
    assert error == ("invalid_scope", "missing_required_scope")


@pytest.mark.requirement("certification-authorize-9")
async def test_hybrid_errors_use_fragment_or_form(hybrid, browser):
    where, error, _ = await redirected_error(hybrid, browser, response_type="code id_token", prompt="none")
    assert error == ("login_required", "authentication_required")
    assert where.startswith(f"{REDIRECT_URI}#")
    where, error, _ = await redirected_error(
        hybrid, browser, response_type="code id_token", prompt="none", response_mode="form_post"
    )
    assert (where, error) == ("", ("login_required", "authentication_required"))


async def test_pkce_binds_the_code_of_a_hybrid_response(hybrid, browser, http):
    await hybrid.configure(proofKeyForCodeExchangePolicy="Required")
    _, error, _ = await redirected_error(hybrid, browser, response_type="code id_token")
    assert error == ("invalid_request", "missing_code_challenge")


@pytest.mark.requirement("attack-20", "oauth-12-24")
async def test_attack_20_replayed_code_revokes_the_front_channel_access_token(hybrid, browser, http):
    answer = await hybrid.log_in(browser, response_type="code token")
    bearer = {"Authorization": f"Bearer {answer['access_token']}"}
    assert (await hybrid.exchange(http, answer["code"])).status_code == 200
    assert (await http.get("/oauth2/userinfo", headers=bearer)).status_code == 200
    assert (await hybrid.exchange(http, answer["code"])).json()["error"] == "invalid_grant"
    assert (await http.get("/oauth2/userinfo", headers=bearer)).status_code == 401


async def test_code_alone_is_returned_in_the_query(hybrid, browser):
    answer = await hybrid.submit(browser, await hybrid.authorize(browser))
    assert answer.headers["Location"].startswith(f"{REDIRECT_URI}?code=")


@pytest.mark.requirement("oauth-12-24")
@pytest.mark.parametrize("algorithm", ["RS256", "ES384"])
async def test_hybrid_id_token_is_valid_for_authlib(hybrid, browser, http, api, algorithm):
    """Hashes and claims as another's client judges them, with digests of two lengths."""
    if algorithm != "RS256":
        made = await api.post("/api/key/generate", json={"key": {"algorithm": algorithm, "name": hybrid.client_id}})
        settings = {"enabled": True, "idTokenKeyId": made.json()["key"]["id"]}
        await hybrid.patch(f"/api/application/{hybrid.client_id}", {"application": {"jwtConfiguration": settings}})
    answer = await hybrid.log_in(browser, response_type="code id_token token", nonce="n-0S6_WzA2Mj")
    keys = KeySet.import_key_set((await http.get("/.well-known/jwks.json")).json())
    registry = JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    token = jwt.decode(answer["id_token"], keys, registry=registry)
    expected = {"iss": {"value": hybrid.tenant["issuer"]}, "aud": {"value": hybrid.client_id}}
    params = {"nonce": "n-0S6_WzA2Mj", "code": answer["code"], "access_token": answer["access_token"]}
    found = HybridIDToken(token.claims, token.header, expected, {**params, "client_id": hybrid.client_id})
    found.validate()
    for name, claim in (("code", "c_hash"), ("access_token", "at_hash"), ("nonce", "nonce")):
        forged = HybridIDToken(token.claims, token.header, expected, {**params, name: "another"})
        with pytest.raises(InvalidClaimError, match=claim):
            forged.validate()
