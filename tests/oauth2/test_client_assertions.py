"""private_key_jwt and client_secret_jwt (RFC 7523 section 2.2, OpenID Connect Core 9)."""

from __future__ import annotations

import asyncio
import hmac
import json
import time

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc import jws

from identity.domain.clients.client_assertions import JWT_BEARER
from identity.ids import base64url, new_id
from tests import internals, relying_party
from tests.api.test_entities import make as make_entity
from tests.api.test_entity_types import make as make_type
from tests.client_signer import claims, form, new_key, public, signed
from tests.oauth2.devices import DEVICE_GRANT, device_client
from tests.receiver import answers, hangs, receiving
from tests.relying_party import REDIRECT_URI

METHODS = ["client_secret_basic", "client_secret_post", "client_secret_jwt", "private_key_jwt", "none"]
FORM = {"grant_type": "authorization_code", "code": "c", "redirect_uri": REDIRECT_URI}

KEY = new_key()


@pytest.fixture
async def keyed(rp):
    """A relying party that registered a public key, and authenticates with it alone."""
    await rp.configure(clientAuthenticationMethods=["private_key_jwt"], jwks=public(KEY))
    return rp


@pytest.fixture
async def secretive(rp):
    """A relying party that signs with its secret."""
    await rp.configure(clientAuthenticationMethods=["client_secret_jwt"])
    return rp


def refused(answer, reason="invalid_client_authentication", word=""):
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client"), answer.text
    assert answer.json()["error_reason"] == reason, answer.text
    assert word in answer.json()["error_description"]
    assert answer.headers["WWW-Authenticate"] == 'Basic realm="oauth2"'


def require_accepted(answer):
    """Whether the client was authenticated: only the code is unknown."""
    assert (answer.status_code, answer.json()["error_reason"]) == (400, "auth_code_not_found"), answer.text


async def token_request(rp, http, assertion, **changes):
    return await rp.token(http, **FORM, **form(assertion, **changes))


@pytest.mark.requirement("oauth-2.1-13")
async def test_client_authenticates_with_its_key_at_every_endpoint(keyed, browser, http):
    code = await keyed.code(browser)
    answer = await keyed.exchange(http, code, **form(signed(KEY, claims(keyed))))
    assert answer.status_code == 200, answer.text
    tokens = answer.json()
    answer = await keyed.refresh(http, tokens["refresh_token"], **form(signed(KEY, claims(keyed))))
    assert answer.status_code == 200, answer.text
    for path, status in (("introspect", 200), ("revoke", 200)):
        body = {"token": tokens["access_token"], **form(signed(KEY, claims(keyed)))}
        sent = {name: value for name, value in body.items() if value is not None}
        answer = await http.post(f"/oauth2/{path}", data=sent)
        assert answer.status_code == status, answer.text
        if path == "introspect":
            assert answer.json()["active"] is True
        refused(await http.post(f"/oauth2/{path}", data=sent), word="used before")


@pytest.mark.requirement("oauth-2.1-13")
async def test_client_authenticates_with_its_key_to_push_a_request(keyed, service, http):
    for audience in (keyed.tenant["issuer"], f"{service.base_url}/oauth2/par"):
        pushed = {**keyed.query(), **form(signed(KEY, claims(keyed, aud=audience)))}
        sent = {name: value for name, value in pushed.items() if value is not None}
        answer = await http.post("/oauth2/par", data=sent)
        assert answer.status_code == 201, answer.text
        refused(await http.post("/oauth2/par", data=sent), word="used before")


@pytest.mark.requirement("oauth-2.1-13")
async def test_device_authenticates_with_its_key(api, http):
    rp = await device_client(api, clientAuthenticationMethods=["private_key_jwt"], jwks=public(KEY))

    async def send(path, key=KEY, **fields):
        given = {**fields, **form(signed(key, claims(rp)), client_id=rp.client_id)}
        sent = {name: value for name, value in given.items() if value is not None}
        return await http.post(f"/oauth2/{path}", data=sent)

    answer = await send("device_authorize", new_key())
    assert (answer.status_code, answer.json()["error_reason"]) == (400, "invalid_client_authentication")
    begun = await send("device_authorize", scope="openid")
    assert begun.status_code == 200, begun.text
    codes = begun.json()
    polled = {"grant_type": DEVICE_GRANT, "device_code": codes["device_code"]}
    refused(await send("token", new_key(), **polled))
    answer = await send("token", **polled)
    assert (answer.status_code, answer.json()["error"]) == (400, "authorization_pending")
    shown = await send("device/user-code", user_code=codes["user_code"])
    assert shown.status_code == 200, shown.text
    refused(await send("device/user-code", new_key(), user_code=codes["user_code"]))


