"""The strict profile over HTTP: conflicting settings and refused requests."""

from __future__ import annotations

import time

import pytest

from identity.ids import new_id
from tests import client_signer, internals, relying_party
from tests.dpop import ClientKey
from tests.relying_party import PASSWORD, PKCE, REDIRECT_URI, VERIFIER, response

STRICT = {"profile": "strict", "proofKeyForCodeExchangePolicy": "Required"}
PUBLIC = {"clientAuthenticationPolicy": "NotRequired"}


async def change(rp, **oauth):
    """Change the oauthConfiguration, whatever the answer."""
    return await rp.api.patch(
        f"/api/application/{rp.client_id}",
        json={"application": {"oauthConfiguration": oauth}},
        headers={"X-FusionAuth-TenantId": rp.tenant["id"], "Content-Type": "application/merge-patch+json"},
    )


async def refused(rp, browser, code: str, word: str, **changes) -> None:
    """An error response of a strict application, which has standard parameters only."""
    error = response(await rp.authorize(browser, **changes))
    assert error.keys() == {"error", "error_description", "iss", "state"}
    assert (error["error"], word in error["error_description"]) == (code, True), error


@pytest.mark.requirement("oauth-12-29")
async def test_baseline_is_the_default_and_changes_nothing(rp, browser, http):
    assert rp.application["oauthConfiguration"]["profile"] == "baseline"
    await rp.configure(profile="baseline", enabledGrants=["authorization_code", "password"])
    assert "access_token" in await rp.tokens(http, browser)
    answer = await rp.token(http, grant_type="password", username=rp.login_id, password=PASSWORD)
    assert answer.status_code == 200


@pytest.mark.requirement("oauth-12-27")
async def test_settings_that_contradict_strict_are_reported_by_name(rp):
    weak = {
        "profile": "strict",
        "authorizedURLValidationPolicy": "AllowWildcards",
        "authorizedRedirectURLs": ["http://app.example.com/", "https://*.app.example.com/"],
        "enabledGrants": ["authorization_code", "implicit", "password"],
        "hybridResponseTypesEnabled": True,
    }
    answer = await change(rp, **weak)
    assert answer.status_code == 400
    errors = answer.json()["fieldErrors"]
    prefix = "application.oauthConfiguration"
    assert errors.keys() == {
        f"{prefix}.authorizedRedirectURLs[0]", f"{prefix}.authorizedRedirectURLs[1]",
        f"{prefix}.authorizedURLValidationPolicy", f"{prefix}.enabledGrants[1]", f"{prefix}.enabledGrants[2]",
        f"{prefix}.hybridResponseTypesEnabled", f"{prefix}.proofKeyForCodeExchangePolicy",
        "application.jwtConfiguration.idTokenKeyId",
    }  # fmt: skip
    [error] = errors[f"{prefix}.proofKeyForCodeExchangePolicy"]
    assert error["code"] == f"[invalid]{prefix}.proofKeyForCodeExchangePolicy"
    assert "RFC 9700 section 2.1.1" in error["message"]
    stored = await rp.api.get(f"/api/application/{rp.client_id}", headers={"X-FusionAuth-TenantId": rp.tenant["id"]})
    assert stored.json()["application"]["oauthConfiguration"]["profile"] == "baseline"


@pytest.mark.requirement("oauth-12-27")
async def test_strict_application_cannot_be_weakened_later(rp):
    await rp.configure_strict()
    for oauth in ({"enabledGrants": ["implicit"]}, {"proofKeyForCodeExchangePolicy": "NotRequired"}):
        assert (await change(rp, **oauth)).status_code == 400
    assert (await change(rp, profile="baseline", proofKeyForCodeExchangePolicy="NotRequired")).status_code == 200


async def test_unknown_profile_is_refused(rp):
    answer = await change(rp, profile="lenient")
    assert "application.oauthConfiguration.profile" in answer.json()["fieldErrors"]


