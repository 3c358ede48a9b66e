"""Identifiers and secrets: generation, constant-time comparison, fingerprints and masking."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import secrets
import string
from typing import Final, NewType

TenantId = NewType("TenantId", str)
ApplicationId = NewType("ApplicationId", str)
UserId = NewType("UserId", str)
WebhookId = NewType("WebhookId", str)
EventId = NewType("EventId", str)

_RANDOM_BYTES: Final = 4096
_random: list[bytes] = []
"""Random bytes for the next ids, because the system call costs more than the rest of a UUID.

For ids only: secrets are never generated in advance.
"""
os.register_at_fork(after_in_child=_random.clear)

_BASE64URL = re.compile(r"[A-Za-z0-9_-]*")
_CANONICAL_ENDS: Final = (("",), (), tuple("AQgw"), tuple("AEIMQUYcgkosw048"))
"""The ends of base64url whose unused bits are zero, by the length modulo 4."""
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Secret(str):
    """A string with a masked repr, so that it does not appear in logs."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Secret('***')"


def new_id() -> str:
    """A random UUID (version 4), lower case with hyphens."""
    try:
        raw = _random.pop()
    except IndexError:
        fresh = os.urandom(_RANDOM_BYTES)
        _random.extend(fresh[at : at + 16] for at in range(16, _RANDOM_BYTES, 16))
        raw = fresh[:16]
    text = raw.hex()
    # RFC 9562 section 5.4: the version is 4, and the two bits of the variant are 10.
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{'89ab'[raw[8] & 3]}{text[17:20]}-{text[20:]}"


def parse_id(text: object) -> str | None:
    """The canonical lower-case form of a UUID, or None when `text` is not one."""
    if isinstance(text, str) and _UUID.fullmatch(text):
        return text.lower()
    return None


def new_secret(size: int = 32) -> Secret:
    """A URL-safe secret of `size` random bytes (32 bytes: 256 bits, 43 characters)."""
    return Secret(secrets.token_urlsafe(size))


def new_text(length: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    """A random text of `length` characters of `alphabet`."""
    return "".join(secrets.choice(alphabet) for _ in range(length))


def fingerprint(secret: str) -> str:
    """What may be stored of a high-entropy secret: base64url of its SHA-256 (43 characters)."""
    return base64url(hashlib.sha256(secret.encode()).digest())


def keyed_fingerprint(key: bytes, secret: str) -> str:
    """As `fingerprint`, under a key: for secrets that a person may have chosen (HMAC-SHA-256)."""
    return base64url(hmac.digest(key, secret.encode(), "sha256"))


def same_secret(one: str, other: str) -> bool:
    """Compare in constant time; the only place where secrets are compared."""
    return hmac.compare_digest(one.encode(), other.encode())


def base64url(raw: bytes) -> str:
    """Base64url without padding (RFC 7515 appendix C)."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def unbase64url(text: str) -> bytes:
    """The bytes of canonical, unpadded base64url; ValueError for anything else (RFC 7515 section 2)."""
    if not _BASE64URL.fullmatch(text) or not text.endswith(_CANONICAL_ENDS[len(text) % 4]):
        raise ValueError("not canonical base64url")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
