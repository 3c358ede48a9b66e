"""Provider responses: mix-ups, forged tokens, malformed responses, and timeouts."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from identity.ids import base64url, new_id
from identity.outbound import federation
from identity.tokens import jwks
from tests import client_signer
from tests.fake_provider import make_key, providing, signed, unsigned

Document = dict[str, Any]

TOKEN = "[ExternalAuthenticationException]OpenIDConnectToken"
USERINFO = "[ExternalAuthenticationException]OpenIDConnectUserinfo"


@pytest.fixture(scope="module")
async def key_pairs() -> dict[str, Document]:
    """A key of each kind that takes long to find."""
    return {"ES256": await make_key("ES256"), "RS256": await make_key("RS256")}


async def is_refused(scenario: Any, **members: Any) -> bool:
    """Whether a login is refused with 401 and creates no user."""
    answer = await scenario.log_in(**members)
    assert await scenario.count_users() == 0
    return (answer.status_code, answer.content) == (401, b"")


async def failed_at(scenario: Any, **members: Any) -> str:
    """The step at which the provider gave no usable answer."""
    answer = await scenario.log_in(**members)
    assert answer.status_code == 400, answer.status_code
    (error,) = answer.json()["generalErrors"]
    assert "127.0.0.1" not in error["message"], "no map of our network for callers"
    return str(error["code"])


@pytest.mark.requirement("core-11-21")
async def test_an_id_token_alone_is_enough(federated, fake) -> None:
    fake.published = {"userinfo_endpoint": None}
    fake.id_claims = fake.claims(email=f"{new_id()}@example.com", email_verified=True)
    await federated.logged_in()
    assert fake.requests_to("/userinfo") == []


async def test_userinfo_alone_is_enough(federated) -> None:
    await federated.logged_in()


@pytest.mark.requirement("core-11-19")
async def test_the_token_request_is_the_published_one(federated, fake) -> None:
    await federated.change(oauth2={"client_id": "a client&", "client_secret": "s:ecret +ü"})
    await federated.logged_in(data={"code_verifier": "v" * 43})
    (request,) = fake.requests_to("/token")
    assert request.headers["authorization"] == "Basic YStjbGllbnQlMjY6cyUzQWVjcmV0KyUyQiVDMyVCQw=="
    assert fake.form() == {
        "grant_type": "authorization_code",
        "code": "the-code",
        "code_verifier": "v" * 43,
        "redirect_uri": "https://app.example.com/callback",
    }
    (request,) = fake.requests_to("/userinfo")
    assert request.headers["authorization"] == "Bearer the-access-token"


async def test_client_secret_is_sent_by_the_configured_method(federated, fake) -> None:
    await federated.change(oauth2={"clientAuthenticationMethod": "client_secret_post"})
    await federated.logged_in()
    assert (fake.form()["client_id"], fake.form()["client_secret"]) == ("the-client", "the secret")
    await federated.change(oauth2={"clientAuthenticationMethod": "none"})
    await federated.logged_in()
    assert fake.form()["client_id"] == "the-client"
    assert "client_secret" not in fake.form()
    assert all("authorization" not in request.headers for request in fake.requests_to("/token"))


@pytest.mark.requirement("core-11-18")
async def test_provider_without_issuer_uses_configured_endpoints_and_ignores_id_tokens(federated, fake) -> None:
    """There are no keys to check it with: whatever stands in it, userinfo decides."""
    endpoints = {name: f"{fake.issuer}/{name.partition('_')[0]}" for name in ("token_endpoint", "userinfo_endpoint")}
    endpoints["authorization_endpoint"] = "https://provider.example.com/authorize"
    await federated.change(oauth2={"issuer": None, "client_secret": "the secret", **endpoints})
    fake.id_claims = {"sub": "another user", "email": "evil@example.com", "email_verified": True}
    user = (await federated.logged_in())["user"]
    assert user["email"] == fake.userinfo["email"]
    assert fake.requests_to("/.well-known/openid-configuration") == []
    assert fake.requests_to("/jwks") == []
    assert (await federated.log_in(data={"nonce": "n"})).status_code == 401


# ID tokens


@pytest.mark.parametrize("algorithm", ["ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "Ed25519"])
async def test_every_supported_algorithm_is_accepted(federated, fake, algorithm) -> None:
    fake.key = await make_key(algorithm)
    fake.id_claims = fake.claims()
    await federated.logged_in()


@pytest.mark.requirement("core-11-34")
@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://evil.example.com"},
        {"iss": None},
        {"aud": "another-client"},
        {"aud": None},
        {"aud": ["the-client", "another-client"]},
        {"aud": ["another-client"], "azp": "the-client"},
        {"azp": "another-client"},
        {"sub": None},
        {"sub": "another-person"},
        {"iat": None},
        {"exp": None},
        {"exp": 1_700_000_000},
        {"exp": "2100-01-01"},
    ],
    ids=str,
)
async def test_id_token_for_another_client_is_rejected(federated, fake, changes) -> None:
    """Another issuer, client or subject, or an expired token: a mix-up, or a stolen token."""
    fake.id_claims = fake.claims(**changes)
    assert await is_refused(federated)


async def test_id_token_issued_more_than_a_minute_ahead_is_rejected(federated, fake, session_clock) -> None:
    now = session_clock.now() // 1000
    fake.id_claims = fake.claims(iat=now + 90, exp=now + 600)
    assert await is_refused(federated)
    fake.id_claims = fake.claims(iat=now + 20, exp=now + 600)
    await federated.logged_in()


async def test_several_audiences_require_azp(federated, fake) -> None:
    fake.id_claims = fake.claims(aud=["the-client", "another"], azp="the-client")
    await federated.logged_in()


async def test_missing_nonce_is_rejected(federated, fake) -> None:
    assert await is_refused(federated, data={"nonce": "mine"}), "there is no id token"
    fake.id_claims = fake.claims()
    assert await is_refused(federated, data={"nonce": "mine"})
    fake.id_claims = fake.claims(nonce="another")
    assert await is_refused(federated, data={"nonce": "mine"})
    fake.id_claims = fake.claims(nonce="mine")
    await federated.logged_in(data={"nonce": "mine"})


@pytest.mark.requirement("core-11-30")
async def test_response_of_another_issuer_is_rejected_before_the_token_request(federated, fake) -> None:
    """RFC 9207: a code that was meant for another provider must not reach this one."""
    assert await is_refused(federated, data={"iss": "https://evil.example.com"})
    assert fake.requests_to("/token") == []
    await federated.logged_in(data={"iss": fake.issuer})


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", "", None, 1])
async def test_an_unsigned_id_token_is_refused(federated, fake, algorithm) -> None:
    fake.id_token = unsigned(fake.claims(), alg=algorithm, kid=fake.key["kid"])
    assert await is_refused(federated)


@pytest.mark.parametrize("form", ["pem", "der", "jwk", "secret"])
@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
@pytest.mark.parametrize("kind", ["ES256", "RS256"])
async def test_public_key_is_not_used_as_hmac_secret(federated, fake, key_pairs, form, algorithm, kind) -> None:
    """The key decides the algorithm. The client's secret is no key for an ID token either."""
    fake.key = key_pairs[kind]
    public = load_pem_public_key(fake.key["publicKey"].encode())
    secret = {
        "pem": public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "der": public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        "jwk": json.dumps(jwks.to_jwk(fake.key)).encode(),
        "secret": b"the secret",
    }[form]
    head = base64url(json.dumps({"alg": algorithm, "kid": fake.key["kid"]}).encode())
    body = base64url(json.dumps(fake.claims()).encode())
    digest = getattr(hashlib, algorithm.replace("HS", "sha"))
    mac = hmac.new(secret, f"{head}.{body}".encode(), digest).digest()
    fake.id_token = f"{head}.{body}.{base64url(mac)}"
    assert await is_refused(federated)


