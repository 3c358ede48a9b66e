"""Access and ID tokens: claims under each policy, and verification."""

from __future__ import annotations

import dataclasses

import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey

from identity.ids import new_id
from identity.instants import later, numeric_date
from identity.tokens import id_tokens, issuer, jwks, jws, keys
from identity.tokens.access_tokens import TokenContext
from identity.tokens.issuer import KeyRefreshThrottle, TokenIssuer, VerifiedToken
from identity.tokens.jws import Rejection
from identity.tokens.signing_keys import CLIENT_SECRET_KEYS, KeyRing
from tests.builders import NOW, make_application, make_registration, make_tenant, make_user

ISSUER = "https://id.example.com"
HS256_CLIENT_SECRET = next(key_id for key_id, algorithm in CLIENT_SECRET_KEYS.items() if algorithm == "HS256")


class Setup:
    """A tenant with an application, a registered user and keys; clients are found by their id."""

    def __init__(self, key_documents, policy):
        self.keys = {document["id"]: document for document in key_documents}
        self.rs256, self.es256, self.hs256 = (document["id"] for document in key_documents[:3])
        self.tenant = make_tenant(issuer=ISSUER)
        self.tenant["jwtConfiguration"] |= {"accessTokenKeyId": self.rs256, "idTokenKeyId": self.es256}
        self.application = make_application({"scopeHandlingPolicy": policy}, tenantId=self.tenant["id"])
        self.user = make_user(
            username="someone",
            firstName="Some",
            lastName="One",
            verified=True,
            registrations=[make_registration(self.application, "user", "admin")],
        )
        self.clients = {self.application["id"]: (self.tenant, self.application)}
        self.issuer = TokenIssuer(KeyRing(self._find_key), KeyRefreshThrottle(self._forget))
        self.forgotten, self.news = [], {}

    async def _find_key(self, key_id):
        return self.keys.get(key_id)

    def _forget(self, tenant_id, application_id):
        """Make a change visible that this process had not received before."""
        self.forgotten.append((tenant_id, application_id))
        self.clients |= self.news

    async def find_client(self, client_id):
        return self.clients.get(client_id)

    def login(self, **members) -> TokenContext:
        members = {"scopes": ("openid",), "grants": ("authorization_code",), **members}
        return TokenContext(
            tenant=self.tenant,
            application=self.application,
            user=self.user,
            authentication_type="PASSWORD",
            auth_instant=NOW - 5_500,
            **members,
        )

    async def access_claims(self, **members):
        issued = await self.issuer.access_token(self.login(**members), NOW)
        return self.read(issued.token)

    async def id_claims(self, *, access_token="an-access-token", code=None, **members):
        issued = await self.issuer.id_token(self.login(**members), NOW, access_token=access_token, code=code)
        return self.read(issued.token)

    def read(self, token):
        """The claims, as an independent library verifies them."""
        published = KeySet.import_key_set(jwks.to_jwk_set(self.keys.values()))
        return jwt.decode(token, published, algorithms=["RS256", "ES256"], registry=_LAX).claims


_LAX = jwt.JWSRegistry(strict_check_header=False)


@pytest.fixture(scope="module")
async def key_documents():
    wanted = [
        {"algorithm": "RS256", "length": 2048},
        {"algorithm": "ES256"},
        {"algorithm": "HS256"},
        {"algorithm": "ES256"},
    ]
    made = [await keys.generate(one, ISSUER, NOW) for one in wanted]
    return [{"id": new_id(), "lastUpdateInstant": NOW, **document} for document in made]


@pytest.fixture
def setup(key_documents):
    return Setup(key_documents, "Strict")


@pytest.fixture
def compatible(key_documents):
    return Setup(key_documents, "Compatibility")


