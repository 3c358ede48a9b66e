"""Masking of secrets in logged values, by the names of their members."""

from __future__ import annotations

import re
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