async def test_symmetric_key_in_the_key_set_is_ignored(federated, fake) -> None:
    secret = b"k" * 32
    fake.keys = [{"kty": "oct", "kid": "shared", "alg": "HS256", "k": base64url(secret)}]
    head = base64url(json.dumps({"alg": "HS256", "kid": "shared"}).encode())
    body = base64url(json.dumps(fake.claims()).encode())
    mac = hmac.new(secret, f"{head}.{body}".encode(), hashlib.sha256).digest()
    fake.id_token = f"{head}.{body}.{base64url(mac)}"
    assert await is_refused(federated)


@pytest.mark.parametrize("name", ["jwk", "jku", "x5u", "x5c"])
async def test_key_in_the_token_header_is_ignored(federated, fake, name) -> None:
    evil = await make_key(kid=fake.key["kid"])
    values = {
        "jwk": jwks.to_jwk(evil),
        "jku": f"{fake.issuer}/evil",
        "x5u": f"{fake.issuer}/evil",
        "x5c": jwks.to_jwk(evil)["x5c"],
    }
    fake.id_token = await signed(evil, fake.claims(), **{name: values[name]})
    assert await is_refused(federated)
    assert fake.requests_to("/evil") == []


@pytest.mark.parametrize("header", [{"crit": ["exp"], "exp": 1}, {"b64": False, "crit": ["b64"]}, {"b64": False}])
async def test_unknown_critical_extensions_are_rejected(federated, fake, header) -> None:
    fake.id_token = await signed(fake.key, fake.claims(), **header)
    assert await is_refused(federated)


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "....", "a" * 20_000, 7, {"a": 1}])
async def test_malformed_id_token_is_rejected(federated, fake, token) -> None:
    fake.token_answer = {"id_token": token}
    answer = await federated.log_in(data={"nonce": "n"})
    assert answer.status_code == 401


