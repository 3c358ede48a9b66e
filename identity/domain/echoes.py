"""Echoes: receivers that answer with what they were sent, credentials included, and a log that must not keep those."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping

_SHORTEST = 8
"""What is shorter is no secret, but a word that answers may well have for another reason."""
_HIDDEN = "***"
_PUBLIC = frozenset({"accept", "accept-encoding", "accept-language", "cache-control", "content-type", "user-agent"})
"""Headers that are nobody's secret."""


def credentials(headers: Mapping[str, str], username: str | None, password: str | None) -> list[str]:
    """The values by which a service shows a receiver who it is: of its headers, and of basic authentication."""
    own = [value.strip() for name, value in headers.items() if name.strip().lower() not in _PUBLIC]
    found = [*own, *(value.partition(" ")[2] for value in own)]
    if username and password:
        found += [base64.b64encode(f"{username}:{password}".encode()).decode(), password]
    return found


def masked(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets."""
    for secret in secrets:
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, _HIDDEN)
    return text