@pytest.mark.requirement("oauth-0.1-6", "oauth-2.10-4")
async def test_strict_access_token_holds_the_house_claims_and_no_login_id(setup):
    claims = await setup.access_claims(scopes=("openid", "email", "profile"), refresh_token_id="a-record")
    jti = claims.pop("jti")
    assert len(jti) == 36
    assert claims == {
        "applicationId": setup.application["id"],
        "aud": setup.application["id"],
        "auth_time": (NOW - 5_500) // 1000,
        "authenticationType": "PASSWORD",
        "exp": NOW // 1000 + 3600,
        "gty": ["authorization_code"],
        "iat": NOW // 1000,
        "iss": ISSUER,
        "roles": ["admin", "user"],
        "scope": "openid email profile",
        "sid": "a-record",
        "sub": setup.user["id"],
        "tid": setup.tenant["id"],
        "tty": "at",
    }


@pytest.mark.requirement("oauth-2.10-4")
async def test_compatible_access_token_holds_the_login_ids_whatever_the_scopes(compatible):
    claims = await compatible.access_claims(scopes=())
    assert (claims["email"], claims["email_verified"]) == ("user@example.com", True)
    assert claims["preferred_username"] == "someone"
    assert "scope" not in claims and "given_name" not in claims


@pytest.mark.requirement("oauth-2.10-4")
async def test_access_token_of_an_unregistered_user_has_neither_roles_nor_application(setup):
    setup.user["registrations"] = []
    assert not {"roles", "applicationId"} & set(await setup.access_claims())


@pytest.mark.requirement("oauth-2.10-6")
async def test_access_token_names_the_refresh_token_and_id_token_the_session(setup):
    assert "sid" not in await setup.access_claims(sso_session_id="a-session")
    assert (await setup.id_claims(sso_session_id="a-session"))["sid"] == "a-session"
    both = {"sso_session_id": "a-session", "refresh_token_id": "a-record"}
    assert (await setup.access_claims(**both))["sid"] == "a-record"
    assert (await setup.id_claims(**both))["sid"] == "a-session"
    assert (await setup.id_claims(refresh_token_id="a-record"))["sid"] == "a-record"


@pytest.mark.requirement("audit-b2", "certification-token-6", "oauth-2.10-5")
async def test_strict_id_token_has_the_claims_of_its_scopes(setup):
    claims = await setup.id_claims(scopes=("openid", "email", "profile"), nonce="n-0S6", code="a-code")
    assert set(claims) == {
        "aud", "auth_time", "at_hash", "authenticationType", "c_hash", "exp", "gty", "iat", "iss", "jti", "nonce",
        "scope", "sub", "tid", "tty", "email", "email_verified", "family_name", "given_name", "name",
        "preferred_username", "updated_at",
    }  # fmt: skip
    assert (claims["tty"], claims["nonce"], claims["aud"]) == ("id", "n-0S6", setup.application["id"])
    assert (claims["authenticationType"], claims["tid"]) == ("PASSWORD", setup.tenant["id"])


MINIMAL = {
    "aud", "auth_time", "at_hash", "authenticationType", "c_hash", "exp", "iat", "iss", "jti", "nonce", "sub", "tid",
}  # fmt: skip


@pytest.mark.requirement("audit-b2")
@pytest.mark.parametrize("oauth", [{"idTokenClaims": "Minimal"}, {"profile": "strict"}])
async def test_minimal_id_token_has_no_claims_of_ours_and_is_still_recognized(setup, oauth):
    setup.application["oauthConfiguration"] |= oauth
    login = setup.login(scopes=("openid", "email", "profile"), nonce="n-0S6")
    token = (await setup.issuer.id_token(login, NOW, access_token="an-access-token", code="a-code")).token
    verified = await setup.issuer.verify_id_token(token, setup.find_client, NOW)
    assert isinstance(verified, VerifiedToken)
    assert (set(verified.claims), verified.kind) == (MINIMAL, "id")
    assert jws.parse(token).header.keys() == {"alg", "kid", "typ"}
    assert isinstance(await setup.issuer.verify_id_token_hint(token, setup.find_client), VerifiedToken)
    setup.tenant["jwtConfiguration"]["accessTokenKeyId"] = setup.es256
    assert await setup.issuer.verify_access_token(token, setup.find_client, NOW) is Rejection.INVALID