async def test_a_changed_token_is_refused(federated, fake) -> None:
    token = await signed(fake.key, fake.claims())
    head, _, signature = token.split(".")
    forged = base64url(json.dumps(fake.claims(sub="admin")).encode())
    fake.id_token = f"{head}.{forged}.{signature}"
    assert await is_refused(federated)


async def test_key_with_another_algorithm_or_use_is_ignored(federated, fake) -> None:
    fake.id_claims = fake.claims()
    jwk = jwks.to_jwk(fake.key)
    for change in ({"alg": "RS256"}, {"use": "enc"}, {"kty": "EC", "crv": "P-384"}, {"x": "AA"}, {"kty": "XX"}):
        async with providing(fake.clock, fake.key) as other:
            other.keys = [{**jwk, **change}]
            other.id_claims = other.claims()
            other.userinfo = {}
            await federated.change(oauth2={"issuer": other.issuer, "client_secret": "the secret"})
            assert await is_refused(federated), change


# Keys and configurations


@pytest.mark.requirement("core-11-56")
async def test_new_key_works_at_its_first_use(federated, fake) -> None:
    fake.id_claims = fake.claims()
    await federated.logged_in()
    for _ in range(3):
        fake.key = await make_key()
        await federated.logged_in()
    assert len(fake.requests_to("/jwks")) == 4


@pytest.mark.requirement("core-11-56")
@pytest.mark.parametrize("kid", ["the-same", None])
async def test_new_key_under_the_id_of_the_old_one_works_at_its_first_use(federated, fake, kid) -> None:
    for _ in range(2):
        key = client_signer.new_key("RS256", kid=kid)
        fake.keys = client_signer.public(key)["keys"]
        fake.id_token = client_signer.signed(key, fake.claims(), "RS256")
        await federated.logged_in()
    assert len(fake.requests_to("/jwks")) == 2


@pytest.mark.requirement("core-11-56")
async def test_logins_with_a_new_key_at_once_share_a_fetch(federated, fake) -> None:
    fake.id_claims = fake.claims()
    await federated.logged_in()
    fake.key = await make_key()
    answers = await asyncio.gather(*(federated.log_in() for _ in range(8)))
    assert {answer.status_code for answer in answers} == {200}
    assert len(fake.requests_to("/jwks")) == 2


