"""DPoP proofs: examples of the RFC, and invalid proofs."""

from __future__ import annotations

import base64
import json

import pytest
from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.asymmetric import ed25519, padding, rsa

from identity.tokens import dpop, jwks
from tests.dpop import ClientKey

# RFC 9449 sections 4.1 and 7.1.
OF_TOKEN_REQUEST = (
    "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZ"
    "ldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19.eyJqdGkiOiItQndDM0VTYzZ"
    "hY2MybFRjIiwiaHRtIjoiUE9TVCIsImh0dSI6Imh0dHBzOi8vc2VydmVyLmV4YW1wbGUuY29tL3Rva2VuIiwiaWF0IjoxNTYyMjYyNjE2fQ.2-GxA6T8lP4vfrg8"
    "v-FdWP0A0zdrj8igiMLvqRMUvwnQg4PtFLbdLXiOSsX0x7NVY-FNyJK70nfbV37xRZT3Lg"
)
OF_RESOURCE_REQUEST = (
    "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZ"
    "ldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19.eyJqdGkiOiJlMWozVl9iS2lj"
    "OC1MQUVCIiwiaHRtIjoiR0VUIiwiaHR1IjoiaHR0cHM6Ly9yZXNvdXJjZS5leGFtcGxlLm9yZy9wcm90ZWN0ZWRyZXNvdXJjZSIsImlhdCI6MTU2MjI2MjYxOCwi"
    "YXRoIjoiZlVIeU8ycjJaM0RaNTNFc05yV0JiMHhXWG9hTnk1OUlpS0NBcWtzbVFFbyJ9.2oW9RP35yRqzhrtNP86L-Ey71EOptxRimPPToA1plemAgR6pxHF8y6-"
    "yqyVnmcw6Fy1dqd-jfxSYoMxhAJpLjA"
)
THUMBPRINT = "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"
URL = "https://server.example.com/token"


@pytest.mark.requirement("oauth-12-15")
async def test_examples_of_the_rfc_are_verified():
    proof = await dpop.verify(OF_TOKEN_REQUEST)
    assert proof is not None
    assert proof.thumbprint == THUMBPRINT  # RFC 9449 section 6.1
    assert proof.claims == {"jti": "-BwC3ESc6acc2lTc", "htm": "POST", "htu": URL, "iat": 1562262616}
    other = await dpop.verify(OF_RESOURCE_REQUEST)
    assert other is not None
    assert other.thumbprint == THUMBPRINT
    assert other.claims["ath"] == "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo"


@pytest.mark.requirement("oauth-12-15")
def test_thumbprint_is_that_of_the_rfc():
    n = (
        "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_"
        "2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD"
        "08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"
    )
    jwk = {"kty": "RSA", "n": n, "e": "AQAB", "alg": "RS256", "kid": "2011-04-29"}
    assert jwks.thumbprint(jwk) == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"  # RFC 7638 section 3.1
    edwards = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
    assert jwks.thumbprint(edwards) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"  # RFC 8037 appendix A.3


def flipped(text: str) -> str:
    return text[:-4] + ("A" if text[-4] != "A" else "B") + text[-3:]


async def test_changed_example_is_rejected():
    assert await dpop.verify(flipped(OF_TOKEN_REQUEST)) is None
    head, claims, signature = OF_RESOURCE_REQUEST.split(".")
    assert await dpop.verify(f"{head}.{OF_TOKEN_REQUEST.split('.')[1]}.{signature}") is None
    assert await dpop.verify(f"{head}.{claims}.") is None


def text(value: dict) -> str:
    return encoded(json.dumps(value).encode())


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


CLAIMS = {"jti": "1", "htm": "POST", "htu": URL, "iat": 1562262616}
KEY, OTHER = ClientKey(), ClientKey()