@pytest.mark.requirement("oauth-2.1-14")
async def test_client_authenticates_with_its_secret(secretive, browser, http):
    code = await secretive.code(browser)
    assertion = signed(secretive.secret, claims(secretive), "HS256")
    answer = await secretive.exchange(http, code, **form(assertion))
    assert answer.status_code == 200, answer.text


@pytest.mark.requirement("oauth-2.1-13")
async def test_password_grant_takes_an_assertion(keyed, http):
    await keyed.configure(enabledGrants=["password"])
    answer = await keyed.token(
        http, grant_type="password", username=keyed.login_id, password=relying_party.PASSWORD,
        **form(signed(KEY, claims(keyed))),
    )  # fmt: skip
    assert answer.status_code == 200, answer.text


@pytest.mark.requirement("oauth-2.1-13")
async def test_every_family_of_keys_authenticates(rp, http):
    for algorithm in ["RS256", "PS256", "ES384", "ES512", "EdDSA"]:
        key = new_key(algorithm)
        await rp.configure(clientAuthenticationMethods=["private_key_jwt"], jwks=public(key))
        require_accepted(await token_request(rp, http, signed(key, claims(rp), algorithm)))


@pytest.mark.requirement("oauth-2.1-13")
async def test_assertion_identifies_the_client_with_optional_client_id(keyed, http):
    require_accepted(await token_request(keyed, http, signed(KEY, claims(keyed)), client_id=keyed.client_id))
    assertion = signed(KEY, claims(keyed))
    refused(await token_request(keyed, http, assertion, client_id=new_id()), "client_id_mismatch")


@pytest.mark.requirement("oauth-2.1-16")
async def test_token_endpoint_is_an_audience_too(keyed, http, service):
    for path in ["", "/{tenant}"]:
        place = service.base_url + path.format(tenant=keyed.tenant["id"])
        require_accepted(await token_request(keyed, http, signed(KEY, claims(keyed, aud=f"{place}/oauth2/token"))))
        require_accepted(
            await token_request(
                keyed, http, signed(KEY, claims(keyed, aud=[f"{place}/oauth2/token", keyed.tenant["issuer"]]))
            )
        )


@pytest.mark.requirement("oauth-2.1-16")
async def test_strict_client_requires_the_issuer_as_audience(keyed, http, service):
    place = f"{service.base_url}/oauth2/token"
    await keyed.configure_strict()
    for audience in (place, [keyed.tenant["issuer"]]):
        refused(await token_request(keyed, http, signed(KEY, claims(keyed, aud=audience))), word="aud")
    require_accepted(await token_request(keyed, http, signed(KEY, claims(keyed))))


@pytest.mark.requirement("audit-a9")
async def test_attack_34_strict_client_does_not_sign_with_pkcs1(rp, http):
    """Neither by a JWK without `alg`, nor by one that was stored with RS256 (FAPI 2.0 section 5.4.1)."""
    key = new_key("RS256")
    await rp.configure(clientAuthenticationMethods=["private_key_jwt"], jwks=public(key))
    for algorithm in ("RS256", "RS384", "RS512", "PS256"):
        require_accepted(await token_request(rp, http, signed(key, claims(rp), algorithm)))
    await rp.configure_strict()
    for algorithm in ("RS256", "RS384", "RS512"):
        refused(await token_request(rp, http, signed(key, claims(rp), algorithm)), word="not signed")
    require_accepted(await token_request(rp, http, signed(key, claims(rp), "PS256")))


@pytest.mark.requirement("audit-a9")
async def test_strict_client_registers_no_key_for_pkcs1(rp, api):
    await rp.configure_strict()
    [entry] = public(new_key("RS256"))["keys"]
    answer = await patched(rp, api, {"jwks": {"keys": [{**entry, "alg": "RS256"}]}})
    assert list(answer.json()["fieldErrors"]) == ["application.oauthConfiguration.jwks.keys[0]"]
    answer = await patched(rp, api, {"jwks": {"keys": [{**entry, "alg": "PS256"}]}})
    assert answer.status_code == 200, answer.text


