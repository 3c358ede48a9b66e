"""Masking of secrets in logs: by the names of members, and credentials that a receiver repeats in its response."""

from __future__ import annotations

import base64
import html
import json
import re
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any

MASK = "*****"

# Names of secret members in the API, in any case.
_SECRET = re.compile(
    r"(?i)(password|secret|secretkey|privatekey|apikey|accesskey|sharedkey|encryptionkey|token|credentials?|salt"
    r"|verificationid|changepasswordid|recoverycodes?|code_?verifier)$|^(key|authorization|(set-)?cookie)$"
)
_SECRET_MAP = re.compile(r"(?i)^tokens$")
# Complete runs, and possessive: matching tokens directly would rescan the rest of a run at each `eyJ`.
_RUN = re.compile(r"[A-Za-z0-9_.-]++")
_START_OF_JWT = re.compile(r"\beyJ[A-Za-z0-9_-]{4}")


def masked(value: Any) -> Any:
    """Return the value with the texts of secret members, and tokens in any text, masked; numbers and booleans stay.

    `passwordLastUpdateInstant` and `passwordValidationRules` are not secret and have no texts of their own.
    """
    if isinstance(value, dict):
        return {name: _member(name, member) for name, member in value.items()}
    if isinstance(value, list):
        return [masked(item) for item in value]
    return _RUN.sub(_without_tokens, value) if isinstance(value, str) and "eyJ" in value else value


def _without_tokens(run: re.Match[str]) -> str:
    """Return a run of token characters without the signed tokens in it."""
    parts = run[0].split(".")
    kept: list[str] = []
    at = 0
    while at < len(parts):
        found = _START_OF_JWT.search(parts[at]) if at + 2 < len(parts) and parts[at + 1] else None
        kept.append(parts[at] if found is None else f"{parts[at][: found.start()]}{MASK}")
        at += 1 if found is None else 3
    return ".".join(kept)


def _member(name: str, value: Any) -> Any:
    if _SECRET_MAP.search(name):
        return _hidden(value)
    if _SECRET.search(name) and (isinstance(value, str) or _is_texts(value)):
        return _hidden(value)
    return masked(value)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _hidden(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _hidden(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_hidden(item) for item in value]
    return MASK if isinstance(value, str) else value


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
