"""Access and ID tokens: claims under each policy, and verification."""

from __future__ import annotations

import dataclasses

import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey

from identity.ids import new_id
from identity.instants import later, numeric_date
from identity.tokens import id_tokens, jwks, jws, keys
from identity.tokens.access_tokens import TokenContext
from identity.tokens.issuer import TokenIssuer, VerifiedToken
from identity.tokens.jws import Rejection
from identity.tokens.key_refresh_throttling import KeyRefreshThrottle
from identity.tokens.signing_keys import CLIENT_SECRET_KEYS, KeyRing
from tests.builders import NOW, make_application, make_registration, make_tenant, make_user

ISSUER = "https://id.example.com"
HS256_CLIENT_SECRET = next(key_id for key_id, algorithm in CLIENT_SECRET_KEYS.items() if algorithm == "HS256")


class World:
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
def world(key_documents):
    return World(key_documents, "Strict")


@pytest.fixture
def compatible(key_documents):
    return World(key_documents, "Compatibility")


@pytest.mark.requirement("oauth-0.1-6", "oauth-2.10-4")
async def test_strict_access_token_holds_the_house_claims_and_no_login_id(world):
    claims = await world.access_claims(scopes=("openid", "email", "profile"), refresh_token_id="a-record")
    jti = claims.pop("jti")
    assert len(jti) == 36
    assert claims == {
        "applicationId": world.application["id"],
        "aud": world.application["id"],
        "auth_time": (NOW - 5_500) // 1000,
        "authenticationType": "PASSWORD",
        "exp": NOW // 1000 + 3600,
        "gty": ["authorization_code"],
        "iat": NOW // 1000,
        "iss": ISSUER,
        "roles": ["admin", "user"],
        "scope": "openid email profile",
        "sid": "a-record",
        "sub": world.user["id"],
        "tid": world.tenant["id"],
        "tty": "at",
    }


@pytest.mark.requirement("oauth-2.10-4")
async def test_compatible_access_token_holds_the_login_ids_whatever_the_scopes(compatible):
    claims = await compatible.access_claims(scopes=())
    assert (claims["email"], claims["email_verified"]) == ("user@example.com", True)
    assert claims["preferred_username"] == "someone"
    assert "scope" not in claims and "given_name" not in claims


@pytest.mark.requirement("oauth-2.10-4")
async def test_access_token_of_an_unregistered_user_has_neither_roles_nor_application(world):
    world.user["registrations"] = []
    assert not {"roles", "applicationId"} & set(await world.access_claims())


@pytest.mark.requirement("oauth-2.10-6")
async def test_access_token_names_the_refresh_token_and_id_token_the_session(world):
    assert "sid" not in await world.access_claims(sso_session_id="a-session")
    assert (await world.id_claims(sso_session_id="a-session"))["sid"] == "a-session"
    both = {"sso_session_id": "a-session", "refresh_token_id": "a-record"}
    assert (await world.access_claims(**both))["sid"] == "a-record"
    assert (await world.id_claims(**both))["sid"] == "a-session"
    assert (await world.id_claims(refresh_token_id="a-record"))["sid"] == "a-record"


@pytest.mark.requirement("audit-b2", "certification-token-6", "oauth-2.10-5")
async def test_strict_id_token_has_the_claims_of_its_scopes(world):
    claims = await world.id_claims(scopes=("openid", "email", "profile"), nonce="n-0S6", code="a-code")
    assert set(claims) == {
        "aud", "auth_time", "at_hash", "authenticationType", "c_hash", "exp", "gty", "iat", "iss", "jti", "nonce",
        "scope", "sub", "tid", "tty", "email", "email_verified", "family_name", "given_name", "name",
        "preferred_username", "updated_at",
    }  # fmt: skip
    assert (claims["tty"], claims["nonce"], claims["aud"]) == ("id", "n-0S6", world.application["id"])
    assert (claims["authenticationType"], claims["tid"]) == ("PASSWORD", world.tenant["id"])


MINIMAL = {
    "aud", "auth_time", "at_hash", "authenticationType", "c_hash", "exp", "iat", "iss", "jti", "nonce", "sub", "tid",
}  # fmt: skip


