"""Codes of authenticator apps: the time-based one-time password of RFC 6238 over the HMAC of RFC 4226."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

from identity.call import Document
from identity.ids import same_secret
from identity.instants import Instant

SECRET_BYTES: Final = 20
"""How long a secret of ours is, as RFC 4226 section 4 recommends for SHA-1."""

_HASHES: Final = {"HmacSHA1": hashlib.sha1, "HmacSHA256": hashlib.sha256, "HmacSHA512": hashlib.sha512}
DEFAULTS: Final[Document] = {"algorithm": "HmacSHA1", "codeLength": 6, "timeStep": 30}
"""The settings of an authenticator app where nobody names others."""
ALLOWED_DRIFT_STEPS: Final = 1
"""How many steps a clock may be early or late (RFC 6238 section 5.2)."""


def code(secret: bytes, step: int, algorithm: str, code_length: int) -> str:
    """The code of a time step (RFC 4226 section 5.3)."""
    digest = hmac.new(secret, step.to_bytes(8, "big"), _HASHES[algorithm]).digest()
    offset = digest[-1] & 15
    number = int.from_bytes(digest[offset : offset + 4], "big") & 0x7FFFFFFF
    return str(number % 10**code_length).zfill(code_length)


def matching_step(secret: str, settings: Document, shown: str, now: Instant) -> int | None:
    """The time step whose code was shown, of those that count now, or None.

    `secret` is Base64; `settings` have `algorithm`, `codeLength` (digits) and `timeStep` (seconds).
    """
    chosen = DEFAULTS | settings
    present = now // 1000 // chosen["timeStep"]
    key, found = base64.b64decode(secret), None
    for step in range(max(0, present - ALLOWED_DRIFT_STEPS), present + ALLOWED_DRIFT_STEPS + 1):
        if same_secret(code(key, step, chosen["algorithm"], chosen["codeLength"]), shown):
            found = step
    return found


def lifetime_seconds(settings: Document) -> int:
    """For how long a code can count, from its first moment to its last."""
    time_step: int = (DEFAULTS | settings)["timeStep"]
    return (2 * ALLOWED_DRIFT_STEPS + 1) * time_step


def to_base32(secret: bytes) -> str:
    """A secret as authenticator apps take it: RFC 4648 section 6, without padding."""
    return base64.b32encode(secret).decode().rstrip("=")


def from_base32(text: str) -> str | None:
    """The Base64 of a secret that is written in Base32, in groups and in either case; None for anything else."""
    plain = text.replace(" ", "").replace("-", "").rstrip("=").upper()
    try:
        raw = base64.b32decode(plain + "=" * (-len(plain) % 8))
    except (binascii.Error, ValueError):
        return None
    return base64.b64encode(raw).decode()