HEADERS = {
    "no type": {"typ": None},
    "type JWT": {"typ": "JWT"},
    "another type": {"typ": "at+jwt"},
    "no key": {"jwk": None},
    "key that is a text": {"jwk": "key"},
    "another key": {"jwk": OTHER.jwk},
    "private key": {"jwk": {**KEY.jwk, "d": KEY.d}},
    "symmetric member": {"jwk": {**KEY.jwk, "k": "AAAA"}},
    "key for encryption": {"jwk": {**KEY.jwk, "use": "enc"}},
    "key of another algorithm": {"jwk": {**KEY.jwk, "alg": "ES384"}},
    "point that is on no curve": {"jwk": {**KEY.jwk, "x": KEY.jwk["y"]}},
    "unknown kind of key": {"jwk": {**KEY.jwk, "kty": "oct"}},
    "kind of key that is no text": {"jwk": {**KEY.jwk, "kty": ["EC"]}},
    "huge key": {"jwk": {**KEY.jwk, "x": "A" * 9000}},
    "no algorithm": {"alg": None},
    "algorithm none": {"alg": "none"},
    "algorithm that is no text": {"alg": ["ES256"]},
    "algorithm of another curve": {"alg": "ES384"},
    "symmetric algorithm": {"alg": "HS256"},
    "critical extension": {"crit": ["x"], "x": 1},
    "key somewhere else": {"jwk": None, "jku": "https://evil.example.com/keys"},
}


@pytest.mark.requirement("oauth-12-15")
@pytest.mark.parametrize("changes", HEADERS.values(), ids=HEADERS.keys())
async def test_header_has_to_be_that_of_a_proof(changes):
    assert await dpop.verify(KEY.proof("POST", URL)) is not None
    assert await dpop.verify(KEY.proof("POST", URL, header=changes)) is None


@pytest.mark.requirement("oauth-12-15")
async def test_attack_33_and_34_unsigned_and_symmetric_proofs_are_rejected():
    for algorithm in ("none", "None", "nOnE"):
        head = text({"typ": "dpop+jwt", "alg": algorithm, "jwk": KEY.jwk})
        assert await dpop.verify(f"{head}.{text(CLAIMS)}.") is None
    secret = {"kty": "oct", "k": encoded(b"a secret of thirty-two octets ok")}
    head = text({"typ": "dpop+jwt", "alg": "HS256", "jwk": secret})
    mac = hmac.HMAC(b"a secret of thirty-two octets ok", hashes.SHA256())
    mac.update(f"{head}.{text(CLAIMS)}".encode())
    assert await dpop.verify(f"{head}.{text(CLAIMS)}.{encoded(mac.finalize())}") is None


async def test_rsa_and_edwards_proofs_are_accepted_up_to_a_size(monkeypatch):
    wide = rsa.generate_private_key(65537, 2048)
    numbers = wide.public_key().public_numbers()
    jwk = {"kty": "RSA", "n": encoded(numbers.n.to_bytes(256, "big")), "e": "AQAB"}
    signing_input = f"{text({'typ': 'dpop+jwt', 'alg': 'RS256', 'jwk': jwk})}.{text(CLAIMS)}"
    signature = wide.sign(signing_input.encode(), padding.PKCS1v15(), hashes.SHA256())
    proof = await dpop.verify(f"{signing_input}.{encoded(signature)}")
    assert proof is not None
    assert proof.thumbprint == jwks.thumbprint(jwk)
    monkeypatch.setattr(dpop, "_MAXIMUM_SIGNATURE_BYTES", 255)
    assert await dpop.verify(f"{signing_input}.{encoded(signature)}") is None
    short = ed25519.Ed25519PrivateKey.generate()
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": encoded(short.public_key().public_bytes_raw())}
    for algorithm in ("EdDSA", "Ed25519"):
        signing_input = f"{text({'typ': 'dpop+jwt', 'alg': algorithm, 'jwk': jwk})}.{text(CLAIMS)}"
        assert await dpop.verify(f"{signing_input}.{encoded(short.sign(signing_input.encode()))}") is not None


async def test_weak_rsa_key_is_rejected_in_proofs():
    weak = rsa.generate_private_key(65537, 1024)
    jwk = {"kty": "RSA", "n": encoded(weak.public_key().public_numbers().n.to_bytes(128, "big")), "e": "AQAB"}
    signing_input = f"{text({'typ': 'dpop+jwt', 'alg': 'RS256', 'jwk': jwk})}.{text(CLAIMS)}"
    signature = weak.sign(signing_input.encode(), padding.PKCS1v15(), hashes.SHA256())
    assert await dpop.verify(f"{signing_input}.{encoded(signature)}") is None