@pytest.mark.requirement("audit-b2")
@pytest.mark.parametrize("oauth", [{"idTokenClaims": "Minimal"}, {"profile": "strict"}])
async def test_minimal_id_token_has_no_claims_of_ours_and_is_still_recognized(world, oauth):
    world.application["oauthConfiguration"] |= oauth
    login = world.login(scopes=("openid", "email", "profile"), nonce="n-0S6")
    token = (await world.issuer.id_token(login, NOW, access_token="an-access-token", code="a-code")).token
    verified = await world.issuer.verify_id_token(token, world.find_client, NOW)
    assert isinstance(verified, VerifiedToken)
    assert (set(verified.claims), verified.kind) == (MINIMAL, "id")
    assert jws.parse(token).header.keys() == {"alg", "kid", "typ"}
    assert isinstance(await world.issuer.verify_id_token_hint(token, world.find_client), VerifiedToken)
    world.tenant["jwtConfiguration"]["accessTokenKeyId"] = world.es256
    assert await world.issuer.verify_access_token(token, world.find_client, NOW) is Rejection.INVALID


@pytest.mark.requirement("audit-b2")
async def test_attack_27_logout_token_and_vended_token_are_not_accepted_as_minimal_id_tokens(world):
    world.application["oauthConfiguration"]["idTokenClaims"] = "Minimal"
    claims = world.read((await world.issuer.id_token(world.login(), NOW)).token)
    logout = await world.issuer.logout_token(world.tenant, world.application, world.user["id"], "s", NOW)
    vended = await world.issuer.vend(world.es256, claims, world.tenant)
    for token in (logout, vended):
        assert await world.issuer.verify_id_token(token, world.find_client, NOW) is Rejection.INVALID
        assert await world.issuer.verify_id_token_hint(token, world.find_client) is Rejection.INVALID


@pytest.mark.requirement("certification-token-6")
async def test_strict_id_token_alone_has_the_claims_of_its_scopes(world):
    claims = await world.id_claims(access_token=None, scopes=("openid", "email", "profile"), grants=("implicit",))
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
async def test_header_tells_the_grants(world):
    issued = await world.issuer.access_token(world.login(grants=("authorization_code", "refresh_token")), NOW)
    verified = await jws.verify(issued.token, lambda kid, claims: world.issuer.key(world.rs256))
    kid = world.keys[world.rs256]["kid"]
    assert verified.header == {"alg": "RS256", "gty": ["authorization_code", "refresh_token"], "kid": kid, "typ": "JWT"}
    assert verified.claims["gty"] == ["authorization_code", "refresh_token"]


@pytest.mark.requirement("core-9-jwtConfiguration", "oauth-2.10-13")
async def test_application_with_settings_of_its_own_signs_with_its_keys_for_its_time(world):
    world.application["jwtConfiguration"] |= {
        "enabled": True,
        "accessTokenKeyId": world.es256,
        "timeToLiveInSeconds": 60,
    }
    issued = await world.issuer.access_token(world.login(), NOW)
    assert issued.expires_in == 60
    assert world.read(issued.token)["exp"] == NOW // 1000 + 60
    world.application["jwtConfiguration"]["enabled"] = False
    assert (await world.issuer.access_token(world.login(), NOW)).expires_in == 3600


async def test_access_token_may_live_shorter_than_configured(world):
    issued = await world.issuer.access_token(world.login(), NOW, ttl=5)
    assert issued.expires_in == 5


@pytest.mark.requirement("oauth-2.10-15", "service-17")
async def test_id_token_may_be_signed_with_the_client_secret(world):
    world.tenant["jwtConfiguration"]["idTokenKeyId"] = HS256_CLIENT_SECRET
    issued = await world.issuer.id_token(world.login(), NOW)
    secret = OctKey.import_key(world.application["oauthConfiguration"]["clientSecret"])
    assert jwt.decode(issued.token, secret, algorithms=["HS256"], registry=_LAX).claims["sub"] == world.user["id"]


@pytest.mark.requirement("certification-logout-1")
async def test_id_token_signed_with_the_client_secret_comes_back(world):
    world.tenant["jwtConfiguration"]["idTokenKeyId"] = HS256_CLIENT_SECRET
    issued = await world.issuer.id_token(world.login(), NOW)
    assert isinstance(await world.issuer.verify_id_token(issued.token, world.find_client, NOW), VerifiedToken)
    assert isinstance(await world.issuer.verify_id_token_hint(issued.token, world.find_client), VerifiedToken)
    assert await world.issuer.verify_access_token(issued.token, world.find_client, NOW) is Rejection.INVALID
    world.application["oauthConfiguration"]["clientSecret"] = "of-somebody-else-43-characters-long-xxxxxxxx"
    assert await world.issuer.verify_id_token(issued.token, world.find_client, NOW) is Rejection.INVALID


