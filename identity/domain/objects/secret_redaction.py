"""Echoes: receivers that answer with what they were sent, credentials included, and a log that must not keep those."""

from __future__ import annotations

import base64
import html
import json
import urllib.parse
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
    """The text without the secrets, also where it writes them as JSON, HTML or a form does.

    The longest first: a secret that begins with another would leave its end.
    """
    found = [secret for secret in secrets if len(secret) >= _SHORTEST]
    forms = {form for secret in found for form in _forms(secret, text)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, _HIDDEN)
    return text


def _forms(secret: str, text: str) -> list[str]:
    """How the text may write a secret: as it is or, where there are signs of that, escaped.

    Asked of every answer, and nearly none has them.
    """
    forms = [secret]
    if "\\" in text:
        quoted = [json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]]
        forms += [*quoted, *(one.replace("/", "\\/") for one in quoted)]
    if "&" in text:
        forms += [html.escape(secret), html.escape(secret, quote=False)]
    if "%" in text or "+" in text:
        quote = urllib.parse.quote
        forms += [quote(secret), quote(secret, safe=""), urllib.parse.quote_plus(secret)]
    return forms