@pytest.mark.requirement("audit-b2")
async def test_attack_27_logout_token_and_vended_token_are_not_accepted_as_minimal_id_tokens(setup):
    setup.application["oauthConfiguration"]["idTokenClaims"] = "Minimal"
    claims = setup.read((await setup.issuer.id_token(setup.login(), NOW)).token)
    logout = await setup.issuer.logout_token(setup.tenant, setup.application, setup.user["id"], "s", NOW)
    vended = await setup.issuer.vend(setup.es256, claims, setup.tenant)
    for token in (logout, vended):
        assert await setup.issuer.verify_id_token(token, setup.find_client, NOW) is Rejection.INVALID
        assert await setup.issuer.verify_id_token_hint(token, setup.find_client) is Rejection.INVALID


@pytest.mark.requirement("certification-token-6")
async def test_strict_id_token_alone_has_the_claims_of_its_scopes(setup):
    claims = await setup.id_claims(access_token=None, scopes=("openid", "email", "profile"), grants=("implicit",))
    assert (claims["email"], claims["email_verified"], claims["name"]) == ("user@example.com", True, "Some One")
    assert not {"at_hash", "c_hash", "applicationId", "roles"} & set(claims)


@pytest.mark.requirement("oauth-2.10-5")
async def test_compatible_id_token_holds_login_ids_but_no_roles(compatible):
    claims = await compatible.id_claims(scopes=("openid",))
    assert (claims["email"], claims["tid"], claims["authenticationType"]) == (
        "user@example.com",
        compatible.tenant["id"],
        "PASSWORD",
    )
    assert not {"applicationId", "roles", "given_name"} & set(claims)


@pytest.mark.requirement("certification-authorize-9", "oauth-1.3-7", "oauth-2.10-7")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y", "77QmUPtjPfzWtF2AnpK9RQ"),
        ("Qcb0Orv1zh30vL1MPRsbm-diHiMwcLyZvn1arpZv-Jxf_11jnpEX3Tgfvk", "LDktKdoQak3Pk0cnXxCltA"),
    ],
)
def test_hashes_are_those_of_openid_connect_core_appendix_a(text, expected):
    assert id_tokens.half_hash(text, "RS256") == id_tokens.half_hash(text, "ES256") == expected


@pytest.mark.requirement("oauth-2.10-7")
@pytest.mark.parametrize(("algorithm", "length"), [("HS256", 22), ("ES384", 32), ("RS512", 43), ("Ed25519", 43)])
def test_hash_is_half_the_digest_of_the_algorithm(algorithm, length):
    assert len(id_tokens.half_hash("x", algorithm)) == length


@pytest.mark.requirement("oauth-2.10-2")
async def test_header_lists_the_grants(setup):
    issued = await setup.issuer.access_token(setup.login(grants=("authorization_code", "refresh_token")), NOW)
    verified = await jws.verify(issued.token, lambda kid, claims: setup.issuer.key(setup.rs256))
    kid = setup.keys[setup.rs256]["kid"]
    assert verified.header == {"alg": "RS256", "gty": ["authorization_code", "refresh_token"], "kid": kid, "typ": "JWT"}
    assert verified.claims["gty"] == ["authorization_code", "refresh_token"]


@pytest.mark.requirement("core-9-jwtConfiguration", "oauth-2.10-13")
async def test_application_with_settings_of_its_own_signs_with_its_keys_for_its_time(setup):
    setup.application["jwtConfiguration"] |= {
        "enabled": True,
        "accessTokenKeyId": setup.es256,
        "timeToLiveInSeconds": 60,
    }
    issued = await setup.issuer.access_token(setup.login(), NOW)
    assert issued.expires_in == 60
    assert setup.read(issued.token)["exp"] == NOW // 1000 + 60
    setup.application["jwtConfiguration"]["enabled"] = False
    assert (await setup.issuer.access_token(setup.login(), NOW)).expires_in == 3600


