"""Generating, importing and publishing keys."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from joserfc.jwk import KeySet

from identity.errors import Invalid
from identity.ids import base64url
from identity.tokens import jwks, keys
from tests.builders import NOW

ISSUER = "https://id.example.com"
TEN_YEARS_MS = 3652 * 86_400_000


async def generate(algorithm: str, **members):
    length = {"length": 2048} if algorithm.startswith("RS") else {}
    return await keys.generate({"algorithm": algorithm, **length, **members}, ISSUER, NOW)


@pytest.fixture(scope="module")
async def rsa_key():
    return await generate("RS256")


@pytest.fixture(scope="module")
async def other_rsa_key():
    return await generate("RS256")


def pem_of(private, fmt=PrivateFormat.PKCS8, encryption=None) -> str:
    return private.private_bytes(Encoding.PEM, fmt, encryption or NoEncryption()).decode()


def public_pem_of(private) -> str:
    return private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


async def refused(wanted) -> list[str]:
    with pytest.raises(Invalid) as caught:
        await keys.import_material(wanted)
    return [error.code for error in caught.value.fields]


@pytest.mark.requirement("service-9")
@pytest.mark.parametrize("length", [2048, 3072])
async def test_rsa_key_has_the_length_it_was_asked_for(length):
    made = await generate("RS384", length=length)
    private = load_pem_private_key(made["privateKey"].encode(), None)
    assert private.key_size == made["length"] == length
    assert (made["type"], made["algorithm"], made["hasPrivateKey"], made["issuer"]) == ("RSA", "RS384", True, ISSUER)


@pytest.mark.requirement("service-9")
@pytest.mark.parametrize(
    ("algorithm", "curve", "length"),
    [("ES256", "secp256r1", 256), ("ES384", "secp384r1", 384), ("ES512", "secp521r1", 521)],
)
async def test_ec_key_lies_on_the_curve_of_its_algorithm(algorithm, curve, length):
    made = await generate(algorithm)
    assert load_pem_private_key(made["privateKey"].encode(), None).curve.name == curve
    assert (made["type"], made["length"]) == ("EC", length)


async def test_ed25519_key_is_an_okp_without_certificate():
    made = await generate("Ed25519")
    assert isinstance(load_pem_public_key(made["publicKey"].encode()), ed25519.Ed25519PublicKey)
    assert made["type"] == "OKP" and "certificate" not in made and "length" not in made
    assert len(made["kid"]) == 27


@pytest.mark.requirement("service-9")
@pytest.mark.parametrize(("algorithm", "size"), [("HS256", 32), ("HS384", 48), ("HS512", 64)])
async def test_hmac_secret_has_as_many_bytes_as_its_digest(algorithm, size):
    made = await generate(algorithm)
    assert len(base64.b64decode(made["secret"])) == size
    assert len(made["kid"]) == 10 and int(made["kid"], 16) >= 0
    assert set(made) == {"type", "algorithm", "kid", "secret"}


async def test_certificate_names_the_issuer_for_ten_years_and_gives_the_kid(rsa_key):
    certificate = x509.load_pem_x509_certificate(rsa_key["certificate"].encode())
    der = certificate.public_bytes(Encoding.DER)
    information = rsa_key["certificateInformation"]
    certificate.verify_directly_issued_by(certificate)
    assert information["subject"] == information["issuer"] == f"CN={ISSUER}"
    assert (information["validFrom"], information["validTo"] - information["validFrom"]) == (NOW, TEN_YEARS_MS)
    assert rsa_key["expirationInstant"] == information["validTo"]
    assert information["sha1Fingerprint"].replace(":", "").lower() == hashlib.sha1(der).hexdigest()
    assert information["sha256Fingerprint"].replace(":", "").lower() == hashlib.sha256(der).hexdigest()
    assert information["md5Fingerprint"].replace(":", "").lower() == hashlib.md5(der).hexdigest()
    assert rsa_key["kid"] == information["sha1Thumbprint"] == base64url(hashlib.sha1(der).digest())
    assert information["serialNumber"] == str(certificate.serial_number)


async def test_issuer_longer_than_a_common_name_may_be_still_makes_a_certificate():
    made = await keys.generate({"algorithm": "ES256"}, "https://" + "long." * 30 + "example.com", NOW)
    assert len(made["certificateInformation"]["subject"]) == len("CN=") + 64


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({}, "[missing]key.algorithm"),
        ({"algorithm": "RS256"}, "[missing]key.length"),
        ({"algorithm": "RS256", "length": 1024}, "[invalid]key.length"),
        ({"algorithm": "RS256", "length": 2049}, "[invalid]key.length"),
        ({"algorithm": "None"}, "[invalid]key.algorithm"),
        ({"algorithm": "ES256", "type": "RSA"}, "[invalid]key.type"),
    ],
)
async def test_generate_refuses(wanted, code):
    with pytest.raises(Invalid) as caught:
        await keys.generate(wanted, ISSUER, NOW)
    assert [error.code for error in caught.value.fields] == [code]


async def test_requested_kid_is_used():
    assert (await generate("ES256", kid="my-kid"))["kid"] == "my-kid"
    assert (await generate("HS256", kid="my-kid"))["kid"] == "my-kid"


@pytest.mark.parametrize("fmt", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
async def test_private_key_is_imported_with_any_line_ends_and_gives_its_public_half(fmt, line_end):
    private = ec.generate_private_key(ec.SECP256R1())
    pem = pem_of(private, fmt).replace("\n", line_end)
    made = await keys.import_material({"type": "EC", "privateKey": pem})
    assert made["publicKey"] == public_pem_of(private).strip()
    assert "\r" not in made["privateKey"]
    assert (made["algorithm"], made["length"], made["hasPrivateKey"]) == ("ES256", 256, True)


async def test_rsa_key_is_rs256_unless_another_is_named(rsa_key):
    pair = {"type": "RSA", "privateKey": rsa_key["privateKey"]}
    assert (await keys.import_material(pair))["algorithm"] == "RS256"
    assert (await keys.import_material({**pair, "algorithm": "RS512"}))["algorithm"] == "RS512"


async def test_certificate_alone_gives_a_key_that_only_verifies(rsa_key):
    made = await keys.import_material({"certificate": rsa_key["certificate"]})
    assert made["publicKey"] == rsa_key["publicKey"] and made["kid"] == rsa_key["kid"]
    assert made["hasPrivateKey"] is False and "privateKey" not in made
    assert made["expirationInstant"] == rsa_key["expirationInstant"]


@pytest.mark.requirement("core-7-length")
async def test_short_rsa_key_is_imported_for_verification_only():
    private = rsa.generate_private_key(65537, 1024)
    assert (await keys.import_material({"publicKey": public_pem_of(private)}))["length"] == 1024
    assert await refused({"type": "RSA", "privateKey": pem_of(private)}) == ["[invalid]key.length"]


async def test_ed25519_key_is_imported():
    private = ed25519.Ed25519PrivateKey.generate()
    assert (await keys.import_material({"type": "OKP", "privateKey": pem_of(private)}))["algorithm"] == "Ed25519"


async def test_hmac_secret_is_imported_as_it_is():
    secret = "an agreed secret of more than thirty-two bytes"
    made = await keys.import_material({"type": "HMAC", "algorithm": "HS256", "secret": secret})
    assert (made["type"], made["algorithm"], made["secret"]) == ("HMAC", "HS256", secret)


async def test_import_refuses_halves_that_do_not_belong_together(rsa_key, other_rsa_key):
    pair = {"type": "RSA", "privateKey": rsa_key["privateKey"]}
    assert await refused({**pair, "publicKey": other_rsa_key["publicKey"]}) == ["[invalid]key.publicKey"]
    assert await refused({**pair, "certificate": other_rsa_key["certificate"]}) == ["[invalid]key.certificate"]


async def test_import_refuses_a_type_or_algorithm_that_does_not_fit(rsa_key):
    assert await refused({"type": "EC", "publicKey": rsa_key["publicKey"]}) == ["[invalid]key.type"]
    assert await refused({"type": "RSA", "algorithm": "ES256", "publicKey": rsa_key["publicKey"]}) == [
        "[invalid]key.algorithm"
    ]


@pytest.mark.parametrize(
    ("wanted", "codes"),
    [
        ({}, ["[missing]key.type"]),
        ({"type": "RSA"}, ["[blank]key.publicKey"]),
        ({"type": "HMAC"}, ["[missing]key.algorithm", "[blank]key.secret"]),
        ({"type": "HMAC", "algorithm": "RS256", "secret": " "}, ["[invalid]key.algorithm", "[blank]key.secret"]),
        ({"algorithm": "HS256", "secret": "x" * 40}, ["[missing]key.type"]),
        ({"type": "HMAC", "algorithm": "HS256", "secret": "too short"}, ["[invalid]key.secret"]),
        ({"type": "HMAC", "algorithm": "HS512", "secret": "x" * 63}, ["[invalid]key.secret"]),
        ({"type": "RSA", "privateKey": "no PEM"}, ["[invalid]key.privateKey"]),
        ({"publicKey": "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"}, ["[invalid]key.publicKey"]),
        ({"certificate": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"}, ["[invalid]key.certificate"]),
    ],
)
async def test_import_refuses(wanted, codes):
    assert await refused(wanted) == codes


async def test_import_refuses_a_pair_without_its_type(rsa_key):
    assert await refused({"privateKey": rsa_key["privateKey"]}) == ["[missing]key.type"]


async def test_import_refuses_encrypted_keys_and_foreign_curves():
    private = ec.generate_private_key(ec.SECP256K1())
    locked = pem_of(ec.generate_private_key(ec.SECP256R1()), encryption=BestAvailableEncryption(b"password"))
    assert await refused({"type": "EC", "privateKey": locked}) == ["[invalid]key.privateKey"]
    assert await refused({"publicKey": public_pem_of(private)}) == ["[invalid]key.publicKey"]


@pytest.mark.requirement("attack-34")
async def test_attack_34_public_key_material_is_rejected_as_hmac_secret(rsa_key):
    public = load_pem_public_key(rsa_key["publicKey"].encode())
    ssh = public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    jwk_set = json.dumps(jwks.to_jwk_set([rsa_key]))
    for secret in (rsa_key["publicKey"], "\n" + rsa_key["certificate"], ssh, jwk_set):
        assert await refused({"type": "HMAC", "algorithm": "HS256", "secret": secret}) == ["[invalid]key.secret"]


@pytest.mark.requirement("contract-discovery-1")
async def test_jwk_set_is_read_by_an_independent_library():
    made = [await generate(name) for name in ("RS256", "ES256", "ES384", "ES512", "Ed25519", "HS256")]
    published = jwks.to_jwk_set(made)["keys"]
    read = KeySet.import_key_set({"keys": published})
    for key, entry, imported in zip(made, published, read.keys, strict=False):
        assert imported.as_pem(private=False).decode().strip() == key["publicKey"]
        assert (entry["kid"], entry["alg"], entry["use"]) == (key["kid"], key["algorithm"], "sig")


@pytest.mark.requirement("attack-39", "oauth-4.4-1")
async def test_attack_39_jwk_holds_public_members_only():
    made = [await generate(name) for name in ("RS256", "ES512", "Ed25519", "HS256")]
    published = jwks.to_jwk_set(made)["keys"]
    assert [entry["kty"] for entry in published] == ["RSA", "EC", "OKP"]
    allowed = {"alg", "kid", "kty", "use", "n", "e", "crv", "x", "y", "x5c", "x5t", "x5t#S256"}
    for entry in published:
        assert set(entry) <= allowed
        assert not any("=" in str(entry.get(name, "")) for name in ("n", "e", "x", "y", "x5t", "x5t#S256"))


async def test_jwk_coordinates_keep_their_leading_zeros():
    """Of many P-521 keys some have a short coordinate; every one must be written with 66 bytes (88 characters)."""
    for _ in range(20):
        entry = jwks.to_jwk(await generate("ES512"))
        assert len(entry["x"]) == len(entry["y"]) == 88


@pytest.mark.requirement("oauth-4.4-1")
async def test_jwk_carries_its_certificate(rsa_key):
    entry = jwks.to_jwk(rsa_key)
    der = base64.b64decode(entry["x5c"][0])
    assert x509.load_der_x509_certificate(der) == x509.load_pem_x509_certificate(rsa_key["certificate"].encode())
    assert entry["x5t"] == rsa_key["certificateInformation"]["sha1Thumbprint"]
    assert entry["x5t#S256"] == rsa_key["certificateInformation"]["sha256Thumbprint"]
