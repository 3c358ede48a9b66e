"""Redaction of credentials in logged responses: some receivers echo what they were sent."""

from __future__ import annotations

import base64
import html
import json
import urllib.parse
from collections.abc import Iterable, Mapping

_SHORTEST = 8
"""The minimum length of a secret; shorter words occur in responses for other reasons."""
_HIDDEN = "***"
_PUBLIC = frozenset({"accept", "accept-encoding", "accept-language", "cache-control", "content-type", "user-agent"})
"""Headers without secrets."""


def credentials(headers: Mapping[str, str], username: str | None, password: str | None) -> list[str]:
    """Return the credentials that a request sends: values of its headers, and of basic authentication."""
    own = [value.strip() for name, value in headers.items() if name.strip().lower() not in _PUBLIC]
    found = [*own, *(value.partition(" ")[2] for value in own)]
    if username and password:
        found += [base64.b64encode(f"{username}:{password}".encode()).decode(), password]
    return found


def redact(text: str, secrets: Iterable[str]) -> str:
    """Return the text without the secrets, including their JSON, HTML and form encodings.

    The longest is replaced first, because a secret may be the prefix of another.
    """
    found = [secret for secret in secrets if len(secret) >= _SHORTEST]
    forms = {form for secret in found for form in _forms(secret, text)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, _HIDDEN)
    return text


def _forms(secret: str, text: str) -> list[str]:
    """Return the forms of a secret that the text may have: escaped ones only if the text has signs of escaping.

    This runs for every response, and nearly none has any.
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