@pytest.mark.requirement("audit-b7-redirects")
async def test_strict_flow_succeeds(rp, browser, http):
    await rp.configure_strict()
    given = await rp.log_in(browser, **PKCE)
    assert given.keys() == {"code", "iss", "state"}
    answer = await rp.exchange(http, given["code"], code_verifier=VERIFIER)
    assert answer.status_code == 200, answer.text
    assert "refresh_token" in answer.json()


@pytest.mark.requirement("audit-b7-redirects", "oauth-12-28", "oauth-2.2-11")
async def test_strict_rejects_excluded_requests(rp, browser, http):
    await rp.configure_strict()
    await refused(rp, browser, "invalid_request", "code_challenge")
    await refused(rp, browser, "unauthorized_client", "implicit is disabled", response_type="id_token", nonce="n")
    await refused(rp, browser, "unsupported_response_type", "must be one of", response_type="code id_token", nonce="n")
    answer = await rp.token(http, grant_type="password", username=rp.login_id, password=PASSWORD)
    assert (answer.status_code, answer.json()["error"]) == (400, "unauthorized_client")
    assert answer.json()["error_reason"] == "grant_type_disabled"
    code = await rp.code(browser, **PKCE)
    answer = await rp.exchange(http, code)
    assert (answer.json()["error"], answer.json()["error_reason"]) == ("invalid_grant", "missing_code_verifier")


@pytest.mark.requirement("oauth-12-28")
async def test_strict_rules_apply_to_stored_settings(rp, browser, http, service):
    """For a document written directly to the database."""
    await rp.configure(enabledGrants=["authorization_code", "implicit", "password"], hybridResponseTypesEnabled=True)
    weak = {"authorizedRedirectURLs": [REDIRECT_URI, "http://app.example.com/cb"], "profile": "strict"}
    collection = internals.database(service).motor["applications"]
    changes = {f"oauthConfiguration.{name}": value for name, value in weak.items()}
    await collection.update_one({"_id": rp.client_id}, {"$set": changes})
    internals.store(service, "applications").invalidate(rp.client_id)
    await refused(rp, browser, "invalid_request", "code_challenge")
    await refused(rp, browser, "unauthorized_client", "implicit is disabled", response_type="token", scope="email")
    await refused(rp, browser, "unsupported_response_type", "must be one of", response_type="code token")
    answer = await rp.token(http, grant_type="password", username=rp.login_id, password=PASSWORD)
    assert answer.json()["error_reason"] == "grant_type_disabled"
    local = await browser.get(
        "/oauth2/authorize",
        params=rp.query(redirect_uri="http://app.example.com/cb"),
        headers={"Accept": "application/json"},
    )
    assert (local.status_code, local.json()["error_reason"]) == (400, "invalid_redirect_uri")


@pytest.mark.requirement("oauth-12-28")
async def test_codes_of_a_strict_application_expire_within_a_minute(rp, browser, http, service):
    settings = {"authorizationGrantIdTimeToLiveInSeconds": 600}
    await rp.configure_tenant(externalIdentifierConfiguration=settings)
    redis, lives = internals.redis(service), {}
    for name, configure in (("baseline", rp.configure), ("strict", rp.configure_strict)):
        await configure()
        before = {key async for key in redis.client.scan_iter(f"*{rp.tenant['id']}*")}
        await rp.code(browser, **PKCE)
        fresh = {key async for key in redis.client.scan_iter(f"*{rp.tenant['id']}*")} - before
        lives[name] = [await redis.client.ttl(key) for key in fresh if "code" in str(key)]
    assert [ttl > 60 for ttl in lives["baseline"]] == [True]
    assert [0 < ttl <= 60 for ttl in lives["strict"]] == [True]


