"""Request objects: validation of the claims, and their parameters (RFC 9101 section 4, OpenID Connect Core 6)."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from identity.domain.clients.client_assertions import LEEWAY_SECONDS, type_problem
from identity.instants import NumericDate

MAXIMUM_SECONDS: Final = 3600
"""The maximum distance of `exp` in the future, and under strict of `nbf` in the past."""
_TYPES: Final = frozenset({"jwt", "oauth-authz-req+jwt"})
_NESTED: Final = ("request", "request_uri")
_AS_JSON: Final = frozenset({"claims"})
"""Parameters that are JSON text outside a request object, and JSON objects inside."""
_AS_LIST: Final = frozenset({"resource"})
"""Parameters that may be repeated outside a request object, and hence lists inside."""


def problem(
    header: Mapping[str, Any],
    claims: Mapping[str, Any],
    outside: Mapping[str, Any],
    client_id: str,
    issuer: str,
    now: NumericDate,
    *,
    is_strict: bool = False,
) -> str | None:
    """Return why a verified JWT is not a valid request of this client, or None.

    `outside` are the parameters next to it. `is_strict` requires a recent `nbf` (FAPI 2.0 Message Signing section
    5.3.1). The issuer may be one of several audiences (RFC 7519 section 4.1.3). The client must not be the subject,
    because such a JWT could be used as a client assertion (RFC 9101 section 10.8).
    """
    if claims.get("iss") != client_id or claims.get("client_id", client_id) != client_id:
        return "must name the client as iss, and as client_id if it has one"
    if not _is_for(claims, issuer):
        return "is not for this server: its aud must be or include the issuer"
    if claims.get("sub") == client_id:
        return "must not have the client as sub"
    if any(name in claims for name in _NESTED) or "request_uri" in outside:
        return "must be the only one of request and request_uri"
    if "response_type" in outside and not _is_same(outside["response_type"], claims.get("response_type")):
        return "has another response_type than the request"
    return type_problem(header, _TYPES) or _time_problem(claims, now, is_strict=is_strict)


def parameters(claims: Mapping[str, Any], declared: Collection[str]) -> dict[str, str]:
    """Return the parameters in the form they have outside a request object. Raises ValueError."""
    found = {name: _text(name, claims[name]) for name in declared if name in claims}
    return {name: value for name, value in found.items() if value}


def _is_for(claims: Mapping[str, Any], issuer: str) -> bool:
    audience = claims.get("aud")
    return issuer in audience if isinstance(audience, list) else audience == issuer


def _time_problem(claims: Mapping[str, Any], now: NumericDate, *, is_strict: bool) -> str | None:
    if "exp" not in claims:
        return "must have an exp"
    if claims["exp"] + LEEWAY_SECONDS <= now:
        return "has expired"
    if max(claims.get("nbf", 0), claims.get("iat", 0)) > now + LEEWAY_SECONDS:
        return "is not valid yet"
    if is_strict and claims.get("nbf", 0) < now - MAXIMUM_SECONDS - LEEWAY_SECONDS:
        return f"must have an nbf that is at most {MAXIMUM_SECONDS} seconds old"
    if claims["exp"] > now + MAXIMUM_SECONDS + LEEWAY_SECONDS:
        return f"has a lifetime that is too long: its exp may be at most {MAXIMUM_SECONDS} seconds ahead"
    return None


def _is_same(one: str, other: object) -> bool:
    """Whether two response types are the same; the order of the words does not matter."""
    return isinstance(other, str) and sorted(one.split()) == sorted(other.split())


def _text(name: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, dict) and name in _AS_JSON:
        return json.dumps(value)
    if isinstance(value, list) and name in _AS_LIST:
        return " ".join(_text(f"{name} in its list", entry) for entry in value)
    if not isinstance(value, str) or "\x00" in value:
        raise ValueError(f"has an invalid {name}")
    return value
