"""Signed authorization requests (RFC 9101, OpenID Connect Core 6.1)."""

from __future__ import annotations

import json
import time
import urllib.parse

import pytest

from identity.ids import base64url, new_id
from tests import client_signer, relying_party
from tests.client_signer import new_key, public, signed
from tests.oauth2 import consenting
from tests.receiver import answers, receiving
from tests.relying_party import CHALLENGE, PKCE, REDIRECT_URI, VERIFIER, response

KEY = new_key()
OTHER_URI = "https://app.example.com/other"


@pytest.fixture
async def keyed(rp):
    """A relying party that registered a public key."""
    await rp.configure(jwks=public(KEY), authorizedRedirectURLs=[REDIRECT_URI, OTHER_URI])
    return rp


def claims(rp, **changes):
    """The claims of a good request object; None leaves one out."""
    now = int(time.time())
    usual = {**rp.query(), "iss": rp.client_id, "aud": rp.tenant["issuer"], "iat": now, "exp": now + 300}
    return {name: value for name, value in {**usual, **changes}.items() if value is not None}


def request(rp, *, key=KEY, algorithm="ES256", header=None, **changes) -> str:
    return signed(key, claims(rp, **changes), algorithm, **(header or {}))


async def opened(rp, browser, jwt, **more):
    """The response to a browser with a request object, after the redirect to the login page."""
    answer = await browser.get("/oauth2/authorize", params={"client_id": rp.client_id, "request": jwt, **more})
    if answer.status_code == 302 and answer.headers["Location"].startswith("/"):
        return await browser.get(answer.headers["Location"])
    return answer


def refused(answer, word, redirect_uri=REDIRECT_URI):
    """invalid_request_object at the redirect URI."""
    assert answer.headers["Location"].startswith(redirect_uri + "?"), answer.text
    given = response(answer)
    assert (given["error"], word in given["error_description"]) == ("invalid_request_object", True), given
    assert "error_reason" not in given


@pytest.mark.requirement("oauth-12-6")
async def test_signed_request_returns_a_code_and_tokens(keyed, browser, http):
    shown = await opened(keyed, browser, request(keyed, nonce="n-1", max_age=600, **PKCE))
    given = response(await keyed.submit(browser, shown))
    assert given["state"] == "the-state"
    tokens = (await keyed.exchange(http, given["code"], code_verifier=VERIFIER)).json()
    assert relying_party.claims(tokens["id_token"])["nonce"] == "n-1"


@pytest.mark.requirement("oauth-12-6")
async def test_parameters_outside_the_object_are_ignored(keyed, browser, http):
    parameters = {"redirect_uri": OTHER_URI, "scope": "openid offline_access", "state": "theirs", "prompt": "none"}
    jwt = request(keyed, scope="openid", state=None)
    shown = await opened(keyed, browser, jwt, **parameters, nonce="theirs")
    assert relying_party.page(shown).forms[0]["fields"].keys() == {
        *("client_id", "request_uri", "csrf_token", "loginId", "password")
    }
    given = response(await keyed.submit(browser, shown, **parameters))
    assert "state" not in given
    tokens = (await keyed.exchange(http, given["code"])).json()
    assert tokens["scope"] == "openid"
    assert "nonce" not in relying_party.claims(tokens["id_token"])


@pytest.mark.requirement("oauth-12-8")
async def test_object_may_be_posted_and_expire_during_the_login(keyed, browser, clock):
    form = {"client_id": keyed.client_id, "request": request(keyed, exp=int(time.time()) + 30)}
    sent = await browser.post("/oauth2/authorize", data=form)
    shown = await browser.get(sent.headers["Location"])
    clock.advance(seconds=600)
    assert "code" in response(await keyed.submit(browser, shown))


@pytest.mark.requirement("oauth-12-8")
async def test_session_responds_to_a_signed_request(keyed, browser):
    await keyed.log_in(browser)
    assert "code" in response(await opened(keyed, browser, request(keyed, prompt="none")))


@pytest.mark.requirement("oauth-12-8")
async def test_login_form_of_a_signed_request_has_the_object_only(keyed, browser):
    jwt = request(keyed)
    form = {"client_id": keyed.client_id, "request": jwt, "loginId": "x", "password": "y"}
    stale = await browser.post("/oauth2/authorize", data=form)
    assert stale.status_code == 403
    fields = relying_party.page(stale).forms[0]["fields"]
    assert fields["request"] == jwt
    assert "scope" not in fields
    assert "state" not in fields