@pytest.mark.requirement("oauth-12-28")
@pytest.mark.parametrize("oauth", [PUBLIC, {}], ids=["public", "confidential"])
async def test_refresh_tokens_of_a_strict_client_are_for_one_use(rp, browser, http, oauth):
    await rp.configure_strict(**oauth)
    secret = None if oauth else rp.secret

    async def refresh(value: str):
        return await rp.refresh(http, value, client_secret=secret)

    code = await rp.code(browser, **PKCE)
    first = (await rp.exchange(http, code, client_secret=secret, code_verifier=VERIFIER)).json()["refresh_token"]
    rotated = await refresh(first)
    second = rotated.json()["refresh_token"]
    assert second != first
    replay = await refresh(first)
    assert (replay.json()["error"], replay.json()["error_reason"]) == ("invalid_grant", "refresh_token_not_found")
    assert (await refresh(second)).json()["error_reason"] == "refresh_token_not_found"
    bearer = {"Authorization": f"Bearer {rotated.json()['access_token']}"}
    assert (await http.get("/oauth2/userinfo", headers=bearer)).status_code == 401


@pytest.mark.requirement("oauth-12-29")
async def test_refresh_tokens_of_a_baseline_client_follow_the_tenant(rp, browser, http):
    await rp.configure(**PUBLIC)
    code = await rp.code(browser, **PKCE)
    first = (await rp.exchange(http, code, code_verifier=VERIFIER)).json()["refresh_token"]
    for _ in range(2):
        answer = await rp.refresh(http, first)
        assert answer.status_code == 200
        assert "refresh_token" not in answer.json()


@pytest.mark.requirement("oauth-12-28")
async def test_secrets_are_never_read_from_a_query(rp, browser, http):
    await rp.configure_strict()
    code = await rp.code(browser, **PKCE)
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT_URI, "code_verifier": VERIFIER}
    query = {"client_id": rp.client_id, "client_secret": rp.secret}
    answer = await http.post("/oauth2/token", params=query, data={**form, "client_id": rp.client_id})
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")


async def test_strict_application_can_be_created_in_one_request(api):
    made = await relying_party.make(api, tokens=await relying_party.strict_tokens(api), **STRICT)
    assert made.application["oauthConfiguration"]["profile"] == "strict"


FAPI = {"requirePushedAuthorizationRequests": True, "dpopBoundAccessTokens": True}
KEY = client_signer.new_key()


@pytest.mark.requirement("oauth-12-28")
async def test_fapi_requires_a_client_with_a_key(rp):
    """The level of FAPI 2.0: both switches on, and strict."""
    await rp.configure_strict()
    answer = await change(rp, **FAPI)
    [path] = answer.json()["fieldErrors"]
    assert path == "application.oauthConfiguration.clientAuthenticationMethods"
    for one in FAPI:
        assert (await change(rp, **{**dict.fromkeys(FAPI, False), one: True})).status_code == 200


@pytest.mark.requirement("oauth-12-28")
async def test_fapi_2_flow_succeeds_and_weaker_ones_fail(rp, browser, http):
    methods = {"clientAuthenticationMethods": ["private_key_jwt"], "jwks": client_signer.public(KEY)}
    await rp.configure_strict(**FAPI, **methods)
    proofs = ClientKey()

    def signed() -> dict[str, str]:
        form = client_signer.form(client_signer.signed(KEY, client_signer.claims(rp)))
        return {name: value for name, value in form.items() if value is not None}

    await refused(rp, browser, "invalid_request", "push", **PKCE)
    by_secret = {**rp.query(**PKCE), "client_secret": rp.secret}
    assert (await http.post("/oauth2/par", data=by_secret)).status_code == 401
    weak = await http.post("/oauth2/par", data={**rp.query(), **signed()})
    assert (weak.status_code, weak.json()["error_reason"]) == (400, "missing_code_challenge")
    answer = await http.post("/oauth2/par", data={**rp.query(**PKCE), **signed()})
    assert answer.status_code == 201, answer.text
    query = {"client_id": rp.client_id, "request_uri": answer.json()["request_uri"]}
    shown = await browser.get("/oauth2/authorize", params=query, follow_redirects=True)
    code = response(await rp.submit(browser, shown))["code"]
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT_URI, "code_verifier": VERIFIER}
    unbound = await http.post("/oauth2/token", data={**form, **signed()})
    assert (unbound.status_code, unbound.json()["error"]) == (400, "invalid_dpop_proof")
    bound = await http.post(
        "/oauth2/token", data={**form, **signed()}, headers=proofs.header(http, "POST", "/oauth2/token")
    )
    assert bound.status_code == 200, bound.text
    tokens = bound.json()
    assert tokens["token_type"] == "DPoP"
    userinfo = "/oauth2/userinfo"
    assert (await http.get(userinfo, headers={"Authorization": f"Bearer {tokens['access_token']}"})).status_code == 401
    answer = await http.get(userinfo, headers=proofs.shown(http, tokens["access_token"], userinfo))
    assert answer.json() == {"sub": rp.user["id"]}


