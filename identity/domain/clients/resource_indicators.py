"""Resource indicators (RFC 8707): the resource servers that an access token is for, in addition to the client.

An application lists the URIs that it may request tokens for (`authorizedResourceUris`); without a list the parameter is
ignored. The values of the repeated parameter are joined by spaces, which no URI contains. URIs are compared octet by
octet.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from identity.domain.clients.oauth_settings import OAuthSettings
from identity.errors import InvalidTarget

_MAXIMUM: Final = 10_000
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^#\s\x00-\x20\x7f]+")


def is_absolute(uri: str) -> bool:
    """Whether this is an absolute URI without a fragment (RFC 8707 section 2, RFC 3986 section 4.3)."""
    return _ABSOLUTE.fullmatch(uri) is not None


def parse(text: str | None, oauth: OAuthSettings) -> tuple[str, ...]:
    """Parse the distinct resources of a request; none for an application without a list. Raises InvalidTarget."""
    allowed = frozenset(oauth.authorized_resource_uris)
    if not allowed or not text:
        return ()
    values = text.split(" ")
    if len(values) > _MAXIMUM:
        raise InvalidTarget(None, f"A request may name {_MAXIMUM:,} resources (the resource parameter).")
    for value in values:
        if not is_absolute(value):
            raise InvalidTarget(None, f"The resource must be an absolute URI without a fragment: {value[:200]}")
        if value not in allowed:
            raise InvalidTarget(None, f"The client may not request this resource: {value[:200]}")
    return tuple(dict.fromkeys(values))


def for_code(text: str | None, granted: Collection[str], oauth: OAuthSettings) -> tuple[str, ...]:
    """Return the resources of the first token of a code, a subset of those of its authorization request.

    Raises InvalidTarget, also if the token request names none although the authorization request did.
    """
    requested = parse(text, oauth)
    if granted and not requested and oauth.authorized_resource_uris:
        raise InvalidTarget(None, "The request must name one of the authorized resources (the resource parameter).")
    return _within(requested, granted)


def for_refresh(text: str | None, granted: Collection[str], oauth: OAuthSettings) -> tuple[str, ...]:
    """Return the requested subset of the granted resources; without a request all that are still allowed.

    Raises InvalidTarget.
    """
    requested = parse(text, oauth)
    if requested:
        return _within(requested, granted)
    allowed = frozenset(oauth.authorized_resource_uris)
    return tuple(resource for resource in granted if resource in allowed)


def _within(requested: tuple[str, ...], granted: Collection[str]) -> tuple[str, ...]:
    for resource in requested:
        if resource not in granted:
            raise InvalidTarget(None, f"The resource was not authorized: {resource[:200]}")
    return requested