@pytest.mark.requirement("oauth-12-6")
@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "EdDSA"])
async def test_every_key_type_can_sign_requests(rp, browser, algorithm):
    key = new_key(algorithm)
    await rp.configure(jwks=public(key))
    jwt = request(rp, key=key, algorithm=algorithm, header={"typ": "oauth-authz-req+jwt"}, prompt="none")
    assert response(await opened(rp, browser, jwt))["error"] == "login_required"


@pytest.mark.requirement("audit-a9")
async def test_attack_34_strict_client_does_not_sign_requests_with_pkcs1(rp, browser):
    key = new_key("RS256")
    await rp.configure_strict(jwks=public(key))
    usual = {"key": key, "prompt": "none", "nbf": int(time.time()), **PKCE}
    jwt = request(rp, algorithm="RS256", **usual)
    refused(await opened(rp, browser, jwt, redirect_uri=REDIRECT_URI), "not signed by the client")
    jwt = request(rp, algorithm="PS256", **usual)
    assert response(await opened(rp, browser, jwt))["error"] == "login_required"


@pytest.mark.requirement("oauth-12-6")
async def test_client_secret_jwt_clients_sign_requests_with_the_secret(rp, browser):
    jwt = request(rp, key=rp.secret, algorithm="HS256", prompt="none")
    parameters = {"redirect_uri": REDIRECT_URI}
    assert response(await opened(rp, browser, jwt, **parameters))["error"] == "request_not_supported"
    await rp.configure(clientAuthenticationMethods=["client_secret_jwt"])
    assert response(await opened(rp, browser, jwt))["error"] == "login_required"
    refused(await opened(rp, browser, request(rp), **parameters), "not signed by the client")
    await rp.configure(clientAuthenticationMethods=["client_secret_basic"], jwks=public(KEY))
    refused(await opened(rp, browser, jwt, **parameters), "signed with a secret")


@pytest.mark.requirement("oauth-12-6")
async def test_published_keys_sign_requests(rp, browser):
    async with receiving(answers(body=json.dumps(public(KEY)).encode())) as site:
        await rp.configure(jwksURI=site.url)
        assert response(await opened(rp, browser, request(rp, prompt="none")))["error"] == "login_required"
        site.behaviour = answers(500)
        await rp.configure(jwksURI=site.url + "other")
        refused(await opened(rp, browser, request(rp), redirect_uri=REDIRECT_URI), "cannot be fetched")


@pytest.mark.requirement("oauth-1.1-11")
async def test_client_without_keys_cannot_send_request_objects(rp, browser):
    answer = await opened(rp, browser, request(rp), redirect_uri=REDIRECT_URI, state="s")
    assert response(answer)["error"] == "request_not_supported"


@pytest.mark.requirement("oauth-12-7")
async def test_invalid_signed_request_is_redirected_to_the_signed_uri(keyed, browser):
    now = int(time.time())
    for changes, word in (
        ({"exp": None}, "exp"),
        ({"exp": now - 100}, "expired"),
        ({"exp": now + 7200}, "too long"),
        ({"nbf": now + 300}, "not valid yet"),
        ({"iat": now + 300}, "not valid yet"),
        ({"iss": None}, "iss"),
        ({"iss": new_id()}, "iss"),
        ({"client_id": new_id()}, "client_id"),
        ({"aud": None}, "aud"),
        ({"aud": "https://elsewhere.example.com"}, "aud"),
        ({"aud": ["https://elsewhere.example.com"]}, "aud"),
        ({"aud": []}, "aud"),
        ({"sub": keyed.client_id}, "sub"),
        ({"request": "x"}, "only one"),
        ({"request_uri": "urn:x"}, "only one"),
    ):
        jwt = request(keyed, redirect_uri=OTHER_URI, state="signed", **changes)
        answer = await opened(keyed, browser, jwt, redirect_uri=REDIRECT_URI, state="outside")
        assert f"{OTHER_URI}?error=invalid_request_object" in answer.headers["Location"]
        assert urllib.parse.quote(word) in answer.headers["Location"]
        assert "state=signed" in answer.headers["Location"]


@pytest.mark.requirement("audit-b7-request-objects")
async def test_issuer_may_be_one_of_several_audiences(keyed, browser):
    jwt = request(keyed, aud=["https://elsewhere.example.com", keyed.tenant["issuer"]], prompt="none")
    assert response(await opened(keyed, browser, jwt))["error"] == "login_required"


@pytest.mark.requirement("audit-b7-request-objects")
async def test_strict_client_requires_a_recent_nbf(keyed, browser):
    await keyed.configure_strict(authorizedRedirectURLs=[REDIRECT_URI])
    now = int(time.time())
    for nbf in (None, now - 3700):
        refused(await opened(keyed, browser, request(keyed, nbf=nbf, **PKCE)), "nbf")
    jwt = request(keyed, nbf=now - 3500, prompt="none", **PKCE)
    assert response(await opened(keyed, browser, jwt))["error"] == "login_required"


