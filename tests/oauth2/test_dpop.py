"""DPoP (RFC 9449) over HTTP: bound tokens and invalid proofs."""

from __future__ import annotations

import asyncio
import time

import pytest

from identity.ids import new_id
from identity.tokens import dpop
from tests import internals
from tests.dpop import ClientKey
from tests.oauth2.devices import DEVICE_GRANT, Device, device_client
from tests.relying_party import PASSWORD, PKCE, REDIRECT_URI, VERIFIER, claims, header, page, response

ALGORITHMS = " ".join(sorted(dpop.ALGORITHMS))
TOKEN = "/oauth2/token"
USERINFO = "/oauth2/userinfo"


@pytest.fixture
def key() -> ClientKey:
    return ClientKey()


async def token_request(rp, http, headers, **form):
    """A token request with headers."""
    merged = {"client_id": rp.client_id, "client_secret": rp.secret, **form}
    return await http.post(TOKEN, data={k: v for k, v in merged.items() if v is not None}, headers=headers)


def exchange(code: str, **more):
    """The form that exchanges a code."""
    return {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT_URI, **more}


async def bound(rp, browser, http, key, **changes):
    """The tokens of a code that was exchanged with a proof."""
    answer = await token_request(
        rp, http, key.header(http, "POST", TOKEN), **exchange(await rp.code(browser, **changes))
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(answer, error: str, reason: str | None = None, status: int = 400) -> None:
    assert answer.status_code == status, answer.text
    assert (answer.json()["error"], answer.json().get("error_reason")) == (error, reason)


def rejected(answer, error: str, reason: str | None, scheme: str = "DPoP") -> None:
    """A refusal of a protected resource, with its challenge (RFC 9449 section 7.1)."""
    refused(answer, error, reason, 401)
    expected = f'DPoP error="{error}", algs="{ALGORITHMS}"'
    if scheme == "Bearer":
        expected = f'Bearer error="{error}", DPoP algs="{ALGORITHMS}"'
    assert answer.headers["WWW-Authenticate"] == expected


@pytest.mark.requirement("oauth-2.10-11", "oauth-2.2-9")
async def test_code_gives_a_token_that_is_bound_to_the_key(rp, browser, http, key):
    tokens = await bound(rp, browser, http, key)
    assert tokens["token_type"] == "DPoP"
    assert claims(tokens["access_token"])["cnf"] == {"jkt": key.thumbprint}
    assert "cnf" not in claims(tokens["id_token"])
    for method in ("GET", "POST"):
        headers = key.shown(http, tokens["access_token"], USERINFO, method)
        answer = await http.request(method, USERINFO, headers=headers)
        assert answer.status_code == 200, answer.text
        assert answer.json() == {"sub": rp.user["id"]}


@pytest.mark.requirement("oauth-2.2-9")
async def test_without_a_proof_tokens_are_bearer_tokens(rp, browser, http):
    tokens = await rp.tokens(http, browser)
    assert tokens["token_type"] == "Bearer"
    assert "cnf" not in claims(tokens["access_token"])


async def test_tenant_in_the_path_is_part_of_htu(rp, browser, http, key):
    path = f"/{rp.tenant['id']}/oauth2/token"
    form = {**exchange(await rp.code(browser)), "client_id": rp.client_id, "client_secret": rp.secret}
    refused(await http.post(path, data=form, headers=key.header(http, "POST", TOKEN)), "invalid_dpop_proof")
    answer = await http.post(path, data=form, headers=key.header(http, "POST", path))
    assert answer.json()["token_type"] == "DPoP"


async def test_htu_uses_the_address_of_a_trusted_proxy(rp, browser, http, key):
    headers = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "id.example.com"}
    proof = key.proof("POST", "https://id.example.com/oauth2/token")
    form = exchange(await rp.code(browser))
    refused(await token_request(rp, http, {**headers, **key.header(http, "POST", TOKEN)}, **form), "invalid_dpop_proof")
    assert (await token_request(rp, http, {**headers, "DPoP": proof}, **form)).status_code == 200


BAD_PROOFS = {
    "method": {"htm": "GET"},
    "address": {"htu": "https://elsewhere.example.com/oauth2/token"},
    "no address": {"htu": None},
    "no jti": {"jti": None},
    "no time": {"iat": None},
    "old": {"iat": int(time.time()) - 3600},
    "early": {"iat": int(time.time()) + 3600},
    "type": {"header": {"typ": "JWT"}},
    "unsigned": {"header": {"alg": "none"}},
    "another key": {"header": {"jwk": ClientKey().jwk}},
    "no key": {"header": {"jwk": None}},
}


