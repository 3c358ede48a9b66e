"""Certificates that clients present in mutual TLS (RFC 8705): thumbprint, issuer, subject and public key.

Revocation is checked where the TLS connection ends.
"""

from __future__ import annotations

import functools
import hashlib
import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from identity.domain.clients import oauth_settings
from identity.errors import StartupError
from identity.ids import base64url
from identity.instants import Instant, as_datetime
from identity.tokens import jwks

Authorities = tuple[x509.Certificate, ...]

_CACHE_SIZE: Final = 1000


def thumbprint(der: bytes) -> str:
    """Return the `x5t#S256` of a certificate in DER form (RFC 8705 section 3.1)."""
    return base64url(hashlib.sha256(der).digest())


def load_authorities(file: Path | None) -> Authorities:
    """Return the certificates of a PEM file. Raises StartupError."""
    if file is None:
        return ()
    try:
        return tuple(x509.load_pem_x509_certificates(file.read_bytes()))
    except ValueError as error:
        raise StartupError(f"mutual_tls.authorities_file: {file} contains no certificates in PEM form") from error


@functools.lru_cache(_CACHE_SIZE)
def parse(der: bytes) -> x509.Certificate | None:
    """Return the certificate, or None if it cannot be read."""
    try:
        certificate = x509.load_der_x509_certificate(der)
        certificate.public_key()
        certificate.extensions  # noqa: B018 (parsed on access)
    except (ValueError, TypeError):
        return None
    return certificate


def is_issued_by(certificate: x509.Certificate, authorities: Authorities, now: Instant) -> bool:
    """Whether one of the authorities issued the certificate for a client, and both are valid now."""
    if not (_is_current(certificate, now) and _is_for_clients(certificate)):
        return False
    return any(_is_current(authority, now) and _has_signed(authority, certificate) for authority in authorities)


def is_name(kind: str, value: str) -> bool:
    """Whether a name of this kind can be in a certificate."""
    try:
        if kind == oauth_settings.SUBJECT_DN:
            return bool(x509.Name.from_rfc4514_string(value).rdns)
        _NAME_TYPES[kind](ipaddress.ip_address(value) if kind == oauth_settings.SAN_IP else value)
    except ValueError:
        return False
    return True


def has_name(certificate: x509.Certificate, kind: str, value: str) -> bool:
    """Whether the certificate has the registered name (RFC 8705 section 2.1.2)."""
    if kind == oauth_settings.SUBJECT_DN:
        return certificate.subject == x509.Name.from_rfc4514_string(value)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return value in map(str, names.get_values_for_type(_NAME_TYPES[kind]))


def has_key_of(certificate: x509.Certificate, jwk_set: Mapping[str, Any]) -> bool:
    """Whether the public key of the certificate is one of a JWK Set (RFC 8705 section 2.2)."""
    public = certificate.public_key()
    try:
        members = jwks.public_members(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode())
    except (AssertionError, KeyError):
        return False
    return any(members.items() <= jwk.items() for jwk in jwk_set["keys"])


_NAME_TYPES: Final[Mapping[str, type[Any]]] = {
    oauth_settings.SAN_DNS: x509.DNSName,
    oauth_settings.SAN_EMAIL: x509.RFC822Name,
    oauth_settings.SAN_IP: x509.IPAddress,
    oauth_settings.SAN_URI: x509.UniformResourceIdentifier,
}


def _is_current(certificate: x509.Certificate, now: Instant) -> bool:
    return certificate.not_valid_before_utc <= as_datetime(now) <= certificate.not_valid_after_utc


def _is_for_clients(certificate: x509.Certificate) -> bool:
    extensions = certificate.extensions
    try:
        usages = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return ExtendedKeyUsageOID.CLIENT_AUTH in usages


def _has_signed(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        is_authority = authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        certificate.verify_directly_issued_by(authority)
    except (x509.ExtensionNotFound, InvalidSignature, ValueError, TypeError):
        return False
    return is_authority
