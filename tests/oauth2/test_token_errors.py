"""The token endpoint: client authentication, grant types, and errors of the code grant."""

from __future__ import annotations

import asyncio
import base64

import pytest

from identity.errors import NotLicensed
from identity.ids import new_id
from identity.web.oauth2 import oauth_handlers
from tests import certificates, internals, plain_http, relying_party
from tests.relying_party import CHALLENGE, PASSWORD, PKCE, REDIRECT_URI, VERIFIER


def failed(answer, status: int, error: str, reason: str | None) -> None:
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert (body["error"], body.get("error_reason")) == (error, reason), body
    assert body["error_description"]
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Content-Type"] == "application/json"
    if status == 401:
        assert answer.headers["WWW-Authenticate"] == 'Basic realm="oauth2"'


FORM = {"grant_type": "authorization_code", "code": "c", "redirect_uri": REDIRECT_URI}


@pytest.mark.requirement("contract-token-2", "oauth-0.1-2")
async def test_body_must_be_a_form(rp, http):
    answer = await http.post("/oauth2/token", json={**FORM, "client_id": rp.client_id})
    failed(answer, 400, "invalid_request", "unknown")


@pytest.mark.requirement("contract-token-3", "oauth-0.1-2")
async def test_query_parameters_are_ignored(rp, http):
    query = {**FORM, "client_id": rp.client_id, "client_secret": rp.secret}
    answer = await http.post("/oauth2/token", params=query, data={"a": "b"})
    failed(answer, 400, "invalid_request", "missing_client_id")


@pytest.mark.requirement("attack-11", "oauth-0.1-3", "reason-unknown")
async def test_repeated_parameter_is_refused(rp, http):
    content = f"grant_type=authorization_code&client_id={rp.client_id}&client_id={rp.client_id}"
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    failed(await http.post("/oauth2/token", content=content, headers=headers), 400, "invalid_request", "unknown")


@pytest.mark.requirement("oauth-0.1-4", "reason-missing_code")
async def test_empty_parameter_is_absent(rp, http):
    failed(await rp.token(http, **{**FORM, "code": ""}), 400, "invalid_request", "missing_code")


@pytest.mark.requirement("contract-token-4", "oauth-2.1-4")
async def test_client_id_is_required(http):
    failed(await http.post("/oauth2/token", data=FORM), 400, "invalid_request", "missing_client_id")


@pytest.mark.requirement("oauth-2.1-12", "oauth-2.1-5")
async def test_scheme_must_be_basic(rp, http):
    answer = await http.post("/oauth2/token", data=FORM, headers={"Authorization": "Digest x"})
    failed(answer, 401, "invalid_client", "invalid_client_authentication_scheme")


@pytest.mark.requirement("oauth-2.1-6")
@pytest.mark.parametrize(
    "credentials", ["!", "é", base64.b64encode(b"\xff\xff").decode(), base64.b64encode(b"x").decode()]
)
async def test_broken_basic_is_refused(rp, http, credentials):
    answer = await http.post("/oauth2/token", data=FORM, headers={"Authorization": f"Basic {credentials}".encode()})
    failed(answer, 401, "invalid_client", "invalid_client_authentication")


@pytest.mark.requirement("contract-authentication-3", "contract-token-4", "oauth-2.1-6")
async def test_wrong_secret_is_rejected_even_if_optional(rp, http):
    failed(await rp.token(http, **FORM, client_secret="x"), 401, "invalid_client", "invalid_client_authentication")
    await rp.configure(clientAuthenticationPolicy="NotRequired")
    failed(await rp.token(http, **FORM, client_secret="x"), 401, "invalid_client", "invalid_client_authentication")


@pytest.mark.requirement("contract-authentication-4", "contract-token-response-6", "oauth-0.1-7", "oauth-2.1-7")
async def test_secret_is_required_by_default(rp, http):
    answer = await rp.token(http, **FORM, client_secret=None)
    failed(answer, 401, "invalid_client", "client_authentication_missing")


@pytest.mark.requirement("attack-24", "oauth-2.1-8")
async def test_attack_24_blank_secret_is_not_an_absent_one(rp, http):
    failed(await rp.token(http, **FORM, client_secret=""), 401, "invalid_client", "missing_client_secret")
    basic = await http.post("/oauth2/token", data=FORM, auth=(rp.client_id, ""))
    failed(basic, 401, "invalid_client", "missing_client_secret")