@pytest.mark.requirement("error-invalid_dpop_proof", "oauth-2.2-9")
async def test_attack_40_invalid_proof_is_rejected_without_consuming_the_code(rp, browser, http, key):
    code = await rp.code(browser)
    for changes in BAD_PROOFS.values():
        answer = await token_request(rp, http, key.header(http, "POST", TOKEN, **changes), **exchange(code))
        refused(answer, "invalid_dpop_proof")
        assert answer.json()["error_description"]
    refused(await token_request(rp, http, {"DPoP": "nonsense"}, **exchange(code)), "invalid_dpop_proof")
    refused(await token_request(rp, http, {"DPoP": ""}, **exchange(code)), "invalid_dpop_proof")
    private = {"jwk": {**key.jwk, "d": key.d}}
    answer = await token_request(rp, http, key.header(http, "POST", TOKEN, header=private), **exchange(code))
    refused(answer, "invalid_dpop_proof")
    assert key.d not in answer.text
    twice = [("DPoP", key.header(http, "POST", TOKEN)["DPoP"]) for _ in range(2)]
    refused(await token_request(rp, http, twice, **exchange(code)), "invalid_dpop_proof")
    answer = await token_request(rp, http, key.header(http, "POST", TOKEN), **exchange(code))
    assert answer.status_code == 200


@pytest.mark.requirement("attack-40")
async def test_attack_40_one_of_64_racing_uses_of_a_proof_succeeds(rp, browser, http, key):
    tokens = await rp.tokens(http, browser)
    headers = key.header(http, "POST", TOKEN)
    form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    answers = await asyncio.gather(*(token_request(rp, http, headers, **form) for _ in range(64)))
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 63
    for answer in answers:
        if answer.status_code == 400:
            refused(answer, "invalid_dpop_proof")


async def test_used_proof_is_stored_until_it_expires(rp, browser, http, key, service):
    proof = key.header(http, "POST", TOKEN, iat=int(time.time()) + 50)
    assert (await token_request(rp, http, proof, **exchange(await rp.code(browser)))).status_code == 200
    redis = internals.redis(service)
    keys = [name async for name in redis.client.scan_iter(redis.key("used", "dpop", rp.tenant["id"], "*"))]
    assert len(keys) == 1
    assert 110 < await redis.client.ttl(keys[0]) <= 122


@pytest.mark.requirement("attack-40")
async def test_attack_40_proof_is_consumed_at_a_protected_resource(rp, browser, http, key):
    token = (await bound(rp, browser, http, key))["access_token"]
    headers = key.shown(http, token, USERINFO)
    assert (await http.get(USERINFO, headers=headers)).status_code == 200
    rejected(await http.get(USERINFO, headers=headers), "invalid_dpop_proof", None)


@pytest.mark.requirement("oauth-12-16")
async def test_bound_token_is_rejected_as_bearer_token(rp, browser, http, key):
    token = (await bound(rp, browser, http, key))["access_token"]
    bearer = {"Authorization": f"Bearer {token}"}
    for headers in (bearer, {**key.shown(http, token, USERINFO), **bearer}):
        rejected(await http.get(USERINFO, headers=headers), "invalid_token", "access_token_invalid", "Bearer")
    answer = await http.post(USERINFO, data={"access_token": token})
    rejected(answer, "invalid_token", "access_token_invalid", "Bearer")


@pytest.mark.requirement("oauth-12-16")
async def test_bearer_token_is_rejected_with_the_dpop_scheme(rp, browser, http, key):
    token = (await rp.tokens(http, browser))["access_token"]
    answer = await http.get(USERINFO, headers=key.shown(http, token, USERINFO))
    rejected(answer, "invalid_token", "access_token_invalid")


@pytest.mark.requirement("attack-40")
async def test_attack_40_protected_resource_checks_key_and_ath(rp, browser, http, key):
    token = (await bound(rp, browser, http, key))["access_token"]
    other = (await bound(rp, browser, http, key))["access_token"]
    rejected(await http.get(USERINFO, headers={"Authorization": f"DPoP {token}"}), "invalid_dpop_proof", None)
    answer = await http.get(USERINFO, headers=ClientKey().shown(http, token, USERINFO))
    rejected(answer, "invalid_token", "access_token_invalid")
    for changes in ({"ath": None}, {"ath": claims(token)["jti"]}, {"htm": "POST"}, {"htu": str(http.base_url)}):
        answer = await http.get(USERINFO, headers=key.shown(http, token, USERINFO, **changes))
        rejected(answer, "invalid_dpop_proof", None)
    swapped = {**key.shown(http, other, USERINFO), "Authorization": f"DPoP {token}"}
    rejected(await http.get(USERINFO, headers=swapped), "invalid_dpop_proof", None)
    form = {"access_token": token}
    answer = await http.post(USERINFO, data=form, headers=key.shown(http, token, USERINFO, "POST"))
    refused(answer, "invalid_request", "unknown")


