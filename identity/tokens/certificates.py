"""X.509 certificates of keys: self-signed certificates for new keys, and the API's certificateInformation."""

from __future__ import annotations

import datetime
import hashlib

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from identity.call import Document
from identity.ids import base64url
from identity.instants import Instant, as_datetime

VALID_DAYS = 3652
"""Ten years: a verifier that checks the certificate must not fail before the key is rotated."""

_COMMON_NAME_LENGTH = 64
_HASHES: dict[str, hashes.SHA256 | hashes.SHA384 | hashes.SHA512] = {
    "256": hashes.SHA256(),
    "384": hashes.SHA384(),
    "512": hashes.SHA512(),
}


def self_signed(
    private: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, algorithm: str, issuer: str, now: Instant
) -> x509.Certificate:
    """Return a certificate with the subject and issuer CN=issuer, valid for ten years from `now`."""
    # A common name has at most 64 characters (RFC 5280 appendix A.1).
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer[:_COMMON_NAME_LENGTH])])
    start = as_datetime(now)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=VALID_DAYS))
        .sign(private, _HASHES[algorithm[2:]])
    )


def thumbprint(certificate: x509.Certificate) -> str:
    """Return the `x5t` of a certificate: base64url of the SHA-1 of its DER form (RFC 7515 section 4.1.7)."""
    return base64url(_sha1(certificate.public_bytes(Encoding.DER)))


def thumbprint_sha256(certificate: x509.Certificate) -> str:
    """Return the `x5t#S256` of a certificate (RFC 7515 section 4.1.8)."""
    return base64url(hashlib.sha256(certificate.public_bytes(Encoding.DER)).digest())


def certificate_information(certificate: x509.Certificate) -> Document:
    """Return the API's certificateInformation; instants are milliseconds."""
    der = certificate.public_bytes(Encoding.DER)
    return {
        "issuer": certificate.issuer.rfc4514_string(),
        "md5Fingerprint": _colons(hashlib.md5(der, usedforsecurity=False).digest()),
        "serialNumber": str(certificate.serial_number),
        "sha1Fingerprint": _colons(_sha1(der)),
        "sha1Thumbprint": thumbprint(certificate),
        "sha256Fingerprint": _colons(hashlib.sha256(der).digest()),
        "sha256Thumbprint": thumbprint_sha256(certificate),
        "subject": certificate.subject.rfc4514_string(),
        "validFrom": _instant(certificate.not_valid_before_utc),
        "validTo": _instant(certificate.not_valid_after_utc),
    }


def first_expiry(text: str) -> Instant | None:
    """Return when the first of some certificates in PEM expires; None without a readable one."""
    try:
        found = x509.load_pem_x509_certificates(text.encode())
    except ValueError:
        return None
    return Instant(_instant(min(certificate.not_valid_after_utc for certificate in found)))


def pem(certificate: x509.Certificate) -> str:
    """Return the PEM form, with line feeds."""
    return certificate.public_bytes(Encoding.PEM).decode().strip()


def _instant(moment: datetime.datetime) -> int:
    return int(moment.timestamp() * 1000)


def _sha1(raw: bytes) -> bytes:
    # An identifier required by RFC 7515; security does not depend on it.
    return hashlib.sha1(raw, usedforsecurity=False).digest()


def _colons(digest: bytes) -> str:
    return digest.hex(":").upper()