@pytest.mark.requirement("oauth-12-6")
async def test_parameters_outside_the_object_must_match(keyed, browser):
    refused(await opened(keyed, browser, request(keyed), response_type="token"), "response_type")
    refused(await opened(keyed, browser, request(keyed), request_uri="https://x.example.com/"), "only one")
    assert (await opened(keyed, browser, request(keyed), response_type="code")).status_code == 200


@pytest.mark.requirement("oauth-12-7")
async def test_invalid_object_is_redirected_to_the_unsigned_uri(keyed, browser):
    parameters = {"redirect_uri": REDIRECT_URI, "state": "outside"}
    head, body, signature = request(keyed).split(".")
    changed = base64url(json.dumps(claims(keyed, scope="openid email")).encode())
    for jwt, word in (
        (f"{head}.{changed}.{signature}", "not signed by the client"),
        (request(keyed, key=new_key(kid=KEY.kid)), "not signed by the client"),
        (request(keyed, key=keyed.secret, algorithm="HS256"), "secret"),
        ("x", "not a signed JWT"),
        (f"{head}.{body}", "not a signed JWT"),
        ("A" * 17_000, "not a signed JWT"),
    ):
        answer = await opened(keyed, browser, jwt, **parameters)
        refused(answer, word)
        assert response(answer)["state"] == "outside"
    for kind in ("at+jwt", "client-authentication+jwt", "dpop+jwt"):
        refused(await opened(keyed, browser, request(keyed, header={"typ": kind})), "another type")


@pytest.mark.requirement("attack-33")
async def test_attack_33_unsigned_object_is_refused(keyed, browser):
    for algorithm in ("none", "NoNe", "None", ""):
        head = base64url(json.dumps({"alg": algorithm}).encode())
        jwt = f"{head}.{base64url(json.dumps(claims(keyed)).encode())}."
        refused(await opened(keyed, browser, jwt, redirect_uri=REDIRECT_URI), "not signed")


@pytest.mark.requirement("oauth-12-7")
async def test_no_redirect_before_client_and_redirect_uri_are_verified(keyed, browser):
    evil = "https://evil.example.com/cb"
    for jwt, parameters in (
        (request(keyed, key=new_key()), {}),
        (request(keyed, key=new_key()), {"redirect_uri": evil}),
        (request(keyed, redirect_uri=evil), {"redirect_uri": REDIRECT_URI}),
        (request(keyed, redirect_uri=evil, exp=1), {"redirect_uri": REDIRECT_URI}),
        (request(keyed, redirect_uri=None), {"redirect_uri": REDIRECT_URI}),
        (request(keyed), {"client_id": new_id()}),
    ):
        answer = await opened(keyed, browser, jwt, **parameters)
        assert answer.status_code == 400, parameters
        assert "Location" not in answer.headers
        assert "invalid_request" in answer.text


@pytest.mark.requirement("attack-27")
async def test_attack_27_assertions_and_request_objects_are_not_interchangeable(keyed, browser, http):
    await keyed.configure(clientAuthenticationMethods=["private_key_jwt"])
    assertion = signed(KEY, client_signer.claims(keyed))
    answer = await opened(keyed, browser, assertion, redirect_uri=REDIRECT_URI)
    assert (answer.status_code, "invalid_request_object" in answer.text) == (400, True)
    form = client_signer.form(request(keyed, jti=new_id()))
    answer = await keyed.exchange(http, "c", **form)
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")


@pytest.mark.requirement("oauth-12-6")
async def test_invalid_parameter_values_are_rejected(keyed, browser):
    for changes in ({"scope": ["openid"]}, {"state": {"a": 1}}, {"nonce": True}, {"login_hint": "a\x00b"}):
        answer = await opened(keyed, browser, request(keyed, **changes), redirect_uri=REDIRECT_URI)
        refused(answer, f"has an invalid {next(iter(changes))}")


@pytest.mark.requirement("oauth-12-6")
async def test_numbers_and_claims_are_converted_to_text(keyed, browser, http):
    wanted = {"id_token": {"email": {"essential": True}}}
    jwt = request(keyed, claims=wanted, max_age=1000, scope="openid", display="page", unknown=["x"])
    given = response(await keyed.submit(browser, await opened(keyed, browser, jwt)))
    tokens = (await keyed.exchange(http, given["code"])).json()
    assert relying_party.claims(tokens["id_token"])["email"] == keyed.login_id
    answer = await opened(keyed, browser, request(keyed, max_age=-1))
    assert response(answer)["error"] == "invalid_request"