async def test_access_token_may_live_shorter_than_configured(setup):
    issued = await setup.issuer.access_token(setup.login(), NOW, ttl=5)
    assert issued.expires_in == 5


@pytest.mark.requirement("oauth-2.10-15", "service-17")
async def test_id_token_may_be_signed_with_the_client_secret(setup):
    setup.tenant["jwtConfiguration"]["idTokenKeyId"] = HS256_CLIENT_SECRET
    issued = await setup.issuer.id_token(setup.login(), NOW)
    secret = OctKey.import_key(setup.application["oauthConfiguration"]["clientSecret"])
    assert jwt.decode(issued.token, secret, algorithms=["HS256"], registry=_LAX).claims["sub"] == setup.user["id"]


@pytest.mark.requirement("certification-logout-1")
async def test_id_token_signed_with_the_client_secret_comes_back(setup):
    setup.tenant["jwtConfiguration"]["idTokenKeyId"] = HS256_CLIENT_SECRET
    issued = await setup.issuer.id_token(setup.login(), NOW)
    assert isinstance(await setup.issuer.verify_id_token(issued.token, setup.find_client, NOW), VerifiedToken)
    assert isinstance(await setup.issuer.verify_id_token_hint(issued.token, setup.find_client), VerifiedToken)
    assert await setup.issuer.verify_access_token(issued.token, setup.find_client, NOW) is Rejection.INVALID
    setup.application["oauthConfiguration"]["clientSecret"] = "of-another-client-43-characters-long-xxxxxxx"
    assert await setup.issuer.verify_id_token(issued.token, setup.find_client, NOW) is Rejection.INVALID


async def test_client_secret_signs_nothing_for_a_client_with_other_keys_or_another_algorithm(setup):
    setup.tenant["jwtConfiguration"]["idTokenKeyId"] = HS256_CLIENT_SECRET
    token = (await setup.issuer.id_token(setup.login(), NOW)).token
    for key_id in (setup.es256, *(key_id for key_id in CLIENT_SECRET_KEYS if key_id != HS256_CLIENT_SECRET)):
        setup.tenant["jwtConfiguration"]["idTokenKeyId"] = key_id
        assert await setup.issuer.verify_id_token(token, setup.find_client, NOW) is Rejection.INVALID
    setup.clients.clear()
    assert await setup.issuer.verify_id_token(token, setup.find_client, NOW) is Rejection.INVALID


@pytest.mark.requirement("core-7-rotation-stale")
async def test_unknown_kid_refreshes_stale_settings_before_rejection(setup):
    setup.application["tenantId"] = setup.tenant["id"]
    changed = {
        **setup.tenant,
        "jwtConfiguration": {**setup.tenant["jwtConfiguration"], "accessTokenKeyId": setup.es256},
    }
    login = dataclasses.replace(setup.login(), tenant={**changed, "id": setup.tenant["id"]})
    setup.tenant["jwtConfiguration"]["idTokenKeyId"] = setup.rs256
    token = (await setup.issuer.access_token(login, NOW)).token
    setup.news = {setup.application["id"]: (changed, setup.application)}
    assert isinstance(await setup.issuer.verify_access_token(token, setup.find_client, NOW), VerifiedToken)
    assert setup.forgotten == [(setup.tenant["id"], setup.application["id"])]


@pytest.mark.requirement("core-7-rotation-stale")
async def test_invalid_tokens_cause_at_most_one_refresh_per_second(setup, key_documents):
    claims = setup.read((await setup.issuer.access_token(setup.login(), NOW)).token)
    token = await setup.issuer.sign(key_documents[3]["id"], claims, setup.tenant)
    for _ in range(3):
        assert await setup.issuer.verify_access_token(token, setup.find_client, NOW) is Rejection.INVALID
    assert len(setup.forgotten) == 1


