"""DPoP proofs: what one has to say of the request that it comes with (RFC 9449 section 4.3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from identity.ids import fingerprint, same_secret
from identity.instants import NumericDate

SCHEME: Final = "DPoP"
"""The authentication scheme, and the token_type, of access tokens that are bound to a key."""

LEEWAY_SECONDS: Final = 60
"""How far the clock of a client may be from ours, either way, with the way of the request."""

REMEMBERED_SECONDS: Final = 2 * LEEWAY_SECONDS + 2
"""How long a proof that was used has to be known: one from the future lives longest, and seconds are cut off."""

_USUAL_PORTS: Final = {"http": 80, "https": 443}
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9._~-]")
_THUMBPRINT: Final = re.compile(r"[A-Za-z0-9_-]{43}")


def problem(
    claims: Mapping[str, Any], *, method: str, url: str, now: NumericDate, access_token: str | None = None
) -> str | None:
    """Why the claims of a proof are not about this request, made now; None when they are.

    `access_token` is the token that a protected resource was shown with the proof.
    """
    if not _is_text(claims.get("jti")):
        return "it has no jti"
    if claims.get("htm") != method:
        return "its htm is not the method of the request"
    if not _is_text(claims.get("htu")) or not is_same_target(claims["htu"], url):
        return "its htu is not the address of the request"
    if "iat" not in claims or abs(now - claims["iat"]) > LEEWAY_SECONDS:
        return f"its iat is missing or more than {LEEWAY_SECONDS} seconds away"
    if access_token is not None and not _is_hash_of(claims.get("ath"), access_token):
        return "its ath is not the hash of the access token"
    return None


def is_same_target(htu: str, url: str) -> bool:
    """Whether two addresses are the same but for query and fragment, after normalisation (RFC 3986 section 6.2)."""
    target = _target(htu)
    return target is not None and target == _target(url)


def is_thumbprint(text: str) -> bool:
    """Whether a text can be the thumbprint of a key: the base64url of a SHA-256 (RFC 9449 section 10)."""
    return _THUMBPRINT.fullmatch(text) is not None


def _target(url: str) -> tuple[str, str, int | None, str] | None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if not parts.hostname or "@" in parts.netloc:
        return None
    return parts.scheme, parts.hostname, port or _USUAL_PORTS.get(parts.scheme), _path(parts.path)


def _path(path: str) -> str:
    return _ESCAPE.sub(_unescaped, path) or "/"


def _unescaped(found: re.Match[str]) -> str:
    character = chr(int(found[1], 16))
    return character if _UNRESERVED.fullmatch(character) else found[0].upper()


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_hash_of(value: object, access_token: str) -> bool:
    return isinstance(value, str) and value.isascii() and same_secret(value, fingerprint(access_token))