@pytest.mark.requirement("attack-25", "oauth-2.1-9")
async def test_attack_25_two_different_authentications_are_refused(rp, http, api):
    auth = (rp.client_id, rp.secret)
    answer = await http.post("/oauth2/token", data={**FORM, "client_id": new_id()}, auth=auth)
    failed(answer, 401, "invalid_client", "client_id_mismatch")
    answer = await http.post("/oauth2/token", data={**FORM, "client_secret": "other"}, auth=auth)
    assert answer.json()["error"] in {"invalid_client", "invalid_request"}
    assert answer.status_code in {400, 401}


@pytest.mark.requirement("oauth-2.1-10")
@pytest.mark.parametrize("client_id", ["no-uuid", "00000000-0000-0000-0000-000000000000"])
async def test_unknown_client_is_refused(rp, http, client_id):
    failed(await rp.token(http, **FORM, client_id=client_id), 401, "invalid_client", "invalid_client_id")


@pytest.mark.requirement("oauth-0.3-5")
async def test_tenant_must_match_the_client(rp, http, api):
    other = await relying_party.make(api)
    answer = await rp.token(http, **FORM, tenantId=other.tenant["id"])
    failed(answer, 400, "invalid_request", "invalid_tenant_id")


@pytest.mark.requirement(
    "contract-token-response-6",
    "error-unsupported_grant_type",
    "oauth-2.2-1",
    "reason-invalid_grant_type",
    "reason-missing_grant_type",
)
async def test_grant_type_is_checked(rp, http):
    failed(await rp.token(http, **{**FORM, "grant_type": None}), 400, "invalid_request", "missing_grant_type")
    failed(await rp.token(http, **{**FORM, "grant_type": "magic"}), 400, "unsupported_grant_type", "invalid_grant_type")
    await rp.configure(enabledGrants=["refresh_token"])
    failed(await rp.token(http, **FORM), 400, "unauthorized_client", "grant_type_disabled")


@pytest.mark.requirement("contract-token-5", "oauth-2.2-2")
@pytest.mark.parametrize("name", ["code", "redirect_uri"])
async def test_code_and_redirect_uri_are_required(rp, http, name):
    failed(await rp.token(http, **{**FORM, name: None}), 400, "invalid_request", f"missing_{name}")


@pytest.mark.requirement("error-invalid_grant", "oauth-2.2-3", "reason-auth_code_not_found")
async def test_unknown_code_is_refused(rp, http):
    failed(await rp.token(http, **FORM), 400, "invalid_grant", "auth_code_not_found")


@pytest.mark.requirement("oauth-1.8-1", "oauth-2.2-3", "reason-auth_code_not_found")
async def test_code_expires(rp, browser, http, service):
    code = await rp.code(browser)
    tenant_id = rp.tenant["id"]
    redis = internals.redis(service)
    keys = [key async for key in redis.client.scan_iter(match=f"*code:{tenant_id}:*")]
    assert len(keys) == 1
    assert 0 < await redis.client.ttl(keys[0]) <= 30
    await redis.client.delete(*keys)
    failed(await rp.exchange(http, code), 400, "invalid_grant", "auth_code_not_found")


@pytest.mark.requirement("attack-22", "oauth-1.8-2", "oauth-2.2-3")
async def test_attack_22_code_of_another_client_is_refused_and_used_up(rp, browser, http, api):
    other = await relying_party.make(api, tenant=rp.tenant)
    code = await rp.code(browser)
    failed(await other.exchange(http, code), 400, "invalid_grant", "auth_code_not_found")
    failed(await rp.exchange(http, code), 400, "invalid_grant", "auth_code_not_found")


@pytest.mark.requirement("attack-22")
async def test_attack_22_code_of_another_tenant_is_unknown(rp, browser, http, api):
    other = await relying_party.make(api)
    code = await rp.code(browser)
    failed(await other.exchange(http, code), 400, "invalid_grant", "auth_code_not_found")
    assert (await rp.exchange(http, code)).status_code == 200


@pytest.mark.requirement("attack-22", "oauth-1.6-5", "oauth-2.2-4")
async def test_attack_22_redirect_uri_must_be_that_of_the_request(rp, browser, http):
    await rp.configure(authorizedRedirectURLs=[REDIRECT_URI, REDIRECT_URI + "/"])
    answer = await rp.exchange(http, await rp.code(browser), redirect_uri=REDIRECT_URI + "/")
    failed(answer, 400, "invalid_grant", "invalid_redirect_uri")