@pytest.mark.requirement("oauth-12-16")
async def test_missing_token_challenges_with_both_schemes(http):
    answer = await http.get(USERINFO)
    assert answer.headers["WWW-Authenticate"] == f'Bearer, DPoP algs="{ALGORITHMS}"'
    for scheme in ("DPoP", "dpop "):
        answer = await http.get(USERINFO, headers={"Authorization": scheme})
        refused(answer, "invalid_token", "access_token_required", 401)
        assert answer.headers["WWW-Authenticate"] == f'DPoP algs="{ALGORITHMS}"'
    rejected(await http.get(USERINFO, headers={"Authorization": "DPoP x"}), "invalid_token", "access_token_malformed")


@pytest.mark.requirement("oauth-2.10-11")
async def test_introspection_returns_the_key_thumbprint(rp, browser, http, key):
    token = (await bound(rp, browser, http, key))["access_token"]
    form = {"client_id": rp.client_id, "client_secret": rp.secret}
    introspection = (await http.post("/oauth2/introspect", data={**form, "token": token})).json()
    assert (introspection["active"], introspection["token_type"], introspection["cnf"]) == (
        True,
        "DPoP",
        {"jkt": key.thumbprint},
    )
    plain = (await rp.tokens(http, browser))["access_token"]
    introspection = (await http.post("/oauth2/introspect", data={**form, "token": plain})).json()
    assert introspection["active"] is True
    assert not introspection.keys() & {"cnf", "token_type"}


@pytest.mark.requirement("oauth-12-19")
async def test_application_may_bind_every_token(rp, browser, http, key):
    await rp.configure(dpopBoundAccessTokens=True, enabledGrants=["authorization_code", "implicit", "refresh_token"])
    code = await rp.code(browser)
    refused(await rp.exchange(http, code), "invalid_dpop_proof")
    answer = await token_request(rp, http, key.header(http, "POST", TOKEN), **exchange(code))
    assert answer.json()["token_type"] == "DPoP"
    refused(await rp.refresh(http, answer.json()["refresh_token"]), "invalid_dpop_proof")
    given = response(await rp.authorize(browser, response_type="token", scope=None))
    assert (given["error"], given["error_reason"]) == ("unsupported_response_type", "invalid_response_type")
    assert "code" in response(await rp.authorize(browser))


@pytest.mark.requirement("oauth-2.2-9")
async def test_password_grant_binds_its_token(rp, http, key):
    await rp.configure(enabledGrants=["password"])
    form = {"grant_type": "password", "username": rp.login_id, "password": PASSWORD}
    answer = await token_request(rp, http, key.header(http, "POST", TOKEN), **form)
    assert answer.json()["token_type"] == "DPoP"
    assert claims(answer.json()["access_token"])["cnf"] == {"jkt": key.thumbprint}


@pytest.mark.requirement("oauth-12-17")
async def test_refresh_token_of_a_public_client_is_bound_to_the_key(rp, browser, http, key):
    await rp.configure(clientAuthenticationPolicy="NotRequiredWhenUsingPKCE")
    code = await rp.code(browser, **PKCE)
    form = exchange(code, client_secret=None, code_verifier=VERIFIER)
    tokens = (await token_request(rp, http, key.header(http, "POST", TOKEN), **form)).json()
    refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], "client_secret": None}
    refused(await token_request(rp, http, {}, **refresh), "invalid_grant", "unknown")
    other = ClientKey().header(http, "POST", TOKEN)
    refused(await token_request(rp, http, other, **refresh), "invalid_grant", "unknown")
    answer = await token_request(rp, http, key.header(http, "POST", TOKEN), **refresh)
    assert claims(answer.json()["access_token"])["cnf"] == {"jkt": key.thumbprint}


@pytest.mark.requirement("oauth-12-17")
async def test_refresh_token_stays_bound_when_it_gets_another_value(rp, browser, http, key):
    await rp.patch(
        f"/api/application/{rp.client_id}",
        {"application": {"jwtConfiguration": {"enabled": True, "refreshTokenUsagePolicy": "OneTimeUse"}}},
    )
    await rp.configure(clientAuthenticationPolicy="NotRequired")
    code = await rp.code(browser)
    tokens = (
        await token_request(rp, http, key.header(http, "POST", TOKEN), **exchange(code, client_secret=None))
    ).json()
    refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], "client_secret": None}
    rotated = (await token_request(rp, http, key.header(http, "POST", TOKEN), **refresh)).json()
    assert rotated["refresh_token"] != tokens["refresh_token"]
    refresh["refresh_token"] = rotated["refresh_token"]
    refused(await token_request(rp, http, {}, **refresh), "invalid_grant", "unknown")
    assert (await token_request(rp, http, key.header(http, "POST", TOKEN), **refresh)).status_code == 200