@pytest.mark.requirement("oauth-2.1-16")
async def test_assertion_claims_are_validated(keyed, http):
    for changes, word in [
        ({"iss": new_id()}, "iss"),
        ({"iss": None}, "iss"),
        ({"aud": "https://elsewhere.example.com"}, "aud"),
        ({"aud": [keyed.tenant["issuer"], "https://elsewhere.example.com"]}, "aud"),
        ({"aud": []}, "aud"),
        ({"aud": None}, "aud"),
        ({"jti": None}, "jti"),
        ({"jti": ""}, "jti"),
        ({"jti": "x" * 256}, "jti"),
        ({"exp": None}, "exp"),
        ({"exp": 1}, "expired"),
        ({"exp": int(time.time()) + 3600, "iat": None}, "too long"),
        ({"nbf": int(time.time()) + 3600}, "not valid yet"),
        ({"exp": int(time.time()) + 7200, "iat": int(time.time()) + 3600}, "not valid yet"),
        ({"exp": int(time.time()) + 3600, "iat": int(time.time()) - 3600}, "expired"),
    ]:
        refused(await token_request(keyed, http, signed(KEY, claims(keyed, **changes))), word=word)


@pytest.mark.requirement("oauth-2.1-16")
async def test_lifetime_is_limited_to_five_minutes_after_iat(keyed, http):
    """Authlib gives an hour to every assertion."""
    require_accepted(await token_request(keyed, http, signed(KEY, claims(keyed, exp=int(time.time()) + 3600))))


@pytest.mark.requirement("attack-38")
async def test_attack_38_mistyped_claims_are_rejected(keyed, http):
    for changes in [{"sub": None}, {"sub": ""}, {"sub": 7}, {"exp": "1"}, {"iat": -1}, {"aud": [1]}]:
        refused(await token_request(keyed, http, signed(KEY, claims(keyed, **changes))))


@pytest.mark.requirement("oauth-2.1-17")
async def test_assertion_of_an_unknown_client_is_refused(rp, http):
    unknown = signed(KEY, claims(rp, iss=new_id(), sub=new_id()))
    refused(await token_request(rp, http, unknown), "invalid_client_id")


@pytest.mark.requirement("oauth-2.1-16")
async def test_client_of_another_tenant_is_rejected(keyed, http, api):
    other = await relying_party.make(api)
    answer = await token_request(keyed, http, signed(KEY, claims(keyed)), tenantId=other.tenant["id"])
    assert (answer.status_code, answer.json()["error_reason"]) == (400, "invalid_tenant_id")
    await other.configure(clientAuthenticationMethods=["private_key_jwt"], jwks=public(new_key()))
    refused(await token_request(other, http, signed(KEY, claims(other))), word="not signed")


@pytest.mark.requirement("oauth-2.1-15")
async def test_configured_methods_restrict_authentication(rp, http):
    by_key, by_secret = signed(KEY, claims(rp)), signed(rp.secret, claims(rp), "HS256")
    scheme = "invalid_client_authentication_scheme"
    for assertion in (by_key, by_secret):
        refused(await token_request(rp, http, assertion), scheme)
    await rp.configure(clientAuthenticationMethods=["private_key_jwt"], jwks=public(KEY))
    refused(await token_request(rp, http, by_secret), scheme, "client_secret_jwt")
    refused(await rp.token(http, **FORM), scheme, "client_secret_post")
    refused(await http.post("/oauth2/token", data=FORM, auth=(rp.client_id, rp.secret)), scheme, "client_secret_basic")
    require_accepted(await token_request(rp, http, by_key))
    await rp.configure(clientAuthenticationMethods=["client_secret_jwt", "client_secret_post"])
    refused(await token_request(rp, http, signed(KEY, claims(rp))), scheme, "private_key_jwt")
    require_accepted(await token_request(rp, http, by_secret))
    require_accepted(await rp.token(http, **FORM))


