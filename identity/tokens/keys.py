"""Key material: generating and importing RSA, EC, Ed25519 and HMAC keys in the shape of the API's `key`.

Both answer the members that depend on the material: type, algorithm, length, kid, issuer, publicKey, certificate,
certificateInformation, expirationInstant, hasPrivateKey, and `privateKey` or `secret`, which the store seals.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
from collections.abc import Callable
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from identity.call import Document
from identity.errors import FieldError, Invalid
from identity.ids import base64url
from identity.instants import Instant
from identity.tokens import certificates
from identity.tokens.signing_keys import TYPES, PrivateKey, PublicKey

RSA_LENGTHS = (2048, 3072, 4096)
_VERIFY_ONLY_LENGTH = 1024
_CURVES: dict[str, ec.EllipticCurve] = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
_HMAC_BYTES = {"HS256": 32, "HS384": 48, "HS512": 64}
_MATERIAL = ("certificate", "publicKey", "privateKey", "secret")

T = TypeVar("T")


async def generate(wanted: Document, issuer: str, now: Instant) -> Document:
    """A new key as `wanted` (algorithm; length for RSA; kid). Raises Invalid.

    RSA keys take up to seconds to find, so all are made in a thread.
    """
    require_generable(wanted)
    algorithm, length = wanted["algorithm"], wanted.get("length")
    return await asyncio.to_thread(_generate, algorithm, length, wanted.get("kid"), issuer, now)


def require_generable(wanted: Document) -> None:
    """Raise Invalid for a key that `generate` cannot make."""
    algorithm = wanted.get("algorithm")
    if algorithm is None:
        raise Invalid.field("missing", "key.algorithm", "You must specify the [key.algorithm] property.")
    if algorithm not in TYPES:
        raise Invalid.field("invalid", "key.algorithm", "The [key.algorithm] is not one that keys are generated for.")
    kind = TYPES[algorithm]
    if wanted.get("type", kind) != kind:
        raise Invalid.field("invalid", "key.type", f"The [key.type] of an {algorithm} key is {kind}.")
    if kind == "RSA":
        _require_length(wanted.get("length"))


async def import_material(wanted: Document) -> Document:
    """A key from what a caller brings: a secret, a private key, a public key or a certificate. Raises Invalid.

    Proving that an RSA private key is sound takes up to a fifth of a second, so all is read in a thread.
    """
    return await asyncio.to_thread(_import, wanted)


def _import(wanted: Document) -> Document:
    if wanted.get("type") == "Secret":
        return _imported_text(wanted)
    if wanted.get("type") == "HMAC" or wanted.get("secret"):
        return _imported_secret(wanted)
    if not any(wanted.get(name) for name in _MATERIAL):
        raise Invalid([_nothing_to_import(wanted)])
    if wanted.get("privateKey") and "type" not in wanted:
        raise Invalid.field("missing", "key.type", "You must specify the [key.type] property.")
    private, stated = _load(wanted, "privateKey", _private), _load(wanted, "publicKey", _public)
    certificate, certified = _load(wanted, "certificate", _certificate) or (None, None)
    derived = private.public_key() if private is not None else None
    halves = {"privateKey": derived, "publicKey": stated, "certificate": certified}
    public = _require_one([(name, half) for name, half in halves.items() if half is not None])
    algorithm = _algorithm_of(public, wanted)
    _require_strength(public, verify_only=private is None)
    key = {**_described(algorithm, public, private, certificate), "kid": wanted.get("kid") or _kid(public, certificate)}
    return {**key, "issuer": wanted["issuer"]} if wanted.get("issuer") else key


def _generate(algorithm: str, length: int | None, kid: str | None, issuer: str, now: Instant) -> Document:
    kind = TYPES[algorithm]
    if kind == "HMAC":
        secret = base64.b64encode(secrets.token_bytes(_HMAC_BYTES[algorithm])).decode()
        return _hmac(algorithm, secret, kid)
    if kind == "OKP":
        edwards = ed25519.Ed25519PrivateKey.generate()
        key = _described(algorithm, edwards.public_key(), edwards, None)
        return {**key, "kid": kid or _kid(edwards.public_key(), None), "issuer": issuer}
    private = (
        rsa.generate_private_key(65537, length or 0) if kind == "RSA" else ec.generate_private_key(_CURVES[algorithm])
    )
    certificate = certificates.self_signed(private, algorithm, issuer, now)
    key = _described(algorithm, private.public_key(), private, certificate)
    return {**key, "kid": kid or certificates.thumbprint(certificate), "issuer": issuer}


def _imported_secret(wanted: Document) -> Document:
    errors = []
    algorithm, secret = wanted.get("algorithm"), wanted.get("secret") or ""
    if "type" not in wanted:
        errors.append(FieldError.of("missing", "key.type", "You must specify the [key.type] property."))
    elif wanted["type"] != "HMAC":
        errors.append(FieldError.of("invalid", "key.type", "A [key.secret] belongs to keys of type HMAC."))
    if algorithm is None:
        errors.append(FieldError.of("missing", "key.algorithm", "You must specify the [key.algorithm] property."))
    elif algorithm not in _HMAC_BYTES:
        errors.append(
            FieldError.of("invalid", "key.algorithm", "The [key.algorithm] of an HMAC key is HS256, HS384 or HS512.")
        )
    if not secret.strip():
        errors.append(FieldError.of("blank", "key.secret", "You must specify the [key.secret] property."))
    elif (reason := _secret_problem(secret, _HMAC_BYTES.get(str(algorithm), 32))) is not None:
        errors.append(FieldError.of("invalid", "key.secret", f"The [key.secret] {reason}."))
    if errors:
        raise Invalid(errors)
    return _hmac(str(algorithm), secret, wanted.get("kid"))


def _imported_text(wanted: Document) -> Document:
    """A secret that neither signs nor verifies: only kept, for whoever needs one to show to others."""
    errors = []
    if wanted.get("algorithm", "None") != "None":
        errors.append(FieldError.of("invalid", "key.algorithm", "The [key.algorithm] of a Secret key is None."))
    if not (wanted.get("secret") or "").strip():
        errors.append(FieldError.of("blank", "key.secret", "You must specify the [key.secret] property."))
    if errors:
        raise Invalid(errors)
    kid = wanted.get("kid") or secrets.token_hex(5)
    return {"type": "Secret", "algorithm": "None", "kid": kid, "secret": wanted["secret"]}


def _secret_problem(secret: str, octets: int) -> str | None:
    """Why a text may not be an HMAC secret: too weak (RFC 7518 section 3.2), or public key material in disguise."""
    if secret.lstrip().startswith(("-----BEGIN", "ssh-", "ecdsa-sha2-", "{")):
        return "is key material of another type"
    if len(secret.encode()) < octets:
        return f"must have at least {octets} bytes for this algorithm"
    return None


def _hmac(algorithm: str, secret: str, kid: str | None) -> Document:
    return {"type": "HMAC", "algorithm": algorithm, "kid": kid or secrets.token_hex(5), "secret": secret}


def _nothing_to_import(wanted: Document) -> FieldError:
    if "type" not in wanted:
        return FieldError.of("missing", "key.type", "You must specify the [key.type] property.")
    return FieldError.of("blank", "key.publicKey", "You must specify the [key.publicKey] property.")


def _load(wanted: Document, name: str, parse: Callable[[bytes], T]) -> T | None:
    if not wanted.get(name):
        return None
    text = wanted[name].replace("\r\n", "\n").replace("\r", "\n").strip() + "\n"
    try:
        return parse(text.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        path = f"key.{name}"
        raise Invalid.field("invalid", path, f"The [{path}] is not a PEM of a key that can be used here.") from error


def _private(pem: bytes) -> PrivateKey:
    key = load_pem_private_key(pem, None)
    if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
        raise TypeError("neither RSA nor EC nor Ed25519")
    return key


def _public(pem: bytes) -> PublicKey:
    return _usable(load_pem_public_key(pem))


def _certificate(pem: bytes) -> tuple[x509.Certificate, PublicKey]:
    certificate = x509.load_pem_x509_certificate(pem)
    return certificate, _usable(certificate.public_key())


def _usable(key: object) -> PublicKey:
    if not isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey):
        raise TypeError("neither RSA nor EC nor Ed25519")
    return key


def _require_one(found: list[tuple[str, PublicKey]]) -> PublicKey:
    """The public key on which everything that was sent agrees. Raises Invalid."""
    for name, public in found[1:]:
        if public != found[0][1]:
            path = f"key.{name}"
            raise Invalid.field("invalid", path, f"The [{path}] does not belong to the [key.{found[0][0]}].")
    return found[0][1]


def _algorithm_of(public: PublicKey, wanted: Document) -> str:
    """The algorithm of a public key, as far as it leaves a choice the caller's. Raises Invalid."""
    fitting = _fitting(public)
    if not fitting:
        raise Invalid.field(
            "invalid", "key.publicKey", "The curve of the [key.publicKey] is none of P-256, P-384 and P-521."
        )
    if wanted.get("type", TYPES[fitting[0]]) != TYPES[fitting[0]]:
        raise Invalid.field("invalid", "key.type", f"The [key.type] of this material is {TYPES[fitting[0]]}.")
    algorithm = wanted.get("algorithm", fitting[0])
    if algorithm not in fitting:
        raise Invalid.field(
            "invalid", "key.algorithm", f"The [key.algorithm] of this material is {' or '.join(fitting)}."
        )
    return str(algorithm)