@pytest.mark.requirement("oauth-12-17")
async def test_client_that_authenticates_may_change_its_key(rp, browser, http, key):
    tokens = await bound(rp, browser, http, key)
    refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    other = ClientKey()
    answer = await token_request(rp, http, other.header(http, "POST", TOKEN), **refresh)
    assert claims(answer.json()["access_token"])["cnf"] == {"jkt": other.thumbprint}
    assert (await token_request(rp, http, {}, **refresh)).json()["token_type"] == "Bearer"


@pytest.mark.requirement("oauth-1.1-4")
async def test_dpop_jkt_binds_the_code(rp, browser, http, key):
    for headers in ({}, ClientKey().header(http, "POST", TOKEN)):
        code = await rp.code(browser, dpop_jkt=key.thumbprint)
        refused(await token_request(rp, http, headers, **exchange(code)), "invalid_grant", "unknown")
        right = await token_request(rp, http, key.header(http, "POST", TOKEN), **exchange(code))
        refused(right, "invalid_grant", "auth_code_not_found")  # the attempt consumed it
    assert (await bound(rp, browser, http, key, dpop_jkt=key.thumbprint))["token_type"] == "DPoP"


@pytest.mark.requirement("oauth-1.1-4")
async def test_dpop_jkt_is_kept_by_the_login_form(rp, browser, http, key):
    shown = await rp.authorize(browser, dpop_jkt=key.thumbprint)
    assert page(shown).forms[0]["fields"]["dpop_jkt"] == key.thumbprint


@pytest.mark.requirement("oauth-1.1-4")
async def test_invalid_dpop_jkt_is_rejected(rp, browser):
    given = response(await rp.authorize(browser, dpop_jkt="x"))
    assert (given["error"], given["error_reason"]) == ("invalid_request", "unknown")


@pytest.mark.requirement("oauth-12-18")
async def test_pushed_request_binds_the_code_by_its_proof(rp, browser, http, key):
    form = {**rp.query(), "client_secret": rp.secret}
    wrong = {**form, "dpop_jkt": ClientKey().thumbprint}
    answer = await http.post("/oauth2/par", data=wrong, headers=key.header(http, "POST", "/oauth2/par"))
    refused(answer, "invalid_dpop_proof")
    answer = await http.post("/oauth2/par", data=form, headers=key.header(http, "POST", TOKEN))
    refused(answer, "invalid_dpop_proof")
    await rp.log_in(browser)
    for more in ({}, {"dpop_jkt": key.thumbprint}):
        proof = key.header(http, "POST", "/oauth2/par")
        answer = await http.post("/oauth2/par", data={**form, **more}, headers=proof)
        query = {"client_id": rp.client_id, "request_uri": answer.json()["request_uri"]}
        code = response(await browser.get("/oauth2/authorize", params=query))["code"]
        answer = await token_request(rp, http, ClientKey().header(http, "POST", TOKEN), **exchange(code))
        refused(answer, "invalid_grant", "unknown")


@pytest.mark.requirement("oauth-2.10-11")
async def test_lambda_cannot_change_the_key(rp, browser, http, key, api):
    body = "function populate(jwt, user, registration) { jwt.cnf = {jkt: 'x'}; jwt.seen = true; }"
    made = await api.post("/api/lambda", json={"lambda": {"name": new_id()[:20], "type": "JWTPopulate", "body": body}})
    configuration = {"accessTokenPopulateId": made.json()["lambda"]["id"]}
    await rp.patch(f"/api/application/{rp.client_id}", {"application": {"lambdaConfiguration": configuration}})
    token = claims((await bound(rp, browser, http, key))["access_token"])
    assert (token["cnf"], token["seen"]) == ({"jkt": key.thumbprint}, True)
    token = claims((await rp.tokens(http, browser))["access_token"])
    assert ("cnf" in token, token["seen"]) == (False, True)


async def test_proof_is_bound_to_the_tenant_of_its_address(rp, browser, http, key):
    headers = key.header(http, "POST", TOKEN)
    first = await token_request(rp, http, headers, **exchange(await rp.code(browser)))
    assert first.status_code == 200
    refused(await token_request(rp, http, headers, **exchange(await rp.code(browser))), "invalid_dpop_proof")