@pytest.mark.requirement("oauth-2.1-15", "reason-client_authentication_missing")
async def test_client_must_use_a_configured_method_unless_none_is_listed(keyed, http):
    await keyed.configure(clientAuthenticationPolicy="NotRequired")
    refused(await keyed.token(http, **FORM, client_secret=None), "client_authentication_missing")
    await keyed.configure(clientAuthenticationMethods=["private_key_jwt", "none"])
    require_accepted(await keyed.token(http, **FORM, client_secret=None))
    refused(await token_request(keyed, http, signed(new_key(), claims(keyed))))
    await keyed.configure(clientAuthenticationPolicy="Required")
    refused(await keyed.token(http, **FORM, client_secret=None), "client_authentication_missing")


@pytest.mark.requirement("attack-25", "oauth-2.1-17")
async def test_attack_25_assertion_with_another_credential_is_rejected(keyed, http):
    await keyed.configure(clientAuthenticationMethods=METHODS)
    assertion = signed(KEY, claims(keyed))
    refused(await token_request(keyed, http, assertion, client_secret=keyed.secret), word="two methods")
    refused(await token_request(keyed, http, assertion, client_secret=""), word="two methods")
    sent = {**FORM, "client_assertion_type": JWT_BEARER, "client_assertion": assertion}
    refused(await http.post("/oauth2/token", data=sent, auth=(keyed.client_id, keyed.secret)), word="two methods")
    require_accepted(await token_request(keyed, http, assertion))


@pytest.mark.requirement("oauth-2.1-17")
async def test_client_assertion_type_and_assertion_are_both_required(keyed, http):
    assertion = signed(KEY, claims(keyed))
    scheme = "invalid_client_authentication_scheme"
    for kind in (None, "", "urn:ietf:params:oauth:client-assertion-type:saml2-bearer"):
        refused(await token_request(keyed, http, assertion, client_assertion_type=kind), scheme)
    refused(await token_request(keyed, http, None, client_id=keyed.client_id), "client_authentication_missing")
    require_accepted(await token_request(keyed, http, assertion))


@pytest.mark.requirement("attack-24", "oauth-2.1-17")
async def test_attack_24_blank_assertion_is_not_an_absent_one(rp, http):
    await rp.configure(clientAuthenticationPolicy="NotRequired")
    refused(await token_request(rp, http, "", client_id=rp.client_id))
    answer = await rp.token(http, **FORM, client_secret=None, client_assertion_type="")
    refused(answer, "invalid_client_authentication_scheme")


def unsigned(header, body):
    return f"{base64url(header.encode())}.{base64url(body.encode())}."


@pytest.mark.requirement("attack-33")
async def test_attack_33_assertion_without_a_known_algorithm_is_refused(keyed, http):
    for algorithm in ["none", "NoNe", "NONE", "", "hs256", "es256", "HS1", "RSA-OAEP", "ES256K"]:
        await keyed.configure(clientAuthenticationMethods=METHODS)
        body = json.dumps(claims(keyed))
        for head in ({"alg": algorithm}, {"alg": algorithm, "kid": KEY.kid}):
            refused(await token_request(keyed, http, unsigned(json.dumps(head), body)), word="not signed")


@pytest.mark.requirement("attack-34")
async def test_attack_34_public_key_is_not_used_as_secret(keyed, http):
    """Whatever form the public key takes, an HMAC made with it proves nothing; only the client secret does."""
    await keyed.configure(clientAuthenticationMethods=METHODS)
    native = KEY.public_key
    forms = [
        native.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode(),
        native.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode(),
        native.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint).hex(),
        native.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo).decode("latin-1"),
    ]
    for text in forms:
        token = _hmac_of(text.encode("latin-1"), claims(keyed), kid=KEY.kid)
        refused(await token_request(keyed, http, token), word="not signed")


def _hmac_of(secret, body, **header):
    head = base64url(json.dumps({"alg": "HS256", **header}).encode())
    text = f"{head}.{base64url(json.dumps(body).encode())}"
    return f"{text}.{base64url(hmac.digest(secret, text.encode(), 'sha256'))}"


@pytest.mark.requirement("attack-34")
async def test_attack_34_secret_does_not_replace_a_key(keyed, http):
    refused(
        await token_request(keyed, http, signed(keyed.secret, claims(keyed), "HS256")),
        "invalid_client_authentication_scheme",
    )
    await keyed.configure(clientAuthenticationMethods=["client_secret_jwt"])
    refused(await token_request(keyed, http, signed(KEY, claims(keyed))), "invalid_client_authentication_scheme")


