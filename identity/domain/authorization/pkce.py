"""Proof Key for Code Exchange (RFC 7636), S256 only."""

from __future__ import annotations

import hashlib
import re

from identity.ids import base64url, same_secret

METHOD = "S256"

_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")


def is_challenge(text: str) -> bool:
    """Whether a text has the form of an S256 code_challenge (section 4.2)."""
    return _CHALLENGE.fullmatch(text) is not None


def challenge(verifier: str) -> str:
    """Return the code_challenge of a code_verifier (section 4.2)."""
    return base64url(hashlib.sha256(verifier.encode("ascii")).digest())


def verify(verifier: str, bound_challenge: str) -> bool:
    """Whether the code_verifier is well-formed (section 4.1) and matches the code_challenge (section 4.6)."""
    return _VERIFIER.fullmatch(verifier) is not None and same_secret(challenge(verifier), bound_challenge)
