"""Proof Key for Code Exchange (RFC 7636), S256 only."""

from __future__ import annotations

import hashlib
import re

from identity.ids import base64url, same_secret

METHOD = "S256"

_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")


def is_challenge(text: str) -> bool:
    """Whether the text can be an S256 challenge (section 4.2)."""
    return _CHALLENGE.fullmatch(text) is not None


def challenge(verifier: str) -> str:
    """The challenge of a verifier (section 4.2)."""
    return base64url(hashlib.sha256(verifier.encode("ascii")).digest())


def verify(verifier: str, bound_challenge: str) -> bool:
    """Whether the verifier is well-formed (section 4.1) and belongs to the challenge (section 4.6)."""
    return _VERIFIER.fullmatch(verifier) is not None and same_secret(challenge(verifier), bound_challenge)
