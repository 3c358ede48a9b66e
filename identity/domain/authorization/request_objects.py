"""What a signed request object has to say, and the parameters in it (RFC 9101 section 4, OpenID Connect Core 6)."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from identity.domain.clients.client_assertions import LEEWAY_SECONDS, type_problem
from identity.instants import NumericDate

LONGEST_SECONDS: Final = 3600
"""How far the `exp` of a request object may be ahead, and how old the `nbf` of a strict client may be."""
_TYPES: Final = frozenset({"jwt", "oauth-authz-req+jwt"})
_NESTED: Final = ("request", "request_uri")
_AS_JSON: Final = frozenset({"claims"})
"""Parameters that are JSON objects, as a text outside of a request object and as they are inside."""
_AS_LIST: Final = frozenset({"resource"})
"""Parameters that may be repeated outside, and so a list inside."""


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
    """Why a well signed JWT is not a request of this client to this issuer now, or None when it is one.

    `outside` are the parameters that it came with. `is_strict` requires a recent `nbf` (FAPI 2.0 Message Signing
    section 5.3.1). The issuer may be one of several audiences (RFC 7519 section 4.1.3). A subject that is the client
    would make it an assertion by which the client authenticates (RFC 9101 section 10.8).
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
    """The parameters in the object, as they would be outside of it. Raises ValueError for one that cannot be."""
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
        return "is of the future"
    if is_strict and claims.get("nbf", 0) < now - LONGEST_SECONDS - LEEWAY_SECONDS:
        return f"must have an nbf that is at most {LONGEST_SECONDS} seconds old"
    if claims["exp"] > now + LONGEST_SECONDS + LEEWAY_SECONDS:
        return f"lives too long: its exp may be at most {LONGEST_SECONDS} seconds ahead"
    return None


def _is_same(one: str, other: object) -> bool:
    """Whether two response types are; the order of the words does not matter."""
    return isinstance(other, str) and sorted(one.split()) == sorted(other.split())


def _text(name: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, dict) and name in _AS_JSON:
        return json.dumps(value)
    if isinstance(value, list) and name in _AS_LIST:
        return " ".join(_text(f"{name} in its list", entry) for entry in value)
    if not isinstance(value, str) or "\x00" in value:
        raise ValueError(f"has a {name} that is none")
    return value