@pytest.mark.requirement("audit-a9")
async def test_strict_client_signs_no_dpop_proof_with_pkcs1(rp, http):
    key = client_signer.new_key("RS256")

    async def answered(algorithm: str) -> str:
        claims = {
            "jti": new_id(),
            "htm": "POST",
            "htu": str(http.base_url.join("/oauth2/token")),
            "iat": int(time.time()),
        }
        jwk = key.as_dict(private=False)
        proof = client_signer.signed(key, claims, algorithm, kid=None, typ="dpop+jwt", jwk=jwk)
        form = {"grant_type": "authorization_code", "code": "x", "redirect_uri": REDIRECT_URI}
        form |= {"client_id": rp.client_id, "client_secret": rp.secret}
        answer = await http.post("/oauth2/token", data=form, headers={"DPoP": proof})
        return answer.json()["error"]

    assert await answered("RS256") == "invalid_grant"
    await rp.configure_strict()
    assert await answered("RS256") == "invalid_dpop_proof"
    assert await answered("PS256") == "invalid_grant"


@pytest.mark.requirement("audit-b7-id-token-key")
async def test_id_tokens_of_a_strict_application_are_signed_with_es256_ps256_or_eddsa(rp, browser, http, api):
    field = "application.jwtConfiguration.idTokenKeyId"
    answer = await change(rp, **STRICT)
    assert (answer.status_code, list(answer.json()["fieldErrors"])) == (400, [field])
    assert "FAPI 2.0 section 5.4.1" in answer.json()["fieldErrors"][field][0]["message"]
    await rp.configure_strict()
    given = await rp.log_in(browser, **PKCE)
    tokens = (await rp.exchange(http, given["code"], code_verifier=VERIFIER)).json()
    assert relying_party.header(tokens["id_token"])["alg"] == "ES256"
    await rp.patch(f"/api/application/{rp.client_id}", {"application": {"name": new_id()}})


@pytest.mark.requirement("audit-b7-id-token-key")
async def test_tenant_keeps_a_key_that_its_strict_applications_use(rp, api):
    es256 = (await relying_party.strict_tokens(api))["idTokenKeyId"]
    rs256 = rp.tenant["jwtConfiguration"]["idTokenKeyId"]
    await rp.configure_tenant(jwtConfiguration={"idTokenKeyId": es256})
    assert (await change(rp, **STRICT)).status_code == 200
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"], "Content-Type": "application/merge-patch+json"}
    body = {"tenant": {"jwtConfiguration": {"idTokenKeyId": rs256}}}
    answer = await api.patch(f"/api/tenant/{rp.tenant['id']}", json=body, headers=headers)
    assert list(answer.json()["fieldErrors"]) == ["tenant.jwtConfiguration.idTokenKeyId"]
    assert rp.application["name"] in answer.text
    assert (await change(rp, profile="baseline")).status_code == 200
    answer = await api.patch(f"/api/tenant/{rp.tenant['id']}", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