@pytest.mark.requirement("attack-35")
async def test_attack_35_key_in_the_header_is_ignored(keyed, http):
    evil = new_key()
    for header in (
        {"jwk": evil.as_dict(private=False)},
        {"jku": "https://evil.example.com/jwks"},
        {"x5u": "https://evil.example.com/x5u"},
        {"x5c": ["MIIB"]},
    ):
        head = {"alg": "ES256", "kid": KEY.kid, **header}
        token = jws.serialize_compact(
            head, json.dumps(claims(keyed)).encode(), evil, registry=jws.JWSRegistry(algorithms=["ES256"])
        )
        refused(await token_request(keyed, http, token), word="not signed")


@pytest.mark.requirement("attack-35")
async def test_attack_35_odd_kid_is_an_unknown_key(keyed, http):
    for kid in ["../../key", "' OR 1=1", "{'$ne': 1}", "x" * 10_000, "\x00", "http://127.0.0.1:1/", ""]:
        refused(await token_request(keyed, http, signed(KEY, claims(keyed), kid=kid)))


@pytest.mark.requirement("attack-36")
async def test_attack_36_crit_is_refused(keyed, http):
    for extra in ({"crit": ["exp"], "exp": 1}, {"crit": ["b64"], "b64": False}, {"b64": False}):
        head = base64url(json.dumps({"alg": "ES256", "kid": KEY.kid, **extra}).encode())
        refused(await token_request(keyed, http, f"{head}.{base64url(json.dumps(claims(keyed)).encode())}.{'A' * 86}"))


@pytest.mark.requirement("attack-37")
async def test_attack_37_malformed_jws_is_rejected(keyed, http):
    for assertion in [
        "x",
        "a.b",
        "a.b.c",
        "....",
        "é.é.é",
        "A" * 20_000,
        f"{'e30' * 10}.e30.",
        "e30.e30.",
        "." * 17,
        "a.b.c.d.e",
    ]:
        refused(await token_request(keyed, http, assertion))


@pytest.mark.requirement("attack-27")
async def test_attack_27_jwt_of_another_type_is_rejected(keyed, http):
    for kind in ["at+jwt", "dpop+jwt", "logout+jwt", "oauth-authz-req+jwt", "JWS"]:
        refused(await token_request(keyed, http, signed(KEY, claims(keyed), typ=kind)), word="another type")


async def test_assertion_may_have_its_typ(keyed, http):
    for kind in [None, "jwt", "client-authentication+jwt", "application/client-authentication+jwt"]:
        require_accepted(await token_request(keyed, http, signed(KEY, claims(keyed), typ=kind)))


@pytest.mark.requirement("attack-40")
async def test_attack_40_one_of_64_racing_uses_of_an_assertion_succeeds(keyed, http):
    assertion = signed(KEY, claims(keyed))
    every = await asyncio.gather(*(token_request(keyed, http, assertion) for _ in range(64)))
    assert sorted(answer.status_code for answer in every) == [400] + [401] * 63
    for answer in every:
        require_accepted(answer) if answer.status_code == 400 else refused(answer, word="used before")


@pytest.mark.requirement("attack-40")
async def test_attack_40_assertion_is_consumed_until_it_expires_and_not_by_a_forgery(keyed, http, service, clock):
    jti = new_id()
    refused(await token_request(keyed, http, signed(new_key(kid=KEY.kid), claims(keyed, jti=jti))), word="not signed")
    refused(
        await token_request(keyed, http, signed(KEY, claims(keyed, jti=jti, aud="https://x.example.com"))), word="aud"
    )
    require_accepted(await token_request(keyed, http, signed(KEY, claims(keyed, jti=jti, exp=int(time.time()) + 3600))))
    redis = internals.redis(service).client
    keys = [key async for key in redis.scan_iter(match=f"*used:client-assertion:{keyed.tenant['id']}:*")]
    assert len(keys) == 1
    assert jti not in keys[0]
    assert 340 < await redis.ttl(keys[0]) <= 361


@pytest.mark.requirement("attack-40")
async def test_attack_40_jti_is_scoped_to_the_client(keyed, http, api):
    other = await relying_party.make(api, tenant=keyed.tenant)
    await other.configure(clientAuthenticationMethods=["private_key_jwt"], jwks=public(KEY))
    require_accepted(await token_request(keyed, http, signed(KEY, claims(keyed, jti="one"))))
    require_accepted(await token_request(other, http, signed(KEY, claims(other, jti="one"))))


