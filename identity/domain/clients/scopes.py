"""Scopes: their classes, and what the application's policies make of a requested list (spec: scopes and consent)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from identity.call import Document
from identity.errors import InvalidScope

OPENID: Final = "openid"
OFFLINE_ACCESS: Final = "offline_access"
RESERVED: Final = frozenset({OPENID, OFFLINE_ACCESS})
PROVIDED: Final = ("address", "email", "phone", "profile")

_TOKEN = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_MAXIMUM = 100


def parse(text: str | None) -> tuple[str, ...]:
    """The scopes of a parameter in request order, each once (RFC 6749 section 3.3). Raises InvalidScope."""
    scopes = tuple(dict.fromkeys((text or "").split(" ")))
    scopes = tuple(scope for scope in scopes if scope)
    if len(scopes) > _MAXIMUM or not all(map(is_token, scopes)):
        raise InvalidScope("unknown_scope", "The scope is malformed.")
    return scopes


def is_token(text: str) -> bool:
    """Whether a text has the form of a scope (RFC 6749 section 3.3)."""
    return _TOKEN.fullmatch(text) is not None


def apply_policy(requested: Iterable[str], oauth: Document, custom: Iterable[Document]) -> tuple[str, ...]:
    """What the application's unknownScopePolicy leaves of the requested scopes.

    Allow keeps unknown ones, Remove drops them, Reject raises InvalidScope that names the first.
    """
    known = known_scopes(oauth, custom)
    policy = oauth["unknownScopePolicy"]
    kept = []
    for scope in requested:
        if scope not in known and policy == "Reject":
            raise InvalidScope("unknown_scope", f"The scope is unknown: {scope}")
        if scope in known or policy == "Allow":
            kept.append(scope)
    return tuple(kept)


def known_scopes(oauth: Document, custom: Iterable[Document]) -> frozenset[str]:
    """Every scope that the application knows: reserved, provided and enabled, custom."""
    policies = oauth["providedScopePolicy"]
    provided = {name for name in PROVIDED if policies[name]["enabled"]}
    return frozenset(RESERVED | provided | {scope["name"] for scope in custom})


def narrow(requested: Iterable[str], granted: Iterable[str]) -> tuple[str, ...]:
    """The requested part of what was granted (RFC 6749 section 6). Raises InvalidScope for anything beyond it."""
    before = frozenset(granted)
    wanted = tuple(requested)
    for scope in wanted:
        if scope not in before:
            raise InvalidScope("unknown_scope", f"The scope was not granted originally: {scope}")
    return wanted


def join(scopes: Iterable[str]) -> str:
    """The wire form."""
    return " ".join(scopes)