@pytest.mark.requirement("core-11-56")
async def test_flood_of_unknown_keys_fetches_within_a_limit_and_a_new_key_works_soon(federated, fake, clock) -> None:
    fake.id_claims = fake.claims()
    await federated.logged_in()
    for _ in range(federation.REFETCH_BURST * 3):
        fake.id_token = await signed({**fake.key, "kid": new_id()}, fake.claims())
        assert (await federated.log_in()).status_code == 401
    assert len(fake.requests_to("/jwks")) == 1 + federation.REFETCH_BURST
    fake.key, fake.id_token = await make_key(), None
    clock.advance(seconds=federation.REFETCH_SECONDS)
    await federated.logged_in()


@pytest.mark.requirement("core-11-56")
async def test_known_keys_work_while_the_key_set_cannot_be_fetched(federated, fake) -> None:
    fake.id_claims = fake.claims()
    await federated.logged_in()
    fake.broken, fake.status = "/jwks", 500
    fake.id_token = await signed(await make_key(), fake.claims())
    assert await failed_at(federated) == TOKEN
    fake.id_token = None
    await federated.logged_in()


SECRET = "a client secret of at least 64 bytes, as HMAC with SHA-512 requires it"


@pytest.mark.requirement("core-11-55")
@pytest.mark.parametrize("algorithm", ["PS256", "PS384", "PS512"])
@pytest.mark.parametrize("is_configured", [True, False])
async def test_id_tokens_with_pss_signatures_are_accepted(federated, fake, algorithm, is_configured) -> None:
    key = client_signer.new_key(algorithm, alg=algorithm)
    fake.keys = client_signer.public(key)["keys"]
    if is_configured:
        await federated.change(oauth2={"id_token_signed_response_alg": algorithm})
    fake.id_token = client_signer.signed(key, fake.claims(), algorithm)
    await federated.logged_in()


@pytest.mark.requirement("core-11-55")
@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
async def test_client_secret_verifies_id_tokens_if_the_provider_is_configured_to(federated, fake, algorithm) -> None:
    fake.id_token = client_signer.signed(SECRET, fake.claims(), algorithm)
    await federated.change(oauth2={"client_secret": SECRET})
    assert await is_refused(federated), "the header alone chooses nothing"
    await federated.change(oauth2={"id_token_signed_response_alg": algorithm})
    for forged in (
        client_signer.signed(
            "another secret of at least 64 bytes, as HMAC with SHA-512 requires", fake.claims(), algorithm
        ),
        client_signer.signed(SECRET, fake.claims(aud="another-client"), algorithm),
        client_signer.signed(SECRET, fake.claims(), "HS256" if algorithm != "HS256" else "HS512"),
        unsigned(fake.claims(), alg="none"),
        await signed(fake.key, fake.claims()),
    ):
        fake.id_token = forged
        assert await is_refused(federated)
    fake.id_token = client_signer.signed(SECRET, fake.claims(), algorithm)
    await federated.logged_in()
    assert fake.requests_to("/jwks") == [], "published keys verify nothing then"


@pytest.mark.requirement("core-11-55")
@pytest.mark.parametrize("member", ["id_token_signed_response_alg", "userinfo_signed_response_alg"])
async def test_short_client_secret_cannot_verify_signatures(federated, member) -> None:
    for algorithm, length in (("HS256", 32), ("HS384", 48), ("HS512", 64)):
        for secret, status in (("s" * (length - 1), 400), ("s" * length, 200)):
            oauth2 = {"client_secret": secret, member: algorithm}
            answer = await federated.api.patch(
                f"/api/identity-provider/{federated.provider['id']}",
                json={"identityProvider": {"oauth2": oauth2}},
                headers={"Content-Type": "application/merge-patch+json"},
            )
            assert answer.status_code == status, answer.text