async def test_client_secret_signs_nothing_for_a_client_with_other_keys_or_another_algorithm(world):
    world.tenant["jwtConfiguration"]["idTokenKeyId"] = HS256_CLIENT_SECRET
    token = (await world.issuer.id_token(world.login(), NOW)).token
    for key_id in (world.es256, *(key_id for key_id in CLIENT_SECRET_KEYS if key_id != HS256_CLIENT_SECRET)):
        world.tenant["jwtConfiguration"]["idTokenKeyId"] = key_id
        assert await world.issuer.verify_id_token(token, world.find_client, NOW) is Rejection.INVALID
    world.clients.clear()
    assert await world.issuer.verify_id_token(token, world.find_client, NOW) is Rejection.INVALID


@pytest.mark.requirement("core-7-rotation-stale")
async def test_unknown_kid_refreshes_stale_settings_before_rejection(world):
    world.application["tenantId"] = world.tenant["id"]
    changed = {
        **world.tenant,
        "jwtConfiguration": {**world.tenant["jwtConfiguration"], "accessTokenKeyId": world.es256},
    }
    login = dataclasses.replace(world.login(), tenant={**changed, "id": world.tenant["id"]})
    world.tenant["jwtConfiguration"]["idTokenKeyId"] = world.rs256
    token = (await world.issuer.access_token(login, NOW)).token
    world.news = {world.application["id"]: (changed, world.application)}
    assert isinstance(await world.issuer.verify_access_token(token, world.find_client, NOW), VerifiedToken)
    assert world.forgotten == [(world.tenant["id"], world.application["id"])]


@pytest.mark.requirement("core-7-rotation-stale")
async def test_invalid_tokens_cause_at_most_one_refresh_per_second(world, key_documents):
    claims = world.read((await world.issuer.access_token(world.login(), NOW)).token)
    token = await world.issuer.sign(key_documents[3]["id"], claims, world.tenant)
    for _ in range(3):
        assert await world.issuer.verify_access_token(token, world.find_client, NOW) is Rejection.INVALID
    assert len(world.forgotten) == 1


async def test_token_of_another_kind_causes_no_refresh(world):
    issued = await world.issuer.id_token(world.login(), NOW)
    assert await world.issuer.verify_access_token(issued.token, world.find_client, NOW) is Rejection.INVALID
    assert world.forgotten == []


async def test_missing_key_is_named_and_nothing_is_signed(world):
    world.tenant["jwtConfiguration"]["accessTokenKeyId"] = "gone"
    with pytest.raises(LookupError, match="gone"):
        await world.issuer.access_token(world.login(), NOW)


async def test_issued_token_comes_back_with_its_client(world):
    issued = await world.issuer.access_token(world.login(scopes=("openid", "email"), refresh_token_id="r"), NOW)
    verified = await world.issuer.verify_access_token(issued.token, world.find_client, NOW)
    assert isinstance(verified, VerifiedToken)
    assert (verified.tenant, verified.application) == (world.tenant, world.application)
    assert verified.scopes == ("openid", "email")
    assert verified.revocable_ids == (issued.token_id, "r")


async def test_access_token_expires_at_its_exp(world):
    issued = await world.issuer.access_token(world.login(), NOW)
    for seconds, expected in ((3599, VerifiedToken), (3600, Rejection)):
        moment = later(NOW, seconds=seconds)
        assert isinstance(await world.issuer.verify_access_token(issued.token, world.find_client, moment), expected)
    assert numeric_date(later(NOW, seconds=3600)) == world.read(issued.token)["exp"]


async def test_expired_id_token_is_still_a_hint(world):
    issued = await world.issuer.id_token(world.login(), NOW)
    moment = later(NOW, seconds=10_000)
    assert await world.issuer.verify_id_token(issued.token, world.find_client, moment) is Rejection.EXPIRED
    assert isinstance(await world.issuer.verify_id_token_hint(issued.token, world.find_client), VerifiedToken)