async def test_token_of_another_kind_causes_no_refresh(setup):
    issued = await setup.issuer.id_token(setup.login(), NOW)
    assert await setup.issuer.verify_access_token(issued.token, setup.find_client, NOW) is Rejection.INVALID
    assert setup.forgotten == []


async def test_missing_key_is_named_and_nothing_is_signed(setup):
    setup.tenant["jwtConfiguration"]["accessTokenKeyId"] = "gone"
    with pytest.raises(LookupError, match="gone"):
        await setup.issuer.access_token(setup.login(), NOW)


async def test_issued_token_comes_back_with_its_client(setup):
    issued = await setup.issuer.access_token(setup.login(scopes=("openid", "email"), refresh_token_id="r"), NOW)
    verified = await setup.issuer.verify_access_token(issued.token, setup.find_client, NOW)
    assert isinstance(verified, VerifiedToken)
    assert (verified.tenant, verified.application) == (setup.tenant, setup.application)
    assert verified.scopes == ("openid", "email")
    assert verified.revocable_ids == (issued.token_id, "r")


async def test_access_token_expires_at_its_exp(setup):
    issued = await setup.issuer.access_token(setup.login(), NOW)
    for seconds, expected in ((3599, VerifiedToken), (3600, Rejection)):
        moment = later(NOW, seconds=seconds)
        assert isinstance(await setup.issuer.verify_access_token(issued.token, setup.find_client, moment), expected)
    assert numeric_date(later(NOW, seconds=3600)) == setup.read(issued.token)["exp"]


async def test_expired_id_token_is_still_a_hint(setup):
    issued = await setup.issuer.id_token(setup.login(), NOW)
    moment = later(NOW, seconds=10_000)
    assert await setup.issuer.verify_id_token(issued.token, setup.find_client, moment) is Rejection.EXPIRED
    assert isinstance(await setup.issuer.verify_id_token_hint(issued.token, setup.find_client), VerifiedToken)


@pytest.mark.requirement("attack-27")
async def test_attack_27_one_kind_of_token_is_refused_as_another(setup):
    setup.tenant["jwtConfiguration"]["idTokenKeyId"] = setup.rs256
    access = (await setup.issuer.access_token(setup.login(), NOW)).token
    identity = (await setup.issuer.id_token(setup.login(), NOW, access_token=access)).token
    assert await setup.issuer.verify_access_token(identity, setup.find_client, NOW) is Rejection.INVALID
    assert await setup.issuer.verify_id_token(access, setup.find_client, NOW) is Rejection.INVALID
    assert await setup.issuer.verify_id_token_hint(access, setup.find_client) is Rejection.INVALID


async def test_attack_27_other_jwts_of_our_keys_are_not_accepted_as_access_tokens(setup):
    """A webhook signature or a logout token is signed with our key too, but says nothing of `tty`."""
    claims = setup.read((await setup.issuer.access_token(setup.login(), NOW)).token)
    assert await setup.issuer.verify_access_token(
        await setup.issuer.sign(setup.rs256, {"request_body_sha256": "x"}, setup.tenant), setup.find_client, NOW
    ) is Rejection.INVALID  # fmt: skip
    for spoiled in ({"tty": "lt"}, {"tty": None}, {"jti": None}, {"sub": None}, {"exp": None}):
        rest = {name: value for name, value in {**claims, **spoiled}.items() if value is not None}
        token = await setup.issuer.sign(setup.rs256, rest, setup.tenant)
        assert await setup.issuer.verify_access_token(token, setup.find_client, NOW) is Rejection.INVALID


@pytest.mark.parametrize(
    "spoiled", [{"iss": "https://evil.example.com"}, {"tid": "another"}, {"aud": "unknown"}, {"aud": []}]
)
async def test_issuer_tenant_and_audience_must_be_those_of_the_client(spoiled, setup):
    claims = setup.read((await setup.issuer.access_token(setup.login(), NOW)).token)
    token = await setup.issuer.sign(setup.rs256, {**claims, **spoiled}, setup.tenant)
    assert await setup.issuer.verify_access_token(token, setup.find_client, NOW) is Rejection.INVALID


