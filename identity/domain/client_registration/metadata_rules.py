"""What a client may register about itself (RFC 7591 sections 2 and 5). All of it is self-asserted.

Redirect URIs are those of the `application_type`: https for web clients; for native ones also loopback http, or a
private-use scheme (RFC 8252 section 7). URLs that users see have to be on the host of a redirect URI.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from typing import Final
from urllib.parse import urlsplit

from identity.call import Document
from identity.domain.clients import redirect_uris
from identity.errors import InvalidClientMetadata, InvalidRedirectUri

NATIVE: Final = "native"
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_PRIVATE_USE = re.compile(r"[a-z][a-z0-9+-]*(\.[a-z0-9+-]+)+", re.IGNORECASE)
_SHOWN_URLS: Final = ("client_uri", "logo_uri", "policy_uri", "tos_uri")
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_RESPONSE_TYPES: Final = {"code": "authorization_code", "id_token": "implicit", "token id_token": "implicit"}
"""The supported response types, with the grant that each needs (RFC 7591 section 2.1)."""


def require_valid(metadata: Document, grant_types: Collection[str], scopes: Collection[str]) -> None:
    """Validate metadata against the grants and scopes that the operator allows.

    Raises InvalidRedirectUri and InvalidClientMetadata.
    """
    for uri in [*metadata["redirect_uris"], *metadata["post_logout_redirect_uris"]]:
        if problem := redirect_uri_problem(uri, metadata["application_type"]):
            raise InvalidRedirectUri(None, f"The redirect URI {uri[:200]} cannot be registered: {problem}.")
    if "authorization_code" in metadata["grant_types"] and not metadata["redirect_uris"]:
        raise InvalidRedirectUri(None, "The grant authorization_code needs redirect_uris.")
    for problem in _problems(metadata, grant_types, scopes):
        raise InvalidClientMetadata(None, problem)


def redirect_uri_problem(uri: str, application_type: str) -> str | None:
    """Return why a client of this type cannot register a redirect URI, or None."""
    problem = redirect_uris.registration_problem(uri, redirect_uris.EXACT)
    if problem is not None:
        return problem
    parts = urlsplit(uri)
    is_loopback = (parts.hostname or "") in _LOOPBACK
    if "*" in uri or parts.username is not None:
        return "it contains a wildcard or user information"
    if parts.scheme == "https":
        return "it is on this machine" if is_loopback else None
    if application_type != NATIVE:
        return "a web client needs https"
    if parts.scheme == "http":
        return None if is_loopback else "http is for loopback addresses only"
    return None if _PRIVATE_USE.fullmatch(parts.scheme) else "its scheme needs the dots of a domain name"


def comparable_name(name: str) -> str:
    """Return a name without differences that users do not see: case, width, and spaces."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _problems(metadata: Document, grant_types: Collection[str], scopes: Collection[str]) -> Iterator[str]:
    refused = [grant for grant in metadata["grant_types"] if grant not in grant_types]
    if refused:
        yield f"The grant_types are not allowed: {' '.join(refused)[:200]}"
    for response_type in metadata["response_types"]:
        if _RESPONSE_TYPES.get(response_type) not in metadata["grant_types"]:
            yield f"The response_type {response_type[:100]} does not fit the grant_types."
    unknown = [scope for scope in metadata["scope"].split() if scope not in scopes]
    if unknown:
        yield f"The scope is not allowed: {' '.join(unknown)[:200]}"
    if metadata.get("subject_type", "public") != "public":
        yield "The subject_type is not supported."
    if "jwks" in metadata and "jwks_uri" in metadata:
        yield "A client has either jwks or jwks_uri."
    name = metadata.get("client_name", "")
    if any(unicodedata.category(character) in _INVISIBLE for character in name):
        yield "The client_name contains invisible characters."
    yield from _url_problems(metadata)


def _url_problems(metadata: Document) -> Iterator[str]:
    hosts = set(_hosts(metadata["redirect_uris"])) or set(_hosts([metadata.get("client_uri", "")]))
    for name in _SHOWN_URLS:
        url = metadata.get(name)
        if url is None:
            continue
        if redirect_uris.registration_problem(url, redirect_uris.EXACT) or not url.startswith("https://"):
            yield f"The {name} must be an https URL."
        elif not hosts.issuperset(_hosts([url])):
            yield f"The {name} must be on the host of a redirect URI."


def _hosts(urls: Iterable[str]) -> Iterator[str]:
    """Yield the hosts of https URLs."""
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme == "https" and parts.hostname:
            yield parts.hostname