@pytest.mark.requirement("oauth-2.1-14")
async def test_entity_signs_with_its_secret_at_token_introspection_and_revocation(api, tenant_api, tenant, http):
    kind = await make_type(api)
    entity = await make_entity(tenant_api, kind)

    def sent(**changes):
        named = {"iss": entity["clientId"], "sub": entity["clientId"], "aud": tenant["issuer"]}
        body = {**named, "exp": int(time.time()) + 60, "jti": new_id(), **changes}
        return {
            "client_assertion_type": JWT_BEARER,
            "client_assertion": signed(entity["clientSecret"], body, "HS256"),
        }

    async def ask_for_token(form):
        return await http.post("/oauth2/token", data={"grant_type": "client_credentials", **form})

    form = sent()
    answer = await ask_for_token(form)
    assert answer.status_code == 200, answer.text
    refused(await ask_for_token(form), word="used before")
    token = answer.json()["access_token"]
    answer = await http.post("/oauth2/introspect", data={"token": token, **sent()})
    assert answer.status_code == 200, answer.text
    assert (await http.post("/oauth2/revoke", data={"token": token, **sent()})).status_code == 200
    refused(await http.post("/oauth2/introspect", data={"token": token, **sent(aud="https://x.example.com")}))
    forged = {**sent(), "client_assertion": signed("x" * 43, {**claims_of(form), "jti": new_id()}, "HS256")}
    refused(await ask_for_token(forged), word="not signed")
    by_key = {**sent(), "client_assertion": signed(KEY, claims_of(form))}
    refused(await ask_for_token(by_key), "invalid_client_authentication_scheme")


def claims_of(form):
    return relying_party.claims(form["client_assertion"])


@pytest.mark.requirement("contract-authentication-8", "oauth-2.1-2")
async def test_authentication_policy_table_holds_at_the_token_endpoint(rp, http):
    """Authentication 4; what PKCE makes of it is in test_public_client_authenticates_by_pkce."""
    await rp.configure(enabledGrants=["authorization_code", "password", "refresh_token"])
    grants = (
        (FORM, "auth_code_not_found"),
        ({"grant_type": "password", "username": "x", "password": "y"}, "invalid_user_credentials"),
        ({"grant_type": "refresh_token", "refresh_token": "x"}, "refresh_token_not_found"),
    )
    for policy in ("Required", "NotRequired"):
        await rp.configure(clientAuthenticationPolicy=policy)
        for grant, reason in grants:
            answer = await rp.token(http, **grant, client_secret=None)
            if policy == "Required":
                refused(answer, "client_authentication_missing")
            else:
                assert (answer.status_code, answer.json()["error_reason"]) == (400, reason)
            assert (await rp.token(http, **grant)).json()["error_reason"] == reason
            refused(await rp.token(http, **grant, client_secret="wrong"))


@pytest.mark.requirement("oauth-2.1-14")
async def test_short_secret_does_not_sign(secretive, http):
    refused(
        await token_request(secretive, http, signed(secretive.secret, claims(secretive), "HS512")), word="too short"
    )
    await secretive.configure(clientSecret="only-31-characters-long-secret-")
    assertion = signed("only-31-characters-long-secret-", claims(secretive), "HS256")
    refused(await token_request(secretive, http, assertion), word="too short")


@pytest.mark.requirement("oauth-12-5")
async def test_key_changes_take_effect_immediately(keyed, http):
    successor = new_key()
    await keyed.configure(jwks=public(KEY, successor))
    require_accepted(await token_request(keyed, http, signed(successor, claims(keyed))))
    require_accepted(await token_request(keyed, http, signed(KEY, claims(keyed))))
    await keyed.configure(jwks=public(successor))
    refused(await token_request(keyed, http, signed(KEY, claims(keyed))), word="not signed")


async def test_key_is_bound_to_its_algorithm(rp, http):
    key = new_key("RS256", alg="RS256")
    await rp.configure(clientAuthenticationMethods=["private_key_jwt"], jwks=public(key))
    require_accepted(await token_request(rp, http, signed(key, claims(rp), "RS256")))
    bare = new_key("RS256")
    stolen = type(key).import_key({**key.as_dict(private=True), "alg": "PS256", "kid": bare.kid})
    refused(await token_request(rp, http, signed(stolen, claims(rp), "PS256", kid=key.kid)), word="not signed")


