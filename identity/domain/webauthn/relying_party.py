"""The relying party of a tenant, and the origins that may use its passkeys (WebAuthn section 5.1.2)."""

from __future__ import annotations

import re
import urllib.parse
from typing import Final

from identity.call import Document

_DOMAIN: Final = re.compile(r"(?=.{1,253}\Z)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_LOCALHOST: Final = "localhost"
"""Browsers treat http://localhost as a secure context."""


def is_domain(text: str) -> bool:
    """Whether a text can be a relying party id: a domain name in lower case, without scheme and port."""
    return _DOMAIN.fullmatch(text) is not None


def configured_id(tenant: Document) -> str | None:
    """Return the relying party id that the tenant configures, or None for the domain of the browser's origin."""
    return tenant["webAuthnConfiguration"].get("relyingPartyId") or None


def name_of(tenant: Document) -> str:
    """Return the name that browsers show: by default the issuer."""
    return str(tenant["webAuthnConfiguration"].get("relyingPartyName") or tenant.get("issuer") or tenant["name"])


def origin_of(url: str) -> str:
    """Return the origin of a URL, as browsers serialize it (RFC 6454 section 6.2)."""
    parts = urllib.parse.urlsplit(url.lower())
    default = {"http": 80, "https": 443}.get(parts.scheme)
    port = "" if parts.port in {None, default} else f":{parts.port}"
    return f"{parts.scheme}://{parts.hostname}{port}"


def host_of(origin: str) -> str | None:
    """Return the host of an origin that may use passkeys, or None for any other text.

    Only secure contexts may: https, or http on localhost.
    """
    try:
        parts = urllib.parse.urlsplit(origin)
        host = parts.hostname or ""
        is_origin = origin == origin_of(origin)
    except ValueError:
        return None
    is_local = parts.scheme == "http" and (host == _LOCALHOST or host.endswith(f".{_LOCALHOST}"))
    return host if is_origin and is_domain(host) and (parts.scheme == "https" or is_local) else None


def of_page(tenant: Document, base_url: str) -> tuple[str, str] | None:
    """Return the origin of our own pages and their relying party id; None if they cannot use passkeys."""
    try:
        origin = origin_of(base_url)
    except ValueError:
        # The host is that of the request, which may be malformed.
        return None
    found = configured_id(tenant) or host_of(origin)
    return (origin, found) if found is not None and includes(found, origin) else None


def includes(relying_party_id: str, origin: str) -> bool:
    """Whether the origin is on the domain of the relying party, or on a subdomain."""
    host = host_of(origin)
    return host is not None and (host == relying_party_id or host.endswith(f".{relying_party_id}"))
