"""DPoP proofs: validation of the claims against the request (RFC 9449 section 4.3)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from identity.ids import fingerprint, same_secret
from identity.instants import NumericDate

SCHEME: Final = "DPoP"
"""The authorization scheme and token_type of access tokens that are bound to a key."""

LEEWAY_SECONDS: Final = 60
"""The tolerated difference between the clocks of client and server, in either direction, including latency."""

REMEMBERED_SECONDS: Final = 2 * LEEWAY_SECONDS + 2
"""The storage time of a used proof: one from the future is valid longest, and seconds are truncated."""

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9._~-]")
_THUMBPRINT: Final = re.compile(r"[A-Za-z0-9_-]{43}")


def problem(
    claims: Mapping[str, Any], *, method: str, urls: Collection[str], now: NumericDate, access_token: str | None = None
) -> str | None:
    """Return why the claims of a proof do not match this request, or None.

    `urls` are the URLs that the request may have been sent to, `access_token` is the token that a protected resource
    received with the proof.
    """
    if not _is_text(claims.get("jti")):
        return "it has no jti"
    if claims.get("htm") != method:
        return "its htm is not the method of the request"
    if not _is_text(claims.get("htu")) or not any(is_same_target(claims["htu"], url) for url in urls):
        return "its htu is not the URL of the request"
    if "iat" not in claims or abs(now - claims["iat"]) > LEEWAY_SECONDS:
        return f"its iat is missing or more than {LEEWAY_SECONDS} seconds away"
    if access_token is not None and not _is_hash_of(claims.get("ath"), access_token):
        return "its ath is not the hash of the access token"
    return None


def is_same_target(htu: str, url: str) -> bool:
    """Whether two URLs are equal except for query and fragment, after normalization (RFC 3986 section 6.2)."""
    target = _target(htu)
    return target is not None and target == _target(url)


def is_thumbprint(text: str) -> bool:
    """Whether a text has the form of a SHA-256 thumbprint (RFC 9449 section 10)."""
    return _THUMBPRINT.fullmatch(text) is not None


def _target(url: str) -> tuple[str, str, int | None, str] | None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if not parts.hostname or "@" in parts.netloc:
        return None
    return parts.scheme, parts.hostname, port or _DEFAULT_PORTS.get(parts.scheme), _path(parts.path)


def _path(path: str) -> str:
    return _ESCAPE.sub(_unescaped, path) or "/"


def _unescaped(found: re.Match[str]) -> str:
    character = chr(int(found[1], 16))
    return character if _UNRESERVED.fullmatch(character) else found[0].upper()


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_hash_of(value: object, access_token: str) -> bool:
    return isinstance(value, str) and value.isascii() and same_secret(value, fingerprint(access_token))