@pytest.mark.requirement("attack-23", "audit-b7-verifier", "oauth-2.2-5", "reason-missing_code_verifier")
async def test_attack_23_verifier_dropped_or_empty_is_refused_and_uses_the_code_up(rp, browser, http):
    for verifier in (None, ""):
        code = await rp.code(browser, **PKCE)
        answer = await rp.exchange(http, code, code_verifier=verifier)
        failed(answer, 400, "invalid_grant", "missing_code_verifier")
        answer = await rp.exchange(http, code, code_verifier=VERIFIER)
        failed(answer, 400, "invalid_grant", "auth_code_not_found")


@pytest.mark.requirement(
    "attack-23", "contract-token-5", "oauth-1.8-4", "oauth-2.2-6", "reason-invalid_pkce_code_verifier"
)
@pytest.mark.parametrize("verifier", [VERIFIER[:42], "x" * 43, CHALLENGE, "x" * 129, VERIFIER + " "])
async def test_attack_23_wrong_verifier_is_refused_and_uses_the_code_up(rp, browser, http, verifier):
    code = await rp.code(browser, **PKCE)
    answer = await rp.exchange(http, code, code_verifier=verifier)
    failed(answer, 400, "invalid_grant", "invalid_pkce_code_verifier")
    answer = await rp.exchange(http, code, code_verifier=VERIFIER)
    failed(answer, 400, "invalid_grant", "auth_code_not_found")


@pytest.mark.requirement("attack-23", "oauth-1.9-34")
async def test_attack_23_verifier_without_a_challenge_is_a_downgrade(rp, browser, http):
    answer = await rp.exchange(http, await rp.code(browser), code_verifier=VERIFIER)
    failed(answer, 400, "invalid_grant", "invalid_pkce_code_verifier")


@pytest.mark.requirement("contract-authentication-6", "contract-authentication-8")
async def test_public_client_authenticates_by_pkce(rp, browser, http):
    await rp.configure(clientAuthenticationPolicy="NotRequiredWhenUsingPKCE")
    code = await rp.code(browser, **PKCE)
    answer = await rp.exchange(http, code, code_verifier=VERIFIER, client_secret=None)
    assert answer.status_code == 200
    refreshed = await rp.refresh(http, answer.json()["refresh_token"], client_secret=None)
    assert refreshed.status_code == 200
    answer = await rp.exchange(http, await rp.code(browser), client_secret=None)
    failed(answer, 401, "invalid_client", "client_authentication_missing")


@pytest.mark.requirement("oauth-1.9-33")
async def test_client_authentication_replaces_pkce(rp, browser, http):
    await rp.configure(
        proofKeyForCodeExchangePolicy="NotRequiredWhenUsingClientAuthentication",
        clientAuthenticationPolicy="NotRequired",
    )
    assert (await rp.exchange(http, await rp.code(browser))).status_code == 200
    answer = await rp.exchange(http, await rp.code(browser), client_secret=None)
    failed(answer, 400, "invalid_grant", "missing_code_verifier")


@pytest.mark.requirement("contract-authentication-5")
async def test_client_without_required_authentication_needs_none(rp, browser, http):
    await rp.configure(clientAuthenticationPolicy="NotRequired")
    assert (await rp.exchange(http, await rp.code(browser), client_secret=None)).status_code == 200


@pytest.mark.requirement("attack-29", "oauth-2.2-7")
@pytest.mark.parametrize(("query", "reason"), [({"hardDelete": "true"}, "user_not_found"), ({}, "user_locked")])
async def test_attack_29_deleted_user_gets_no_tokens_for_a_code(rp, browser, http, api, query, reason):
    code = await rp.code(browser)
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    assert (await api.delete(f"/api/user/{rp.user['id']}", params=query, headers=headers)).status_code == 200
    failed(await rp.exchange(http, code), 400, "invalid_grant", reason)