@pytest.mark.requirement("oauth-12-8")
async def test_signed_request_can_be_reloaded(keyed, browser):
    jwt = request(keyed, jti=new_id())
    for _ in range(2):
        assert (await opened(keyed, browser, jwt)).status_code == 200


@pytest.mark.requirement("core-9-oauthConfiguration")
async def test_signed_requests_may_be_required(keyed, browser):
    await keyed.configure(requireSignedRequestObject=True)
    answer = response(await keyed.authorize(browser))
    assert answer["error"] == "invalid_request"
    assert "has to sign" in answer["error_description"]
    shown = await opened(keyed, browser, request(keyed))
    fields = {"client_id": keyed.client_id, "scope": "openid email", **keyed.query()}
    csrf = relying_party.page(shown).forms[0]["fields"]["csrf_token"]
    filled = {**fields, "loginId": keyed.login_id, "password": relying_party.PASSWORD, "csrf_token": csrf}
    unsigned = response(await browser.post("/oauth2/authorize", data=filled))
    assert unsigned["error"] == "invalid_request"
    assert "code" in response(await keyed.submit(browser, shown))
    await keyed.configure(requireSignedRequestObject=False)
    assert (await keyed.authorize(browser, prompt="login")).status_code == 200


@pytest.mark.requirement("oauth-12-8")
async def test_signed_request_works_with_the_consent_page(keyed, browser, http):
    await keyed.configure(requireSignedRequestObject=True, relationship="ThirdParty")
    shown = await opened(keyed, browser, request(keyed, scope="openid email"))
    answer = await keyed.submit(browser, shown)
    asked = await browser.get(answer.headers["Location"])
    given = response(await consenting.send(browser, asked, "email"))
    assert given["state"] == "the-state"
    assert (await keyed.exchange(http, given["code"])).json()["scope"] == "openid email"


@pytest.mark.requirement("core-9-oauthConfiguration")
async def test_requiring_signed_requests_needs_keys(rp, api):
    body = {"application": {"oauthConfiguration": {"requireSignedRequestObject": True}}}
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    answer = await api.patch(f"/api/application/{rp.client_id}", json=body, headers=headers)
    assert answer.status_code == 400
    assert "[missing]application.oauthConfiguration.jwks" in answer.text
    await rp.configure(requireSignedRequestObject=True, clientAuthenticationMethods=["client_secret_jwt"])


# A signed request that is pushed (RFC 9126 section 3).


async def push(rp, http, **form):
    sent = {"client_id": rp.client_id, "client_secret": rp.secret, **form}
    return await http.post("/oauth2/par", data=sent)


@pytest.mark.requirement("oauth-12-9")
async def test_pushed_object_is_validated_and_replaces_other_parameters(keyed, browser, http):
    await keyed.configure(requireSignedRequestObject=True)
    jwt = request(keyed, scope="openid", **PKCE)
    answer = await push(keyed, http, request=jwt, scope="openid email", state="theirs")
    assert answer.status_code == 201, answer.text
    query = {"client_id": keyed.client_id, "request_uri": answer.json()["request_uri"]}
    sent = await browser.get("/oauth2/authorize", params=query)
    given = response(await keyed.submit(browser, await browser.get(sent.headers["Location"])))
    assert given["state"] == "the-state"
    tokens = await keyed.exchange(http, given["code"], code_verifier=VERIFIER)
    assert tokens.json()["scope"] == "openid"


@pytest.mark.requirement("error-invalid_request_object", "oauth-12-9")
async def test_invalid_objects_and_unsigned_requests_are_rejected(keyed, http):
    answer = await push(keyed, http, request=request(keyed, exp=1))
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request_object")
    answer = await push(keyed, http, request="x.y.z")
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request_object")
    await keyed.configure(requireSignedRequestObject=True)
    answer = await push(keyed, http, **keyed.query())
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


@pytest.mark.requirement("oauth-12-9")
async def test_request_object_does_not_replace_par(keyed, browser):
    await keyed.configure(requirePushedAuthorizationRequests=True)
    answer = response(await opened(keyed, browser, request(keyed)))
    assert (answer["error"], "push" in answer["error_description"]) == ("invalid_request", True)


@pytest.mark.requirement("oauth-12-9")
async def test_pkce_in_the_object_authenticates_a_public_client(keyed, http):
    await keyed.configure(clientAuthenticationPolicy="NotRequiredWhenUsingPKCE")
    bound = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}
    form = {"client_id": keyed.client_id, "request": request(keyed, **bound)}
    assert (await http.post("/oauth2/par", data=form)).status_code == 201
    form["request"] = request(keyed)
    answer = await http.post("/oauth2/par", data=form)
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
