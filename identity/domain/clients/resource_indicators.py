"""Resource indicators (RFC 8707): for which resource servers, beside the client itself, an access token is meant.

An application lists the URIs that it may ask tokens for (`authorizedResourceUris`); one without a list does not use
resource indicators, and the parameter is ignored. Values of the repeated parameter arrive joined by blanks, which no
URI holds. URIs are compared as they are, octet by octet.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from identity.call import Document
from identity.errors import InvalidTarget

_MAXIMUM: Final = 10_000
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^#\s\x00-\x20\x7f]+")


def is_absolute(uri: str) -> bool:
    """Whether this is an absolute URI without a fragment (RFC 8707 section 2, RFC 3986 section 4.3)."""
    return _ABSOLUTE.fullmatch(uri) is not None


def parse(text: str | None, oauth: Document) -> tuple[str, ...]:
    """The resources of a request, each once; none for an application without a list. Raises InvalidTarget."""
    allowed = frozenset(oauth.get("authorizedResourceUris", ()))
    if not allowed or not text:
        return ()
    values = text.split(" ")
    if len(values) > _MAXIMUM:
        raise InvalidTarget(None, f"A request may name {_MAXIMUM:,} resources (the resource parameter).")
    for value in values:
        if not is_absolute(value):
            raise InvalidTarget(None, f"The resource must be an absolute URI without a fragment: {value[:200]}")
        if value not in allowed:
            raise InvalidTarget(None, f"The client may not ask for this resource: {value[:200]}")
    return tuple(dict.fromkeys(values))


def for_code(text: str | None, granted: Collection[str], oauth: Document) -> tuple[str, ...]:
    """The resources of the first token for a code: at least one, and none that its authorization request did not name.

    Raises InvalidTarget.
    """
    wanted = parse(text, oauth)
    if granted and not wanted and oauth.get("authorizedResourceUris"):
        raise InvalidTarget(None, "The request must name one of the authorized resources (the resource parameter).")
    return _within(wanted, granted)


def for_refresh(text: str | None, granted: Collection[str], oauth: Document) -> tuple[str, ...]:
    """The resources of a refreshed token: those asked for of those that were granted, or all that still are allowed.

    Raises InvalidTarget.
    """
    wanted = parse(text, oauth)
    if wanted:
        return _within(wanted, granted)
    allowed = frozenset(oauth.get("authorizedResourceUris", ()))
    return tuple(resource for resource in granted if resource in allowed)


def _within(wanted: tuple[str, ...], granted: Collection[str]) -> tuple[str, ...]:
    for resource in wanted:
        if resource not in granted:
            raise InvalidTarget(None, f"The resource was not authorized: {resource[:200]}")
    return wanted