@pytest.mark.requirement("core-11-55")
async def test_configured_algorithm_excludes_others(federated, fake) -> None:
    await federated.change(oauth2={"id_token_signed_response_alg": "RS256"})
    fake.id_claims = fake.claims()
    assert await is_refused(federated)
    assert fake.requests_to("/jwks") == [], "a token with another algorithm causes no request"
    fake.key = await make_key("RS256")
    await federated.logged_in()


@pytest.mark.requirement("core-11-55")
@pytest.mark.parametrize("algorithm", ["ES256", "PS256", "HS256"])
async def test_signed_userinfo_is_verified(federated, fake, algorithm) -> None:
    oauth2 = {"client_secret": SECRET, "userinfo_signed_response_alg": algorithm}
    await federated.change(oauth2=oauth2)
    key = SECRET if algorithm == "HS256" else client_signer.new_key(algorithm)
    stranger = SECRET[::-1] if algorithm == "HS256" else client_signer.new_key(algorithm)
    if not isinstance(key, str):
        fake.keys = client_signer.public(key)["keys"]
    person = dict(fake.userinfo)
    assert await is_refused(federated), "unsigned"
    claims = {**person, "iss": fake.issuer, "aud": fake.client_id}
    refused = [
        client_signer.signed(stranger, claims, algorithm),
        client_signer.signed(key, {**claims, "iss": "https://evil.example.com"}, algorithm),
        client_signer.signed(key, {**claims, "aud": "another-client"}, algorithm),
        client_signer.signed(key, {**claims, "aud": ["another-client"]}, algorithm),
        client_signer.signed(key, {**claims, "exp": 1}, algorithm),
        unsigned(claims, alg="none"),
    ]
    for token in refused:
        fake.userinfo = token
        assert await is_refused(federated)
    fake.userinfo = client_signer.signed(key, claims, algorithm)
    assert (await federated.logged_in())["user"]["email"] == person["email"]


@pytest.mark.requirement("core-11-55")
async def test_signed_userinfo_needs_no_configuration_with_a_published_key(federated, fake) -> None:
    fake.userinfo = await signed(fake.key, {**fake.userinfo, "iss": fake.issuer, "aud": [fake.client_id]})
    await federated.logged_in()
    secret = "s" * 32
    await federated.change(oauth2={"client_secret": secret})
    fake.userinfo = client_signer.signed(
        secret, {"sub": "b", "email": "b@example.com", "email_verified": True}, "HS256"
    )
    assert (await federated.log_in()).status_code == 401


async def test_key_set_is_refetched_for_new_keys_with_throttling(federated, fake, clock) -> None:
    fake.id_claims = fake.claims()
    await federated.logged_in()
    await federated.logged_in()
    assert len(fake.requests_to("/jwks")) == 1
    fake.key = await make_key()
    clock.advance(seconds=federation.REFETCH_SECONDS + 1)
    await federated.logged_in()
    assert len(fake.requests_to("/jwks")) == 2
    stranger = await make_key()
    fake.id_token = await signed(stranger, fake.claims())
    for _ in range(5):
        assert (await federated.log_in()).status_code == 401
    assert len(fake.requests_to("/jwks")) == 3, "once for the unknown key"
    clock.advance(seconds=federation.REFETCH_SECONDS + 1)
    assert (await federated.log_in()).status_code == 401
    assert len(fake.requests_to("/jwks")) == 4


@pytest.mark.requirement("core-11-18")
async def test_provider_metadata_is_cached_for_an_hour(federated, fake, clock) -> None:
    for seconds, expected in ((0, 1), (federation.CACHE_SECONDS - 60, 1), (120, 2)):
        clock.advance(seconds=seconds)
        await federated.logged_in()
        assert len(fake.requests_to("/.well-known/openid-configuration")) == expected


@pytest.mark.requirement("core-11-18")
@pytest.mark.parametrize(
    "published",
    [
        {"issuer": "https://evil.example.com"},
        {"issuer": None},
        {"token_endpoint": None},
        {"token_endpoint": "http://example.com/token"},
        {"token_endpoint": 7},
        {"token_endpoint": "https://["},
        {"jwks_uri": "file:///etc/passwd"},
        {"userinfo_endpoint": ["https://example.com"]},
    ],
    ids=str,
)
async def test_invalid_provider_metadata_is_rejected(federated, fake, published) -> None:
    fake.published = published
    assert await failed_at(federated) == TOKEN
    assert fake.requests_to("/token") == []


