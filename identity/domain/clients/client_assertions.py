"""What a client's assertion has to say once its signature is known good (RFC 7523 section 3, OpenID Connect Core 9)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from identity.instants import NumericDate

JWT_BEARER: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

LEEWAY_SECONDS: Final = 60
"""How far the clock of a client may be from ours."""
LONGEST_SECONDS: Final = 300
"""How long an assertion counts at the most: its `jti` has to be remembered that long."""
_LONGEST_ID: Final = 255
_TYPES: Final = frozenset({"jwt", "client-authentication+jwt"})


def type_problem(header: Mapping[str, Any], types: Collection[str] = _TYPES) -> str | None:
    """Why a JWT of this `typ` is none of these, or None when it may be one, as any without (RFC 8725 section 3.11)."""
    named = header.get("typ", "jwt")
    is_wanted = isinstance(named, str) and named.lower().removeprefix("application/") in types
    return None if is_wanted else "is a JWT of another type"


def problem(
    claims: Mapping[str, Any], client_id: str, audiences: Collection[str], now: NumericDate, *, is_strict: bool = False
) -> str | None:
    """Why the claims do not authenticate this client now, or None when they do.

    Issuer and subject are the client (RFC 7523 section 3 points 1 and 2); the audience is one of `audiences`, and
    nobody else besides: an assertion that others take, too, could be carried here from them. `is_strict`: it has to be
    a text, and not an array of one (FAPI 2.0 section 5.3.2.1).
    """
    if claims.get("iss") != client_id or claims.get("sub") != client_id:
        return "must name the client as iss and as sub"
    if not is_for(claims, audiences) or (is_strict and isinstance(claims["aud"], list)):
        return "is not for this server: its aud must be the issuer, and nobody else"
    if not 0 < len(claims.get("jti", "")) <= _LONGEST_ID:
        return f"must have a jti of at most {_LONGEST_ID} characters"
    return time_problem(claims, now)


def is_for(claims: Mapping[str, Any], audiences: Collection[str]) -> bool:
    """Whether every audience is one of these, and there is one."""
    found = claims.get("aud")
    named = found if isinstance(found, list) else [found]
    return bool(named) and all(audience in audiences for audience in named)


def time_problem(claims: Mapping[str, Any], now: NumericDate) -> str | None:
    """Whether the assertion is of now: it counts until its `exp`, and no longer than five minutes.

    These are counted from `iat` where it is given, so that clients may set an `exp` that is further away; without an
    `iat` the `exp` itself has to be that near.
    """
    if "exp" not in claims:
        return "must have an exp"
    if effective_expiration(claims) + LEEWAY_SECONDS <= now:
        return "has expired"
    if max(claims.get("nbf", 0), claims.get("iat", 0)) > now + LEEWAY_SECONDS:
        return "is of the future"
    if effective_expiration(claims) > now + LONGEST_SECONDS + LEEWAY_SECONDS:
        return f"lives too long: its exp may be at most {LONGEST_SECONDS} seconds ahead"
    return None


def effective_expiration(claims: Mapping[str, Any]) -> int:
    """The second from which the assertion does not count any more, before any leeway."""
    ending: int = claims["exp"]
    return min(ending, claims["iat"] + LONGEST_SECONDS) if "iat" in claims else ending
