"""Scopes: their categories, and the application's policies for requested ones (spec: scopes and consent)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from identity.call import Document
from identity.domain.clients.oauth_settings import OAuthSettings
from identity.errors import InvalidScope

OPENID: Final = "openid"
OFFLINE_ACCESS: Final = "offline_access"
RESERVED: Final = frozenset({OPENID, OFFLINE_ACCESS})
PROVIDED: Final = ("address", "email", "phone", "profile")

_TOKEN = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_MAXIMUM = 100


def parse(text: str | None) -> tuple[str, ...]:
    """Parse the distinct scopes of a parameter in request order (RFC 6749 section 3.3). Raises InvalidScope."""
    scopes = tuple(dict.fromkeys((text or "").split(" ")))
    scopes = tuple(scope for scope in scopes if scope)
    if len(scopes) > _MAXIMUM or not all(map(is_token, scopes)):
        raise InvalidScope("unknown_scope", "The scope is malformed.")
    return scopes


def is_token(text: str) -> bool:
    """Whether a text has the form of a scope (RFC 6749 section 3.3)."""
    return _TOKEN.fullmatch(text) is not None


def apply_policy(requested: Iterable[str], oauth: OAuthSettings, custom: Iterable[Document]) -> tuple[str, ...]:
    """Return the requested scopes that the application's unknownScopePolicy allows.

    Allow keeps unknown scopes, Remove drops them, Reject raises InvalidScope for the first.
    """
    known = known_scopes(oauth, custom)
    policy = oauth.unknown_scope_policy
    allowed = []
    for scope in requested:
        if scope not in known and policy == "Reject":
            raise InvalidScope("unknown_scope", f"The scope is unknown: {scope}")
        if scope in known or policy == "Allow":
            allowed.append(scope)
    return tuple(allowed)


def known_scopes(oauth: OAuthSettings, custom: Iterable[Document]) -> frozenset[str]:
    """Return all scopes of the application: reserved, enabled provided, and custom ones."""
    provided = {name for name in PROVIDED if oauth.provided_scope_policy[name]["enabled"]}
    return frozenset(RESERVED | provided | {scope["name"] for scope in custom})


def narrow(requested: Iterable[str], granted: Iterable[str]) -> tuple[str, ...]:
    """Return the requested subset of the granted scopes (RFC 6749 section 6). Raises InvalidScope for any other."""
    granted, requested = frozenset(granted), tuple(requested)
    for scope in requested:
        if scope not in granted:
            raise InvalidScope("unknown_scope", f"The scope was not granted originally: {scope}")
    return requested


def join(scopes: Iterable[str]) -> str:
    """Return the wire form of scopes."""
    return " ".join(scopes)