@pytest.mark.requirement("attack-27")
async def test_attack_27_one_kind_of_token_is_refused_as_another(world):
    world.tenant["jwtConfiguration"]["idTokenKeyId"] = world.rs256
    access = (await world.issuer.access_token(world.login(), NOW)).token
    identity = (await world.issuer.id_token(world.login(), NOW, access_token=access)).token
    assert await world.issuer.verify_access_token(identity, world.find_client, NOW) is Rejection.INVALID
    assert await world.issuer.verify_id_token(access, world.find_client, NOW) is Rejection.INVALID
    assert await world.issuer.verify_id_token_hint(access, world.find_client) is Rejection.INVALID


async def test_attack_27_other_jwts_of_our_keys_are_not_accepted_as_access_tokens(world):
    """A webhook signature or a logout token is signed with our key too, but says nothing of `tty`."""
    claims = world.read((await world.issuer.access_token(world.login(), NOW)).token)
    assert await world.issuer.verify_access_token(
        await world.issuer.sign(world.rs256, {"request_body_sha256": "x"}, world.tenant), world.find_client, NOW
    ) is Rejection.INVALID  # fmt: skip
    for spoiled in ({"tty": "lt"}, {"tty": None}, {"jti": None}, {"sub": None}, {"exp": None}):
        rest = {name: value for name, value in {**claims, **spoiled}.items() if value is not None}
        token = await world.issuer.sign(world.rs256, rest, world.tenant)
        assert await world.issuer.verify_access_token(token, world.find_client, NOW) is Rejection.INVALID


@pytest.mark.parametrize(
    "spoiled", [{"iss": "https://evil.example.com"}, {"tid": "another"}, {"aud": "unknown"}, {"aud": []}]
)
async def test_issuer_tenant_and_audience_must_be_those_of_the_client(spoiled, world):
    claims = world.read((await world.issuer.access_token(world.login(), NOW)).token)
    token = await world.issuer.sign(world.rs256, {**claims, **spoiled}, world.tenant)
    assert await world.issuer.verify_access_token(token, world.find_client, NOW) is Rejection.INVALID


async def test_token_for_several_audiences_belongs_to_the_first(world):
    claims = world.read((await world.issuer.access_token(world.login(), NOW)).token)
    token = await world.issuer.sign(
        world.rs256, {**claims, "aud": [claims["aud"], "https://api.example.com"]}, world.tenant
    )
    assert isinstance(await world.issuer.verify_access_token(token, world.find_client, NOW), VerifiedToken)
    token = await world.issuer.sign(
        world.rs256, {**claims, "aud": ["https://api.example.com", claims["aud"]]}, world.tenant
    )
    assert await world.issuer.verify_access_token(token, world.find_client, NOW) is Rejection.INVALID


@pytest.mark.requirement("oauth-2.10-16")
async def test_key_that_the_client_does_not_use_signs_nothing_for_it(world, key_documents):
    stranger = key_documents[3]["id"]
    claims = world.read((await world.issuer.access_token(world.login(), NOW)).token)
    token = await world.issuer.sign(stranger, claims, world.tenant)
    assert await world.issuer.verify_access_token(token, world.find_client, NOW) is Rejection.INVALID
    world.tenant["jwtConfiguration"]["accessTokenVerificationKeyIds"] = [stranger]
    assert isinstance(await world.issuer.verify_access_token(token, world.find_client, NOW), VerifiedToken)


async def test_key_of_id_tokens_does_not_sign_access_tokens(world):
    claims = world.read((await world.issuer.access_token(world.login(), NOW)).token)
    token = await world.issuer.sign(world.es256, claims, world.tenant)
    assert await world.issuer.verify_access_token(token, world.find_client, NOW) is Rejection.INVALID


async def test_token_of_another_tenant_is_not_ours_even_with_a_shared_key(world, key_documents):
    other = World(key_documents, "Strict")
    issued = await other.issuer.access_token(other.login(), NOW)
    world.clients |= {other.application["id"]: (world.tenant, other.application)}
    assert await world.issuer.verify_access_token(issued.token, world.find_client, NOW) is Rejection.INVALID


async def test_every_token_has_an_id_of_its_own(world):
    issued = [await world.issuer.access_token(world.login(), NOW) for _ in range(3)]
    assert len({one.token_id for one in issued}) == 3
    assert all(one.token not in repr(one) for one in issued)


async def test_job_is_immutable(world):
    with pytest.raises(dataclasses.FrozenInstanceError):
        world.login().scopes = ("admin",)