@pytest.mark.requirement("oauth-2.1-18")
async def test_failed_assertion_is_logged_without_its_value(keyed, http, api):
    await keyed.configure(debug=True)
    assertion = signed(new_key(), claims(keyed))
    refused(await token_request(keyed, http, assertion))
    answer = await api.get("/api/system/event-log/search", params={"message": f"*{keyed.client_id}*"})
    messages = [row["message"] for row in answer.json()["eventLogs"]]
    assert any("not signed by the client" in message and "client_assertion" in message for message in messages)
    assert not any(assertion in message or assertion.split(".")[2] in message for message in messages)


@pytest.mark.requirement("oauth-2.1-18")
async def test_assertion_is_not_logged(keyed, http, capsys):
    assertion = signed(new_key(), claims(keyed))
    refused(await token_request(keyed, http, assertion))
    out, err = capsys.readouterr()
    assert assertion.split(".")[2] not in out + err


# jwksURI.


@pytest.fixture
async def site():
    """Where the client publishes its key set."""
    async with receiving(answers(body=_json(public(KEY)))) as receiver:
        yield receiver


@pytest.fixture
async def publishing(rp, site):
    await rp.configure(clientAuthenticationMethods=["private_key_jwt"], jwksURI=site.url)
    return rp


@pytest.mark.requirement("oauth-12-5")
async def test_key_set_is_fetched_once(publishing, http, site):
    for _ in range(3):
        require_accepted(await token_request(publishing, http, signed(KEY, claims(publishing))))
    assert [request.method for request in site.requests] == ["GET"]
    assert "authorization" not in site.requests[0].headers


@pytest.mark.requirement("oauth-12-5")
async def test_new_key_works_at_its_first_use_and_unknown_ones_refetch_once_a_minute(publishing, http, site, clock):
    def now():
        return int(clock.now() / 1000)

    require_accepted(await token_request(publishing, http, signed(KEY, claims(publishing))))
    successor, stranger = new_key(), new_key()
    site.behaviour = answers(body=_json(public(successor)))
    require_accepted(await token_request(publishing, http, signed(successor, claims(publishing))))
    assert len(site.requests) == 2
    for _ in range(3):
        refused(await token_request(publishing, http, signed(stranger, claims(publishing))), word="not signed")
    assert len(site.requests) == 2
    clock.advance(seconds=61)
    refused(await token_request(publishing, http, signed(KEY, claims(publishing, iat=now(), exp=now() + 60))))
    assert len(site.requests) == 3


@pytest.mark.requirement("oauth-12-5")
async def test_concurrent_requests_fetch_the_key_set_once(publishing, http, site):
    every = await asyncio.gather(*(token_request(publishing, http, signed(KEY, claims(publishing))) for _ in range(20)))
    for answer in every:
        require_accepted(answer)
    assert len(site.requests) == 1


@pytest.mark.requirement("oauth-12-5")
async def test_unavailable_key_set_is_reported_without_details(publishing, http, site):
    for behaviour in (answers(500), answers(200, b"no json"), answers(200, b"[]"), answers(302, b"{}")):
        await publishing.configure(jwksURI=f"{site.url}{new_id()}")
        site.behaviour = behaviour
        answer = await token_request(publishing, http, signed(KEY, claims(publishing)))
        refused(answer, word="cannot be fetched")
        assert site.url not in answer.text


@pytest.mark.requirement("oauth-12-5")
async def test_hanging_key_set_does_not_block_other_clients(publishing, http, site, api):
    """More requests hang than a tenant may have, while other clients are served."""
    site.behaviour = hangs
    hanging = []
    for _ in range(5):
        one = await relying_party.make(api, tenant=publishing.tenant)
        await one.configure(clientAuthenticationMethods=["private_key_jwt"], jwksURI=f"{site.url}{new_id()}")
        hanging.append(one)
    tasks = [asyncio.create_task(token_request(one, http, signed(KEY, claims(one)))) for one in hanging[:4]]
    await site.wait_for(4)
    refused(await token_request(hanging[4], http, signed(KEY, claims(hanging[4]))), word="cannot be fetched")
    site.behaviour = answers(body=_json(public(KEY)))
    other = await relying_party.make(api)
    await other.configure(clientAuthenticationMethods=["private_key_jwt"], jwksURI=site.url)
    require_accepted(await token_request(other, http, signed(KEY, claims(other))))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.requirement("attack-15", "core-9-oauthConfiguration")