@pytest.mark.requirement("oauth-12-18")
async def test_metadata_lists_the_algorithms(http):
    document = (await http.get("/.well-known/openid-configuration")).json()
    assert document["dpop_signing_alg_values_supported"] == ALGORITHMS.split()
    assert not {"none", "HS256"} & set(document["dpop_signing_alg_values_supported"])


async def test_proofs_are_not_logged(rp, browser, http, key, capsys):
    await rp.configure(debug=True)
    proof = key.header(http, "POST", TOKEN, htm="GET")
    refused(await token_request(rp, http, proof, **exchange("x")), "invalid_dpop_proof")
    out, err = capsys.readouterr()
    assert proof["DPoP"] not in out + err
    assert header(proof["DPoP"])["jwk"]["x"] not in out + err


@pytest.mark.requirement("oauth-12-16", "oauth-2.2-9")
async def test_device_binds_its_tokens_with_a_fresh_proof_each_time(api, http, key):
    rp = await device_client(api)
    device = await Device.begin(rp, http, scope="openid offline_access")
    form = {"grant_type": DEVICE_GRANT, "device_code": device.device_code, "client_secret": None}
    refused(await token_request(rp, http, key.header(http, "POST", TOKEN), **form), "authorization_pending")
    await device.approved(http)
    tokens = (await token_request(rp, http, key.header(http, "POST", TOKEN), **form)).json()
    assert (tokens["token_type"], claims(tokens["access_token"])["cnf"]) == ("DPoP", {"jkt": key.thumbprint})
    refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], "client_secret": None}
    refused(await token_request(rp, http, {}, **refresh), "invalid_grant", "unknown")
    other = await Device.begin(rp, http)
    approval = {"client_id": rp.client_id, "client_secret": rp.secret, "user_code": other.user_code}
    answer = await http.post("/oauth2/device/approve", data={**approval, "token": tokens["access_token"]})
    refused(answer, "invalid_token", "access_token_invalid")


@pytest.mark.requirement("error-use_dpop_nonce", "oauth-12-20")
async def test_application_may_require_nonces_in_proofs(rp, browser, http, key, clock):
    code = await rp.code(browser)
    await rp.configure(dpopNonceRequired=True)
    answer = await token_request(rp, http, key.header(http, "POST", TOKEN), **exchange(code))
    refused(answer, "use_dpop_nonce")
    nonce = answer.headers["DPoP-Nonce"]
    for wrong in (nonce[:-1], "", 1):
        answer = await token_request(rp, http, key.header(http, "POST", TOKEN, nonce=wrong), **exchange(code))
        refused(answer, "use_dpop_nonce")
    answer = await token_request(rp, http, key.header(http, "POST", TOKEN, nonce=nonce), **exchange(code))
    assert answer.status_code == 200
    assert "DPoP-Nonce" not in answer.headers
    token = answer.json()["access_token"]
    answer = await http.get(USERINFO, headers=key.shown(http, token, USERINFO))
    rejected(answer, "use_dpop_nonce", None)
    assert len(answer.headers["DPoP-Nonce"]) == 43
    answer = await http.get(USERINFO, headers=key.shown(http, token, USERINFO, nonce=nonce))
    assert answer.status_code == 200
    form = {**rp.query(), "client_secret": rp.secret}
    answer = await http.post("/oauth2/par", data=form, headers=key.header(http, "POST", "/oauth2/par"))
    refused(answer, "use_dpop_nonce")
    clock.advance(seconds=700)
    later = {"nonce": nonce, "iat": int(time.time()) + 700}
    answer = await http.get(USERINFO, headers=key.shown(http, token, USERINFO, **later))
    rejected(answer, "use_dpop_nonce", None)
    assert answer.headers["DPoP-Nonce"] != nonce


@pytest.mark.requirement("oauth-12-20")
async def test_nonce_is_ignored_if_not_required(rp, browser, http, key):
    headers = key.header(http, "POST", TOKEN, nonce="whatever")
    assert (await token_request(rp, http, headers, **exchange(await rp.code(browser)))).status_code == 200


async def test_openapi_document_lists_the_dpop_header(http):
    paths = (await http.get("/api/openapi.json")).json()["paths"]
    proof = {"$ref": "#/components/parameters/proof"}
    for path, method in ((TOKEN, "post"), ("/oauth2/par", "post"), (USERINFO, "get"), (USERINFO, "post")):
        assert proof in paths[path][method]["parameters"]
    assert proof not in paths["/oauth2/introspect"]["post"].get("parameters", [])