@pytest.mark.requirement("attack-20", "certification-token-2", "oauth-1.8-2", "oauth-2.2-3")
async def test_attack_20_replayed_code_revokes_its_tokens(rp, browser, http):
    code = await rp.code(browser)
    tokens = (await rp.exchange(http, code)).json()
    refreshed = (await rp.refresh(http, tokens["refresh_token"])).json()
    failed(await rp.exchange(http, code), 400, "invalid_grant", "auth_code_not_found")
    failed(await rp.refresh(http, tokens["refresh_token"]), 400, "invalid_grant", "refresh_token_not_found")
    for token in (tokens["access_token"], refreshed["access_token"]):
        answer = await http.get("/oauth2/userinfo", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 401


@pytest.mark.requirement("attack-20")
async def test_attack_20_replay_without_a_refresh_token_revokes_the_access_token(rp, browser, http):
    code = await rp.code(browser, scope="openid")
    token = (await rp.exchange(http, code)).json()["access_token"]
    bearer = {"Authorization": f"Bearer {token}"}
    assert (await http.get("/oauth2/userinfo", headers=bearer)).status_code == 200
    failed(await rp.exchange(http, code), 400, "invalid_grant", "auth_code_not_found")
    assert (await http.get("/oauth2/userinfo", headers=bearer)).status_code == 401


@pytest.mark.requirement("attack-21")
async def test_attack_21_one_of_64_racing_exchanges_gets_tokens_which_are_revoked(rp, browser, http):
    code = await rp.code(browser)
    answers = await asyncio.gather(*(rp.exchange(http, code) for _ in range(64)))
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 63
    tokens = next(answer.json() for answer in answers if answer.status_code == 200)
    failed(await rp.refresh(http, tokens["refresh_token"]), 400, "invalid_grant", "refresh_token_not_found")
    answer = await http.get("/oauth2/userinfo", headers={"Authorization": f"Bearer {tokens['access_token']}"})
    assert answer.status_code == 401


@pytest.mark.requirement("design-state-30")
async def test_secrets_and_tokens_are_not_logged(rp, browser, http, capsys):
    tokens = await rp.tokens(http, browser)
    await rp.token(http, **FORM, client_secret="a-wrong-secret")
    out, err = capsys.readouterr()
    for secret in (tokens["access_token"], tokens["refresh_token"], rp.secret, PASSWORD, "a-wrong-secret"):
        assert secret not in out + err


@pytest.mark.requirement("contract-token-response-7", "error-server_error")
async def test_internal_error_is_an_oauth_error_without_details(rp, service, monkeypatch):
    async def broken(*_arguments: object) -> None:
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(type(internals.store(service, "authorization_codes")), "consume", broken)
    async with plain_http.client(service.base_url) as client:
        answer = await rp.token(client, **FORM)
    failed(answer, 500, "server_error", "unknown")
    assert "secret" not in answer.text


@pytest.mark.requirement("design-config-9")
def test_disabled_feature_is_an_oauth_error() -> None:
    error = oauth_handlers.oauth_error(NotLicensed("The feature entityManagement is switched off."))
    assert error.status == 400
    assert oauth_handlers.error_body(error) == {
        "error": "not_licensed",
        "error_reason": "not_licensed",
        "error_description": "The feature entityManagement is switched off.",
    }


@pytest.mark.requirement("oauth-12-34")
async def test_token_exchange_is_off_by_default(rp, http):
    await rp.configure(enabledGrants=["urn:ietf:params:oauth:grant-type:token-exchange"])
    answer = await rp.token(http, grant_type="urn:ietf:params:oauth:grant-type:token-exchange")
    assert (answer.status_code, answer.json()["error"]) == (400, "unsupported_grant_type")
    metadata = (await http.get("/.well-known/openid-configuration")).json()
    assert "urn:ietf:params:oauth:grant-type:token-exchange" not in metadata["grant_types_supported"]


@pytest.mark.requirement("oauth-12-38")
async def test_mutual_tls_is_off_by_default(rp, http):
    own = certificates.make("client")
    await rp.configure(clientAuthenticationMethods=["self_signed_tls_client_auth"], jwks={"keys": [own.jwk]})
    form = {"grant_type": "authorization_code", "client_id": rp.client_id, "code": "x", "redirect_uri": REDIRECT_URI}
    answer = await http.post(
        "/oauth2/introspect", data={**form, "token": "x"}, headers={"Client-Cert": own.client_cert}
    )
    assert (answer.status_code, answer.json()["error_reason"]) == (401, "client_authentication_missing")
    metadata = (await http.get("/.well-known/openid-configuration")).json()
    assert not metadata.keys() & {"mtls_endpoint_aliases", "tls_client_certificate_bound_access_tokens"}
    assert "tls_client_auth" not in metadata["token_endpoint_auth_methods_supported"]


@pytest.mark.requirement("oauth-12-39")
async def test_client_registration_is_off_by_default(rp, http):
    await rp.configure_tenant(oauthConfiguration={"clientRegistrationEnabled": True})
    path = f"/{rp.tenant['id']}/oauth2/register-client"
    body = {"redirect_uris": [REDIRECT_URI]}
    answer = await http.post(path, json=body, headers={"Authorization": "Bearer x"})
    assert (answer.status_code, answer.json()["error"]) == (404, "invalid_request")
    metadata = (await http.get(f"/{rp.tenant['id']}/.well-known/openid-configuration")).json()
    assert "registration_endpoint" not in metadata
