"""The `cnf` claim of tokens that are bound to a key (DPoP, RFC 9449) or to a certificate (mutual TLS, RFC 8705)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from identity.call import Document

KEY: Final = "jkt"
CERTIFICATE: Final = "x5t#S256"


def confirmation_claim(key_thumbprint: str | None, certificate_thumbprint: str | None = None) -> Document | None:
    """Return the `cnf` claim (RFC 9449 section 6.1, RFC 8705 section 3.1); None for a bearer token."""
    members = {KEY: key_thumbprint, CERTIFICATE: certificate_thumbprint}
    return {name: value for name, value in members.items() if value is not None} or None


def key_thumbprint(claims: Mapping[str, Any]) -> str | None:
    """Return the thumbprint of the key that the token with these claims is bound to, if any."""
    return _thumbprint(claims, KEY)


def certificate_thumbprint(claims: Mapping[str, Any]) -> str | None:
    """Return the thumbprint of the certificate that the token with these claims is bound to, if any."""
    return _thumbprint(claims, CERTIFICATE)


def _thumbprint(claims: Mapping[str, Any], name: str) -> str | None:
    confirmation = claims.get("cnf")
    thumbprint = confirmation.get(name) if isinstance(confirmation, dict) else None
    return thumbprint if isinstance(thumbprint, str) else None