def _fitting(public: PublicKey) -> tuple[str, ...]:
    if isinstance(public, rsa.RSAPublicKey):
        return ("RS256", "RS384", "RS512")
    if isinstance(public, ed25519.Ed25519PublicKey):
        return ("Ed25519",)
    return tuple(name for name, curve in _CURVES.items() if curve.name == public.curve.name)


def _require_length(length: int | None) -> None:
    if length is None:
        raise Invalid.field("missing", "key.length", "You must specify the [key.length] property.")
    if length not in RSA_LENGTHS:
        raise Invalid.field("invalid", "key.length", "The [key.length] of an RSA key is 2048, 3072 or 4096.")


def _require_strength(public: PublicKey, *, verify_only: bool) -> None:
    if not isinstance(public, rsa.RSAPublicKey):
        return
    allowed = (*RSA_LENGTHS, _VERIFY_ONLY_LENGTH) if verify_only else RSA_LENGTHS
    if public.key_size not in allowed or public.public_numbers().e < 3:
        raise Invalid.field(
            "invalid", "key.length", f"The [key.length] of this RSA key is {public.key_size} and may not be used."
        )


def _described(
    algorithm: str, public: PublicKey, private: PrivateKey | None, certificate: x509.Certificate | None
) -> Document:
    key: Document = {
        "algorithm": algorithm,
        "hasPrivateKey": private is not None,
        "publicKey": public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode().strip(),
        "type": TYPES[algorithm],
    }
    if not isinstance(public, ed25519.Ed25519PublicKey):
        key["length"] = public.key_size
    if private is not None:
        pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        key["privateKey"] = pem.decode().strip()
    if certificate is not None:
        information = certificates.certificate_information(certificate)
        key |= {"certificate": certificates.pem(certificate), "certificateInformation": information}
        key["expirationInstant"] = information["validTo"]
    return key


def _kid(public: PublicKey, certificate: x509.Certificate | None) -> str:
    """The certificate's thumbprint; without a certificate the same of the SubjectPublicKeyInfo (27 characters too)."""
    if certificate is not None:
        return certificates.thumbprint(certificate)
    spki = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64url(hashlib.sha1(spki, usedforsecurity=False).digest())
