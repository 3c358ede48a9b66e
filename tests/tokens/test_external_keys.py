"""External keys: selection from key sets, and invalid keys."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa, x25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from identity.ids import base64url
from identity.tokens import external_keys, jwks, jws
from identity.tokens.external_keys import KeySet
from identity.tokens.jws import Rejection, UnverifiedJwt, VerifiedJwt
from tests.client_signer import new_key, public
from tests.client_signer import signed as signed_by
from tests.fake_provider import make_key, signed

CLAIMS = {"sub": "someone"}


def integer(number: int) -> str:
    return base64url(number.to_bytes((number.bit_length() + 7) // 8, "big"))


def pem_of(public) -> str:
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


@pytest.fixture(scope="module")
async def key():
    return await make_key("ES256")


async def verified(token, key_set):
    async def find(header):
        return KeySet(key_set).find(header)

    return await jws.verify_external(token, find)


async def test_a_key_of_the_set_verifies(key):
    found = await verified(await signed(key, CLAIMS), {"keys": [jwks.to_jwk(key)]})
    assert isinstance(found, VerifiedJwt)
    assert found.claims == CLAIMS


async def test_key_without_alg_allows_every_fitting_algorithm(key):
    jwk = {name: value for name, value in jwks.to_jwk(key).items() if name not in {"alg", "use"}}
    assert isinstance(await verified(await signed(key, CLAIMS), {"keys": [jwk]}), VerifiedJwt)


async def test_edwards_keys_are_found_by_both_algorithm_names():
    key = await make_key("Ed25519")
    jwk = {name: value for name, value in jwks.to_jwk(key).items() if name != "alg"}
    for name in ("EdDSA", "Ed25519"):
        head = {"alg": name, "kid": key["kid"]}
        assert KeySet({"keys": [jwk]}).find(head).algorithm == "Ed25519"


async def test_a_token_without_kid_needs_a_set_with_one_key_that_fits(key):
    other, rsa_key = await make_key("ES256"), await make_key("ES384")
    token = await signed({**key, "kid": None}, CLAIMS)
    assert isinstance(await verified(token, {"keys": [jwks.to_jwk(rsa_key), jwks.to_jwk(key)]}), VerifiedJwt)
    both = {"keys": [jwks.to_jwk(other), jwks.to_jwk(key)]}
    assert await verified(token, both) is Rejection.INVALID


async def test_ambiguous_kid_matches_no_key(key):
    twice = {"keys": [jwks.to_jwk(key), jwks.to_jwk(key)]}
    assert await verified(await signed(key, CLAIMS), twice) is Rejection.INVALID


@pytest.mark.parametrize(
    "key_set", [{}, {"keys": None}, {"keys": "x"}, {"keys": {}}, {"keys": [7, None, "x", [], {}]}, {"keys": []}]
)
async def test_invalid_set_has_no_keys(key, key_set):
    assert await verified(await signed(key, CLAIMS), key_set) is Rejection.INVALID


async def test_only_the_first_hundred_keys_are_used(key):
    others = [{"kid": str(number)} for number in range(100)]
    assert await verified(await signed(key, CLAIMS), {"keys": [*others, jwks.to_jwk(key)]}) is Rejection.INVALID
    assert isinstance(await verified(await signed(key, CLAIMS), {"keys": [*others[1:], jwks.to_jwk(key)]}), VerifiedJwt)


@pytest.mark.parametrize(
    "change",
    [
        {"kty": "oct", "k": "AAAA"},
        {"kty": "RSA", "n": "AAAA", "e": "AQAB"},
        {"kty": "RSA"},
        {"kty": "OKP", "crv": "X25519"},
        {"kty": "OKP", "crv": "Ed25519", "x": "AA"},
        {"crv": "secp256k1"},
        {"crv": "P-521"},
        {"x": 7},
        {"x": "not base64url!"},
        {"y": "AAAA"},
        {"kty": ["EC"]},
        {"use": "enc"},
        {"alg": "HS256"},
        {"kid": 7},
    ],
    ids=str,
)
async def test_invalid_jwk_is_rejected(key, change):
    broken = {"keys": [{**jwks.to_jwk(key), **change}]}
    assert await verified(await signed(key, CLAIMS), broken) is Rejection.INVALID


@pytest.mark.parametrize(("bits", "exponent", "is_good"), [(1024, 65537, False), (2048, 65537, True), (2048, 3, True)])
def test_weak_rsa_keys_are_rejected(bits, exponent, is_good):
    numbers = rsa.generate_private_key(exponent, bits).public_key().public_numbers()
    jwk = {"kty": "RSA", "kid": "k", "n": integer(numbers.n), "e": integer(numbers.e)}
    assert (KeySet({"keys": [jwk]}).find({"alg": "RS256", "kid": "k"}) is not None) is is_good
    assert external_keys.is_public_pem(pem_of(rsa.RSAPublicNumbers(numbers.e, numbers.n).public_key())) is is_good


def test_large_rsa_exponent_is_rejected():
    numbers = rsa.generate_private_key(65537, 2048).public_key().public_numbers()
    jwk = {"kty": "RSA", "kid": "k", "n": integer(numbers.n), "e": integer(numbers.n - 2)}
    assert KeySet({"keys": [jwk]}).find({"alg": "RS256", "kid": "k"}) is None


def test_only_public_keys_that_sign_are_pems_of_a_key():
    private = ec.generate_private_key(ec.SECP256R1())
    secret = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    assert external_keys.is_public_pem(pem_of(private.public_key()))
    for text in (
        secret,
        pem_of(dsa.generate_private_key(2048).public_key()),
        pem_of(x25519.X25519PrivateKey.generate().public_key()),
        pem_of(ec.generate_private_key(ec.SECP256K1()).public_key()),
        "",
        "-----BEGIN CERTIFICATE-----",
    ):
        assert not external_keys.is_public_pem(text)
        assert external_keys.from_pem(text, "k", "ES256") is None


@pytest.mark.parametrize("algorithm", ["HS256", "none", "ES384", "RS256", None, 7])
async def test_pem_verifies_every_algorithm_of_its_key(key, algorithm):
    assert external_keys.from_pem(key["publicKey"], "k", "ES256").algorithm == "ES256"
    assert external_keys.from_pem(key["certificate"], "k", "ES256").algorithm == "ES256"
    assert external_keys.from_pem(key["publicKey"], "k", algorithm) is None


@pytest.mark.parametrize("kid", [["a"], {"a": 1}])
async def test_kid_that_is_not_text_matches_no_key(key, kid):
    jwk = jwks.to_jwk(key)
    assert KeySet({"keys": [jwk]}).find({"alg": "ES256", "kid": kid}) is None
    found = KeySet({"keys": [{**jwk, "kid": kid}, jwk]}).find({"alg": "ES256", "kid": key["kid"]})
    assert found is not None
    assert found.kid == key["kid"]


async def test_pss_is_accepted_and_the_key_fits_its_algorithm_alone():
    key = new_key("PS256")
    keys = external_keys.KeySet(public(key))
    token = jws.parse(signed_by(key, CLAIMS, "PS256"))
    assert isinstance(token, UnverifiedJwt)
    found = keys.find(token.header, external_keys.ALGORITHMS)
    assert isinstance(await token.verified(found), VerifiedJwt)
    assert keys.find({**token.header, "alg": "RS256"}, external_keys.ALGORITHMS) is not found
    assert (
        await token.verified(keys.find({**token.header, "alg": "PS512"}, external_keys.ALGORITHMS)) is Rejection.INVALID
    )


async def test_key_of_a_set_is_parsed_once():
    key = new_key()
    keys = external_keys.KeySet(public(key))
    header = {"alg": "ES256", "kid": key.kid}
    assert keys.find(header) is keys.find(header)


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512", "none", ["ES256"], None])
async def test_attack_34_key_set_returns_no_key_for_symmetric_algorithms(algorithm):
    keys = external_keys.KeySet({"keys": [*public(new_key())["keys"], {"kty": "oct", "k": "c2VjcmV0"}]})
    assert keys.find({"alg": algorithm}, (*external_keys.ALGORITHMS, "HS256")) is None
