"""Public keys of others: from a JWK Set that a provider publishes, or from a PEM that an administrator pasted.

Only asymmetric keys come out of here, so that nobody can pass a public key off as the secret of an HMAC (RFC 8725
section 2.1). The key's own kind leaves a choice of algorithms, and a token's header may choose among those alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from identity.call import Document
from identity.ids import unbase64url
from identity.tokens.signing_keys import PublicKey, SigningKey, of_public_key

_MAXIMUM_KEYS: Final = 100
_RSA_BITS: Final = range(2048, 8193)
_LARGEST_EXPONENT: Final = 2**32
_CURVES: Final[Mapping[str, tuple[ec.EllipticCurve, str]]] = {
    "P-256": (ec.SECP256R1(), "ES256"),
    "P-384": (ec.SECP384R1(), "ES384"),
    "P-521": (ec.SECP521R1(), "ES512"),
}
_ALGORITHM_OF_CURVE: Final = {curve.name: algorithm for curve, algorithm in _CURVES.values()}
_OF_RSA: Final = ("RS256", "RS384", "RS512")


def of_set(jwks: Document, header: Mapping[str, Any]) -> SigningKey | None:
    """The key of a JWK Set that may have signed a token with this header (RFC 7517 section 5), or None.

    A header without `kid` is enough where only one key fits.
    """
    entries = jwks.get("keys")
    if not isinstance(entries, list) or not isinstance(header.get("alg"), str):
        return None
    kid = header.get("kid")
    # Compared one by one: what should be a text may be anything, and not everything can be looked up.
    wanted = [entry for entry in entries[:_MAXIMUM_KEYS] if isinstance(entry, dict) and kid in (None, entry.get("kid"))]
    found = [key for entry in wanted if (key := _of_jwk(entry, header["alg"])) is not None]
    return found[0] if len(found) == 1 else None


def of_pem(pem: str, kid: str, algorithm: object) -> SigningKey | None:
    """The key of a PEM, for the algorithm that a token names, or None where the key is not one for that."""
    try:
        public = _loaded(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return _signing_key(public, kid, str(algorithm))


def is_public_pem(pem: str) -> bool:
    """Whether a text is the PEM of a public key or of a certificate that can be used here."""
    try:
        return bool(_algorithms(_loaded(pem)))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False


def _loaded(pem: str) -> PublicKey:
    octets = (pem.replace("\r\n", "\n").strip() + "\n").encode()
    found: object = (
        x509.load_pem_x509_certificate(octets).public_key()
        if b"BEGIN CERTIFICATE" in octets
        else load_pem_public_key(octets)
    )
    if not isinstance(found, rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey):
        raise TypeError("neither RSA nor EC nor Ed25519")
    return found


def _of_jwk(entry: Document, algorithm: str) -> SigningKey | None:
    if entry.get("use", "sig") != "sig" or entry.get("alg", algorithm) != algorithm:
        return None
    try:
        public = _PARSERS[entry["kty"]](entry)
    except (KeyError, TypeError, ValueError):
        return None
    return _signing_key(public, str(entry.get("kid", "")), algorithm)


def _rsa(entry: Document) -> PublicKey:
    return rsa.RSAPublicNumbers(_number(entry["e"]), _number(entry["n"])).public_key()


def _ec(entry: Document) -> PublicKey:
    curve, _ = _CURVES[entry["crv"]]
    return ec.EllipticCurvePublicNumbers(_number(entry["x"]), _number(entry["y"]), curve).public_key()


def _okp(entry: Document) -> PublicKey:
    if entry["crv"] != "Ed25519":
        raise ValueError("another curve")
    return ed25519.Ed25519PublicKey.from_public_bytes(unbase64url(entry["x"]))


_PARSERS: Final = {"RSA": _rsa, "EC": _ec, "OKP": _okp}


def _number(text: str) -> int:
    return int.from_bytes(unbase64url(text), "big")


def _algorithms(public: PublicKey) -> tuple[str, ...]:
    """What a key may have signed with; nothing for one that is too weak or too costly to ask."""
    if isinstance(public, rsa.RSAPublicKey):
        is_usable = public.key_size in _RSA_BITS and public.public_numbers().e < _LARGEST_EXPONENT
        return _OF_RSA if is_usable else ()
    if isinstance(public, ed25519.Ed25519PublicKey):
        return ("EdDSA", "Ed25519")
    return tuple(name for curve, name in _ALGORITHM_OF_CURVE.items() if curve == public.curve.name)


def _signing_key(public: PublicKey, kid: str, algorithm: str) -> SigningKey | None:
    if algorithm not in _algorithms(public):
        return None
    return of_public_key(public, kid, "Ed25519" if algorithm == "EdDSA" else algorithm)