async def test_token_for_several_audiences_belongs_to_the_first(setup):
    claims = setup.read((await setup.issuer.access_token(setup.login(), NOW)).token)
    token = await setup.issuer.sign(
        setup.rs256, {**claims, "aud": [claims["aud"], "https://api.example.com"]}, setup.tenant
    )
    assert isinstance(await setup.issuer.verify_access_token(token, setup.find_client, NOW), VerifiedToken)
    token = await setup.issuer.sign(
        setup.rs256, {**claims, "aud": ["https://api.example.com", claims["aud"]]}, setup.tenant
    )
    assert await setup.issuer.verify_access_token(token, setup.find_client, NOW) is Rejection.INVALID


@pytest.mark.requirement("oauth-2.10-16")
async def test_key_that_the_client_does_not_use_signs_nothing_for_it(setup, key_documents):
    stranger = key_documents[3]["id"]
    claims = setup.read((await setup.issuer.access_token(setup.login(), NOW)).token)
    token = await setup.issuer.sign(stranger, claims, setup.tenant)
    assert await setup.issuer.verify_access_token(token, setup.find_client, NOW) is Rejection.INVALID
    setup.tenant["jwtConfiguration"]["accessTokenVerificationKeyIds"] = [stranger]
    assert isinstance(await setup.issuer.verify_access_token(token, setup.find_client, NOW), VerifiedToken)


async def test_key_of_id_tokens_does_not_sign_access_tokens(setup):
    claims = setup.read((await setup.issuer.access_token(setup.login(), NOW)).token)
    token = await setup.issuer.sign(setup.es256, claims, setup.tenant)
    assert await setup.issuer.verify_access_token(token, setup.find_client, NOW) is Rejection.INVALID


async def test_token_of_another_tenant_is_not_ours_even_with_a_shared_key(setup, key_documents):
    other = Setup(key_documents, "Strict")
    issued = await other.issuer.access_token(other.login(), NOW)
    setup.clients |= {other.application["id"]: (setup.tenant, other.application)}
    assert await setup.issuer.verify_access_token(issued.token, setup.find_client, NOW) is Rejection.INVALID


async def test_every_token_has_an_id_of_its_own(setup):
    issued = [await setup.issuer.access_token(setup.login(), NOW) for _ in range(3)]
    assert len({one.token_id for one in issued}) == 3
    assert all(one.token not in repr(one) for one in issued)


async def test_job_is_immutable(setup):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setup.login().scopes = ("admin",)


def test_each_client_is_refreshed_at_most_once_a_second(monkeypatch) -> None:
    now, forgotten = 100.0, []
    monkeypatch.setattr(issuer.time, "monotonic", lambda: now)
    throttle = KeyRefreshThrottle(lambda *ids: forgotten.append(ids))
    assert throttle.try_refresh({"id": "t"}, {"id": "a"})
    assert not throttle.try_refresh({"id": "t"}, {"id": "a"})
    assert throttle.try_refresh({"id": "t"}, {"id": "b"})
    now += 1.0
    assert throttle.try_refresh({"id": "t"}, {"id": "a"})
    assert forgotten == [("t", "a"), ("t", "b"), ("t", "a")]


def test_memory_is_bounded(monkeypatch) -> None:
    monkeypatch.setattr(issuer, "_MAXIMUM_CLIENTS", 2)
    throttle = KeyRefreshThrottle(lambda *_ids: None)
    for name in ("a", "b", "c"):
        assert throttle.try_refresh({"id": "t"}, {"id": name})
    assert not throttle.try_refresh({"id": "t"}, {"id": "c"})
    assert throttle.try_refresh({"id": "t"}, {"id": "a"})
