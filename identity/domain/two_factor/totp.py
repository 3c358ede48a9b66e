"""Codes of authenticator apps: time-based one-time passwords (RFC 6238), based on HOTP (RFC 4226)."""

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
"""The length of generated secrets, as RFC 4226 section 4 recommends."""

_HASHES: Final = {"HmacSHA1": hashlib.sha1, "HmacSHA256": hashlib.sha256, "HmacSHA512": hashlib.sha512}
DEFAULTS: Final[Document] = {"algorithm": "HmacSHA1", "codeLength": 6, "timeStep": 30}
"""The default settings of an authenticator app."""
ALLOWED_DRIFT_STEPS: Final = 1
"""The allowed clock drift in time steps, in both directions (RFC 6238 section 5.2)."""


def code(secret: bytes, step: int, algorithm: str, code_length: int) -> str:
    """Return the code of a time step (RFC 4226 section 5.3)."""
    digest = hmac.new(secret, step.to_bytes(8, "big"), _HASHES[algorithm]).digest()
    offset = digest[-1] & 15
    number = int.from_bytes(digest[offset : offset + 4], "big") & 0x7FFFFFFF
    return str(number % 10**code_length).zfill(code_length)


def matching_step(secret: str, settings: Document, entered: str, now: Instant) -> int | None:
    """Return the valid time step whose code was entered, or None.

    `secret` is Base64; `settings` have `algorithm`, `codeLength` (digits) and `timeStep` (seconds).
    """
    merged = DEFAULTS | settings
    present = now // 1000 // merged["timeStep"]
    key, found = base64.b64decode(secret), None
    for step in range(max(0, present - ALLOWED_DRIFT_STEPS), present + ALLOWED_DRIFT_STEPS + 1):
        if same_secret(code(key, step, merged["algorithm"], merged["codeLength"]), entered):
            found = step
    return found


def lifetime_seconds(settings: Document) -> int:
    """Return the maximum time between the first and the last moment at which a code is valid."""
    time_step: int = (DEFAULTS | settings)["timeStep"]
    return (2 * ALLOWED_DRIFT_STEPS + 1) * time_step


def to_base32(secret: bytes) -> str:
    """Return a secret in Base32 without padding (RFC 4648 section 6), as authenticator apps expect it."""
    return base64.b32encode(secret).decode().rstrip("=")


def from_base32(text: str) -> str | None:
    """Return the Base64 form of a Base32 secret, which may be grouped and in either case; None if it is malformed."""
    plain = text.replace(" ", "").replace("-", "").rstrip("=").upper()
    try:
        raw = base64.b32decode(plain + "=" * (-len(plain) % 8))
    except (binascii.Error, ValueError):
        return None
    return base64.b64encode(raw).decode()
