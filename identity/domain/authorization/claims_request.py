"""The claims parameter (OpenID Connect Core 5.5): claims requested individually, for the ID token and userinfo.

A request does not entitle to a claim; `jwt_claims.py` decides which are returned. Only the names of standard claims are
stored, so that no other part of the untrusted JSON ends up in storage or tokens.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

import orjson

from identity.call import Document
from identity.errors import InvalidRequest

ACR: Final = "acr"
SUB: Final = "sub"

_STANDARD: Final = frozenset(
    {"address", "birthdate", "email", "email_verified", "family_name", "gender", "given_name", "locale"}
    | {"middle_name", "name", "nickname", "phone_number", "phone_number_verified", "picture", "preferred_username"}
    | {"profile", "sub", "updated_at", "website", "zoneinfo"}
)
_MAXIMUM_CHARACTERS = 8192
_MAXIMUM_VALUES = 100


@dataclasses.dataclass(frozen=True, slots=True)
class RequestedClaim:
    """How one claim is requested; `values` are the acceptable values as JSON texts, or None for any."""

    is_essential: bool = False
    values: tuple[str, ...] | None = None

    def accepts(self, value: Any) -> bool:
        """Whether a value is acceptable."""
        return self.values is None or _json(value) in self.values


RequestedClaims = Mapping[str, RequestedClaim]


@dataclasses.dataclass(frozen=True, slots=True)
class ClaimsRequest:
    """The claims requested from userinfo and in the ID token, by name."""

    userinfo: RequestedClaims = dataclasses.field(default_factory=dict)
    id_token: RequestedClaims = dataclasses.field(default_factory=dict)

    @property
    def acr(self) -> RequestedClaim | None:
        """The requested authentication context class, if any."""
        return self.id_token.get(ACR)

    def is_about(self, user_id: str) -> bool:
        """Whether the response may be about this user: `sub` can be requested with a value (Core 3.1.2.2)."""
        subject = self.id_token.get(SUB)
        return subject is None or subject.accepts(user_id)

    def to_document(self) -> Document | None:
        """Return the form stored with codes and refresh tokens; None for no claims."""
        if not (self.userinfo or self.id_token):
            return None
        return {"userinfo": claims_to_document(self.userinfo), "id_token": claims_to_document(self.id_token)}

    @classmethod
    def from_document(cls, document: Document | None) -> ClaimsRequest:
        """Return the request that `to_document` stored."""
        if document is None:
            return NO_CLAIMS
        return cls(claims_from_document(document["userinfo"]), claims_from_document(document["id_token"]))


NO_CLAIMS: Final = ClaimsRequest()


def parse(claims: str | None, acr_values: str | None) -> ClaimsRequest:
    """Parse the parameters `claims` and `acr_values`. Raises InvalidRequest.

    `acr_values` requests the claim `acr` in the ID token as voluntary (Core 3.1.2.1), unless `claims` requests it.
    """
    if claims is None and acr_values is None:
        return NO_CLAIMS
    members = {} if claims is None else _members(claims)
    id_token = _requested_claims(members.get("id_token"), _STANDARD | {ACR})
    if acr_values is not None and ACR not in id_token:
        values = tuple(_json(value) for value in acr_values.split()[:_MAXIMUM_VALUES])
        id_token[ACR] = RequestedClaim(values=values)
    return ClaimsRequest(_requested_claims(members.get("userinfo"), _STANDARD), id_token)


def claims_to_document(claims: RequestedClaims) -> Document:
    """Return requested claims as JSON, without `essential`, which has no effect after the request was accepted."""
    return {name: None if claim.values is None else list(claim.values) for name, claim in claims.items()}


def claims_from_document(document: Any) -> RequestedClaims:
    """Return the claims that `claims_to_document` stored; none for any other JSON."""
    if not isinstance(document, dict):
        return {}
    return {
        name: RequestedClaim(values=tuple(values) if isinstance(values, list) else None)
        for name, values in document.items()
    }


def _members(text: str) -> Document:
    if len(text) > _MAXIMUM_CHARACTERS:
        raise _malformed(f"is longer than {_MAXIMUM_CHARACTERS} characters")
    try:
        members = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _malformed("is not JSON") from error
    if not isinstance(members, dict):
        raise _malformed("is not a JSON object")
    return members


def _requested_claims(members: Any, names: frozenset[str]) -> dict[str, RequestedClaim]:
    """Parse the claims with these names; unknown ones are validated, then ignored (Core 5.5)."""
    if members is None:
        return {}
    if not isinstance(members, dict):
        raise _malformed("names claims in something that is not an object")
    claims = {name: _requested_claim(name, member) for name, member in members.items()}
    return {name: claim for name, claim in claims.items() if name in names}


def _requested_claim(name: str, member: Any) -> RequestedClaim:
    """Parse one member: null, or an object with `essential`, `value`, `values` (Core 5.5.1)."""
    if member is None:
        return RequestedClaim()
    if not isinstance(member, dict) or not isinstance(member.get("essential", False), bool):
        raise _malformed(f"has an invalid member for the claim {name[:100]}")
    values = [member["value"]] if "value" in member else member.get("values")
    if values is not None and (not isinstance(values, list) or len(values) > _MAXIMUM_VALUES):
        raise _malformed(f"has values of the claim {name[:100]} that are not a list of at most {_MAXIMUM_VALUES}")
    try:
        texts = None if values is None else tuple(map(_json, values))
    except orjson.JSONEncodeError as error:
        # orjson reads deeper nesting than it writes.
        raise _malformed(f"has values of the claim {name[:100]} that are nested too deeply") from error
    return RequestedClaim(member.get("essential", False), texts)


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _malformed(problem: str) -> InvalidRequest:
    return InvalidRequest("unknown", f"The parameter claims {problem}.")