async def test_attack_15_jwks_url_is_checked_when_stored(rp, api):
    for url in [
        "http://keys.example.com/jwks",
        "https://169.254.169.254/jwks",
        "https://[::ffff:10.0.0.1]/jwks",
        "https://user@keys.example.com/jwks",
        "ftp://keys.example.com",
        "jwks",
    ]:
        body = {"application": {"oauthConfiguration": {"jwksURI": url}}}
        answer = await api.patch(
            f"/api/application/{rp.client_id}", json=body, headers={"X-FusionAuth-TenantId": rp.tenant["id"]}
        )
        assert answer.status_code == 400
        assert "application.oauthConfiguration.jwksURI" in answer.json()["fieldErrors"]


def _json(document):
    return json.dumps(document).encode()


# jwks.


async def patched(rp, api, oauth):
    body = {"application": {"oauthConfiguration": oauth}}
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    return await api.patch(f"/api/application/{rp.client_id}", json=body, headers=headers)


@pytest.mark.requirement("core-9-oauthConfiguration")
async def test_stored_keys_are_returned_with_public_members_only(rp, api):
    [entry] = public(KEY)["keys"]
    answer = await patched(rp, api, {"jwks": {"keys": [{**entry, "x5c": ["MII"], "$where": {"a": 1}}]}})
    assert answer.status_code == 200, answer.text
    assert answer.json()["application"]["oauthConfiguration"]["jwks"] == {"keys": [entry]}


@pytest.mark.requirement("attack-39")
async def test_attack_39_private_key_is_rejected_and_not_repeated(rp, api):
    for algorithm in ["RS256", "ES256", "EdDSA"]:
        private = dict(new_key(algorithm).as_dict(private=True))
        answer = await patched(rp, api, {"jwks": {"keys": [private]}})
        assert answer.status_code == 400
        assert "[invalid]application.oauthConfiguration.jwks.keys[0]" in answer.text
        assert private["d"] not in answer.text


@pytest.mark.requirement("core-9-oauthConfiguration")
async def test_invalid_public_keys_are_rejected(rp, api):
    [good] = public(KEY)["keys"]
    small = {"kty": "RSA", "n": base64url(b"\xff" * 128), "e": "AQAB"}
    for entry in (
        {"kty": "oct", "k": "c2VjcmV0"},
        {"kty": "oct"},
        {},
        {**good, "use": "enc"},
        {**good, "alg": "HS256"},
        {**good, "alg": "none"},
        {**good, "alg": "RS256"},
        {**good, "x": good["y"]},
        {**good, "crv": "secp256k1"},
        {**good, "kty": "RSA"},
        small,
    ):
        answer = await patched(rp, api, {"jwks": {"keys": [entry]}})
        assert answer.status_code == 400, entry
        assert "[invalid]application.oauthConfiguration.jwks.keys[0]" in answer.text


@pytest.mark.requirement("core-9-oauthConfiguration")
async def test_number_of_keys_is_bounded_and_kids_are_unique(rp, api):
    path = "application.oauthConfiguration.jwks.keys"
    answer = await patched(rp, api, {"jwks": {"keys": public(KEY)["keys"] * 2}})
    assert f"[duplicate]{path}" in answer.text
    answer = await patched(rp, api, {"jwks": {"keys": [{"kid": str(n)} for n in range(21)]}})
    assert f"[tooMany]{path}" in answer.text
    answer = await patched(rp, api, {"jwks": {"keys": []}})
    assert answer.status_code == 400


@pytest.mark.requirement("core-9-oauthConfiguration")
async def test_private_key_jwt_requires_keys_from_one_source(rp, api):
    answer = await patched(rp, api, {"clientAuthenticationMethods": ["private_key_jwt"]})
    assert "[missing]application.oauthConfiguration.jwks" in answer.text
    both = {"jwks": public(KEY), "jwksURI": "https://keys.example.com/jwks"}
    answer = await patched(rp, api, both)
    assert "[invalid]application.oauthConfiguration.jwksURI" in answer.text
    answer = await patched(rp, api, {"clientAuthenticationMethods": ["magic"]})
    assert answer.status_code == 400
