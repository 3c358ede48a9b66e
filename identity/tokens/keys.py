"""Key material: generate and import RSA, EC, Ed25519 and HMAC keys in the form of the API's `key`.

Both return the members that depend on the material: type, algorithm, length, kid, issuer, publicKey, certificate,
certificateInformation, expirationInstant, hasPrivateKey, and `privateKey` or `secret`, which the store encrypts.
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
from identity.tokens.signing_keys import SECRET_BYTES, TYPES, PrivateKey, PublicKey

RSA_LENGTHS = (2048, 3072, 4096)
_VERIFY_ONLY_LENGTH = 1024
_CURVES: dict[str, ec.EllipticCurve] = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
_MATERIAL = ("certificate", "publicKey", "privateKey", "secret")

T = TypeVar("T")


async def generate(request: Document, issuer: str, now: Instant) -> Document:
    """Generate a key with the requested algorithm, kid, and length (RSA). Raises Invalid.

    Keys are generated in a thread, because RSA takes up to seconds.
    """
    require_generable(request)
    algorithm, length = request["algorithm"], request.get("length")
    return await asyncio.to_thread(_generate, algorithm, length, request.get("kid"), issuer, now)


def require_generable(request: Document) -> None:
    """Raise Invalid for a key that `generate` does not support."""
    algorithm, length = request.get("algorithm"), request.get("length")
    if algorithm is None:
        raise Invalid([FieldError.missing("key.algorithm")])
    if algorithm not in TYPES:
        raise Invalid([FieldError.invalid("key.algorithm", "is not one that keys are generated for")])
    kind = TYPES[algorithm]
    if request.get("type", kind) != kind:
        raise Invalid([FieldError.invalid("key.type", f"of an {algorithm} key is {kind}")])
    if kind == "RSA" and length is None:
        raise Invalid([FieldError.missing("key.length")])
    if kind == "RSA" and length not in RSA_LENGTHS:
        raise Invalid([FieldError.invalid("key.length", "of an RSA key is 2048, 3072 or 4096")])


async def import_material(request: Document) -> Document:
    """Import a secret, a private key, a public key or a certificate. Raises Invalid.

    Keys are imported in a thread, because validating an RSA private key takes up to 0.2 seconds.
    """
    return await asyncio.to_thread(_import, request)


def _import(request: Document) -> Document:
    if request.get("type") == "Secret":
        return _imported_text(request)
    if request.get("type") == "HMAC" or request.get("secret"):
        return _imported_secret(request)
    if not any(request.get(name) for name in _MATERIAL):
        raise Invalid(
            [FieldError.missing("key.type") if "type" not in request else FieldError.missing("key.publicKey", "blank")]
        )
    if request.get("privateKey") and "type" not in request:
        raise Invalid([FieldError.missing("key.type")])
    private, stated = _load(request, "privateKey", _private), _load(request, "publicKey", _public)
    certificate, certified = _load(request, "certificate", _certificate) or (None, None)
    derived = private.public_key() if private is not None else None
    halves = {"privateKey": derived, "publicKey": stated, "certificate": certified}
    public = _require_one([(name, half) for name, half in halves.items() if half is not None])
    algorithm = _algorithm_of(public, request)
    _require_strength(public, verify_only=private is None)
    kid = request.get("kid") or _kid(public, certificate)
    key = {**_described(algorithm, public, private, certificate), "kid": kid}
    return {**key, "issuer": request["issuer"]} if request.get("issuer") else key


def _generate(algorithm: str, length: int | None, kid: str | None, issuer: str, now: Instant) -> Document:
    kind = TYPES[algorithm]
    if kind == "HMAC":
        secret = base64.b64encode(secrets.token_bytes(SECRET_BYTES[algorithm])).decode()
        return _hmac(algorithm, secret, kid)
    if kind == "OKP":
        edwards = ed25519.Ed25519PrivateKey.generate()
        key = _described(algorithm, edwards.public_key(), edwards, None)
        return {**key, "kid": kid or _kid(edwards.public_key(), None), "issuer": issuer}
    is_rsa = kind == "RSA"
    private = rsa.generate_private_key(65537, length or 0) if is_rsa else ec.generate_private_key(_CURVES[algorithm])
    certificate = certificates.self_signed(private, algorithm, issuer, now)
    key = _described(algorithm, private.public_key(), private, certificate)
    return {**key, "kid": kid or certificates.thumbprint(certificate), "issuer": issuer}


def _imported_secret(request: Document) -> Document:
    errors = []
    algorithm, secret = request.get("algorithm"), request.get("secret") or ""
    if "type" not in request:
        errors.append(FieldError.missing("key.type"))
    elif request["type"] != "HMAC":
        errors.append(FieldError.of("invalid", "key.type", "A [key.secret] belongs to keys of type HMAC."))
    if algorithm is None:
        errors.append(FieldError.missing("key.algorithm"))
    elif algorithm not in SECRET_BYTES:
        errors.append(FieldError.invalid("key.algorithm", "of an HMAC key is HS256, HS384 or HS512"))
    if not secret.strip():
        errors.append(FieldError.missing("key.secret", "blank"))
    elif (problem := _secret_problem(secret, SECRET_BYTES.get(str(algorithm), 32))) is not None:
        errors.append(FieldError.invalid("key.secret", problem))
    if errors:
        raise Invalid(errors)
    return _hmac(str(algorithm), secret, request.get("kid"))


def _imported_text(request: Document) -> Document:
    """A secret that neither signs nor verifies: only stored, to be presented to other services."""
    errors = []
    if request.get("algorithm", "None") != "None":
        errors.append(FieldError.invalid("key.algorithm", "of a Secret key is None"))
    if not (request.get("secret") or "").strip():
        errors.append(FieldError.missing("key.secret", "blank"))
    if errors:
        raise Invalid(errors)
    kid = request.get("kid") or secrets.token_hex(5)
    return {"type": "Secret", "algorithm": "None", "kid": kid, "secret": request["secret"]}


def _secret_problem(secret: str, octets: int) -> str | None:
    """Why a text may not be an HMAC secret: too weak (RFC 7518 section 3.2), or public key material in disguise."""
    if secret.lstrip().startswith(("-----BEGIN", "ssh-", "ecdsa-sha2-", "{")):
        return "is key material of another type"
    if len(secret.encode()) < octets:
        return f"must have at least {octets} bytes for this algorithm"
    return None


def _hmac(algorithm: str, secret: str, kid: str | None) -> Document:
    return {"type": "HMAC", "algorithm": algorithm, "kid": kid or secrets.token_hex(5), "secret": secret}


def _load(request: Document, name: str, parse: Callable[[bytes], T]) -> T | None:
    if not request.get(name):
        return None
    text = request[name].replace("\r\n", "\n").replace("\r", "\n").strip() + "\n"
    try:
        return parse(text.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise Invalid([FieldError.invalid(f"key.{name}", "is not a PEM of a key that can be used here")]) from error


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
    """Return the public key that all given parts share. Raises Invalid."""
    for name, public in found[1:]:
        if public != found[0][1]:
            raise Invalid([FieldError.invalid(f"key.{name}", f"does not belong to the [key.{found[0][0]}]")])
    return found[0][1]


def _algorithm_of(public: PublicKey, request: Document) -> str:
    """Return the algorithm of a public key: the requested one, if the key allows it. Raises Invalid."""
    fitting = _fitting(public)
    if not fitting:
        problem = "The curve of the [key.publicKey] is none of P-256, P-384 and P-521."
        raise Invalid.field("invalid", "key.publicKey", problem)
    if request.get("type", TYPES[fitting[0]]) != TYPES[fitting[0]]:
        raise Invalid([FieldError.invalid("key.type", f"of this material is {TYPES[fitting[0]]}")])
    algorithm = request.get("algorithm", fitting[0])
    if algorithm not in fitting:
        raise Invalid([FieldError.invalid("key.algorithm", f"of this material is {' or '.join(fitting)}")])
    return str(algorithm)


def _fitting(public: PublicKey) -> tuple[str, ...]:
    if isinstance(public, rsa.RSAPublicKey):
        return ("RS256", "RS384", "RS512")
    if isinstance(public, ed25519.Ed25519PublicKey):
        return ("Ed25519",)
    return tuple(name for name, curve in _CURVES.items() if curve.name == public.curve.name)


def _require_strength(public: PublicKey, *, verify_only: bool) -> None:
    if not isinstance(public, rsa.RSAPublicKey):
        return
    allowed = (*RSA_LENGTHS, _VERIFY_ONLY_LENGTH) if verify_only else RSA_LENGTHS
    if public.key_size not in allowed or public.public_numbers().e < 3:
        raise Invalid([FieldError.invalid("key.length", f"of this RSA key is {public.key_size} and may not be used")])


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
    """Return the certificate's thumbprint; without one, that of the SubjectPublicKeyInfo (also 27 characters)."""
    if certificate is not None:
        return certificates.thumbprint(certificate)
    spki = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64url(hashlib.sha1(spki, usedforsecurity=False).digest())
