"""TLS contexts of clients, and validation of X.509 certificates in PEM."""

from __future__ import annotations

import functools
import ssl
from pathlib import Path

from cryptography import x509


def is_certificate(pem: str) -> bool:
    """Whether the text holds valid X.509 certificates in PEM (RFC 7468).

    Text with a private key is rejected: certificates are public and therefore neither encrypted nor masked.
    """
    if "PRIVATE KEY-----" in pem:
        return False
    try:
        return bool(x509.load_pem_x509_certificates(pem.encode()))
    except ValueError:
        return False


@functools.lru_cache(maxsize=256)
def is_trust_anchor(pem: str) -> bool:
    """Whether the first certificate is self-signed or belongs to a CA (RFC 5280 section 4.2.1.9)."""
    try:
        certificate = x509.load_pem_x509_certificates(pem.encode())[0]
        if certificate.issuer == certificate.subject:
            return True
        return bool(certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca)
    except (ValueError, x509.ExtensionNotFound):
        return False


@functools.cache
def client_context(authorities_file: Path | None) -> ssl.SSLContext:
    """The context of connections whose certificates the system's CAs issued, or those of a file."""
    context = ssl.create_default_context()
    if authorities_file is not None:
        context.load_verify_locations(authorities_file)
    return context
