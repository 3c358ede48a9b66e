"""JSON Web Keys: the public half of a key document (RFC 7517, RFC 7518 section 6, RFC 8037)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable

import orjson
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from identity.call import Document
from identity.ids import base64url
from identity.tokens import certificates

_THUMBPRINT_MEMBERS = {"EC": ("crv", "kty", "x", "y"), "OKP": ("crv", "kty", "x"), "RSA": ("e", "kty", "n")}
_CURVE_NAMES = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}


def to_jwk_set(documents: Iterable[Document]) -> Document:
    """Return the JWK Set of all asymmetric keys."""
    return {"keys": [to_jwk(document) for document in documents if "publicKey" in document]}


def to_jwk(document: Document) -> Document:
    """Return the JWK of an asymmetric key, with public members only."""
    jwk = {"alg": document["algorithm"], "kid": document["kid"], "use": "sig", **public_members(document["publicKey"])}
    if "certificate" in document:
        certificate = x509.load_pem_x509_certificate(document["certificate"].encode())
        # Unlike all other members, x5c is plain base64 (RFC 7517 section 4.7).
        jwk["x5c"] = [base64.b64encode(certificate.public_bytes(Encoding.DER)).decode()]
        jwk["x5t"] = certificates.thumbprint(certificate)
        jwk["x5t#S256"] = certificates.thumbprint_sha256(certificate)
    return jwk


def thumbprint(jwk: Document) -> str:
    """Return the SHA-256 thumbprint of a public key (RFC 7638 section 3, RFC 8037 section 2)."""
    members = {name: jwk[name] for name in _THUMBPRINT_MEMBERS[jwk["kty"]]}
    return base64url(hashlib.sha256(orjson.dumps(members, option=orjson.OPT_SORT_KEYS)).digest())


def public_members(pem: str) -> Document:
    """Return the members of a JWK that define a public RSA, EC or Ed25519 key."""
    public = load_pem_public_key(pem.encode())
    if isinstance(public, rsa.RSAPublicKey):
        numbers = public.public_numbers()
        return {"kty": "RSA", "n": _integer(numbers.n), "e": _integer(numbers.e)}
    if isinstance(public, ec.EllipticCurvePublicKey):
        # Coordinates keep their leading zeros (RFC 7518 section 6.2.1.2).
        size, point = (public.key_size + 7) // 8, public.public_numbers()
        x, y = (base64url(number.to_bytes(size, "big")) for number in (point.x, point.y))
        return {"kty": "EC", "crv": _CURVE_NAMES[public.curve.name], "x": x, "y": y}
    assert isinstance(public, ed25519.Ed25519PublicKey), "import and generation accept no other keys"
    return {"kty": "OKP", "crv": "Ed25519", "x": base64url(public.public_bytes(Encoding.Raw, PublicFormat.Raw))}


def _integer(number: int) -> str:
    return base64url(number.to_bytes((number.bit_length() + 7) // 8, "big"))
