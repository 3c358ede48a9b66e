"""Client assertions: validation of the claims after the signature (RFC 7523 section 3, OpenID Connect Core 9)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from identity.instants import NumericDate

JWT_BEARER: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

LEEWAY_SECONDS: Final = 60
"""The tolerated difference between the clocks of client and server."""
MAXIMUM_SECONDS: Final = 300
"""The maximum lifetime of an assertion, for which its `jti` has to be stored."""
_MAXIMUM_ID_CHARACTERS: Final = 255
_TYPES: Final = frozenset({"jwt", "client-authentication+jwt"})


def type_problem(header: Mapping[str, Any], types: Collection[str] = _TYPES) -> str | None:
    """Return why a JWT has none of these `typ` values, or None; it may have no `typ` (RFC 8725 section 3.11)."""
    named = header.get("typ", "jwt")
    is_allowed = isinstance(named, str) and named.lower().removeprefix("application/") in types
    return None if is_allowed else "is a JWT of another type"


def problem(
    claims: Mapping[str, Any], client_id: str, audiences: Collection[str], now: NumericDate, *, is_strict: bool = False
) -> str | None:
    """Return why the claims do not authenticate this client now, or None.

    Issuer and subject are the client (RFC 7523 section 3 points 1 and 2). Every audience is one of `audiences`: another
    server that accepts the assertion could replay it here. `is_strict`: the audience is a string, not an array (FAPI
    2.0 section 5.3.2.1).
    """
    if claims.get("iss") != client_id or claims.get("sub") != client_id:
        return "must name the client as iss and as sub"
    if not is_for(claims, audiences) or (is_strict and isinstance(claims["aud"], list)):
        return "is not for this server: its aud must be the issuer alone"
    if not 0 < len(claims.get("jti", "")) <= _MAXIMUM_ID_CHARACTERS:
        return f"must have a jti of at most {_MAXIMUM_ID_CHARACTERS} characters"
    return time_problem(claims, now)


def is_for(claims: Mapping[str, Any], audiences: Collection[str]) -> bool:
    """Whether there is an audience, and every one is one of these."""
    audience = claims.get("aud")
    entries = audience if isinstance(audience, list) else [audience]
    return bool(entries) and all(entry in audiences for entry in entries)


def time_problem(claims: Mapping[str, Any], now: NumericDate) -> str | None:
    """Return why the assertion is not valid now, or None: it is valid until `exp`, for at most five minutes.

    The five minutes start at `iat`, if given, so that clients may set a later `exp`; without `iat` the `exp` must be at
    most five minutes ahead.
    """
    if "exp" not in claims:
        return "must have an exp"
    if effective_expiration(claims) + LEEWAY_SECONDS <= now:
        return "has expired"
    if max(claims.get("nbf", 0), claims.get("iat", 0)) > now + LEEWAY_SECONDS:
        return "is not valid yet"
    if effective_expiration(claims) > now + MAXIMUM_SECONDS + LEEWAY_SECONDS:
        return f"has a lifetime that is too long: its exp may be at most {MAXIMUM_SECONDS} seconds ahead"
    return None


def effective_expiration(claims: Mapping[str, Any]) -> int:
    """Return the second from which the assertion is expired, without leeway."""
    ending: int = claims["exp"]
    return min(ending, claims["iat"] + MAXIMUM_SECONDS) if "iat" in claims else ending