@pytest.mark.parametrize("url", ["https://10.0.0.1/token", "https://169.254.169.254/latest", "http://127.0.0.1:22/"])
async def test_issuer_in_an_internal_network_is_rejected(federated, fake, url) -> None:
    """The guard checks every address at the time of the request, whatever its source."""
    fake.published = {"token_endpoint": url}
    assert await failed_at(federated) == TOKEN


@pytest.mark.requirement("core-11-34")
@pytest.mark.parametrize(
    ("path", "step"),
    [
        ("/.well-known/openid-configuration", TOKEN),
        ("/token", TOKEN),
        ("/userinfo", USERINFO),
        ("/jwks", TOKEN),
    ],
)
@pytest.mark.parametrize(
    ("status", "raw"),
    [
        (500, b"{}"),
        (302, b"{}"),
        (200, b""),
        (200, b"<html>"),
        (200, b"[]"),
        (200, b"7"),
        (200, b"[" * 100_000),
        (200, b'{"a": "' + b"x" * 300_000 + b'"}'),
        (400, b'{"error": "invalid_grant", "error_description": "secret words"}'),
    ],
    ids=["500", "302", "empty", "html", "array", "number", "deep", "large", "refusal"],
)
async def test_malformed_response_is_an_error_of_its_step(federated, fake, path, step, status, raw) -> None:
    fake.id_claims = fake.claims()
    fake.broken, fake.status, fake.raw = path, status, raw
    assert await failed_at(federated) == step
    assert await federated.count_users() == 0


async def test_requests_to_an_unavailable_provider_are_throttled(federated, fake, clock) -> None:
    fake.broken, fake.status = "/.well-known/openid-configuration", 500
    for _ in range(4):
        assert await failed_at(federated) == TOKEN
    assert len(fake.requests_to("/.well-known/openid-configuration")) == 1
    fake.broken = ""
    clock.advance(seconds=6)
    await federated.logged_in()


async def test_unreachable_provider_is_an_error(federated, fake) -> None:
    await fake.receiver.stop()
    assert await failed_at(federated) == TOKEN


@pytest.mark.parametrize("token", ["a\nb", "ü", 7, None])
async def test_unsendable_access_token_is_not_sent(federated, fake, token) -> None:
    fake.token_answer = {"access_token": token}
    fake.id_claims = fake.claims(email=f"{new_id()}@example.com", email_verified=True)
    answer = await federated.log_in()
    assert answer.status_code == (400 if isinstance(token, str) else 200)
    assert fake.requests_to("/userinfo") == []


@pytest.mark.parametrize(
    "claims",
    [
        {"deep": json.loads("[" * 60 + "]" * 60)},
        {"a": {"b\x00": 1}},
        {"text": ["\ud800"]},
        {"number": 2**63},
        {"number": -(2**63) - 1},
        {"number": float("inf")},
    ],
    ids=str,
)
async def test_claims_that_cannot_be_stored_are_rejected(federated, fake, claims) -> None:
    fake.userinfo = {**fake.userinfo, **claims}
    assert await is_refused(federated)


@pytest.mark.parametrize("value", ["\ud800", 2**64, {"a\x00": 1}], ids=ascii)
async def test_tokens_that_cannot_be_stored_are_rejected(federated, fake, value) -> None:
    fake.token_answer = {"refresh_token": value}
    assert await is_refused(federated)


@pytest.mark.parametrize("value", [None, 7, "", ["a"]])
async def test_only_a_valid_refresh_token_is_stored(federated, fake, value) -> None:
    fake.token_answer = {"refresh_token": value}
    user = (await federated.logged_in())["user"]
    (link,) = await federated.links(user["id"])
    assert "token" not in link
