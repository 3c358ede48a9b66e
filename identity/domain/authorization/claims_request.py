"""The claims parameter (OpenID Connect Core 5.5): claims that a request wants one by one, in ID token and userinfo.

Asking is no right to an answer. Which claims are told is decided in `claims.py`; of what is asked only the names of
standard claims are kept, so that nothing else of a stranger's JSON is stored or stands in a token.
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
    """How one claim is wanted; `values` are the values that will do, as JSON texts, or None for any."""

    is_essential: bool = False
    values: tuple[str, ...] | None = None

    def accepts(self, value: Any) -> bool:
        """Whether a value is one of those that will do."""
        return self.values is None or _json(value) in self.values


RequestedClaims = Mapping[str, RequestedClaim]


@dataclasses.dataclass(frozen=True, slots=True)
class ClaimsRequest:
    """What a request wants to be told by userinfo and in the ID token, by the names of claims."""

    userinfo: RequestedClaims = dataclasses.field(default_factory=dict)
    id_token: RequestedClaims = dataclasses.field(default_factory=dict)

    @property
    def acr(self) -> RequestedClaim | None:
        """How the authentication context class is wanted, if it is."""
        return self.id_token.get(ACR)

    def is_about(self, user_id: str) -> bool:
        """Whether the answer may be about this user; `sub` can be asked for with a value (Core 3.1.2.2)."""
        wish = self.id_token.get(SUB)
        return wish is None or wish.accepts(user_id)

    def document(self) -> Document | None:
        """What codes and refresh tokens keep of it; None for nothing."""
        kept = {"userinfo": to_document(self.userinfo), "id_token": to_document(self.id_token)}
        return kept if self.userinfo or self.id_token else None

    @classmethod
    def of(cls, document: Document | None) -> ClaimsRequest:
        """The request behind such a document."""
        if document is None:
            return NO_CLAIMS
        return cls(from_document(document["userinfo"]), from_document(document["id_token"]))


NO_CLAIMS: Final = ClaimsRequest()


def parse(claims: str | None, acr_values: str | None) -> ClaimsRequest:
    """What the parameters `claims` and `acr_values` ask for. Raises InvalidRequest.

    `acr_values` asks for the claim `acr` in the ID token, and not as an essential one (Core 3.1.2.1); what `claims`
    says of it comes first.
    """
    if claims is None and acr_values is None:
        return NO_CLAIMS
    members = {} if claims is None else _members(claims)
    id_token = _wishes(members.get("id_token"), _STANDARD | {ACR})
    if acr_values is not None and ACR not in id_token:
        id_token[ACR] = RequestedClaim(values=tuple(_json(value) for value in acr_values.split()[:_MAXIMUM_VALUES]))
    return ClaimsRequest(_wishes(members.get("userinfo"), _STANDARD), id_token)


def to_document(wishes: RequestedClaims) -> Document:
    """Wishes as JSON; whether a claim was essential is of no interest once the request was accepted."""
    return {name: None if wish.values is None else list(wish.values) for name, wish in wishes.items()}


def from_document(kept: Any) -> RequestedClaims:
    """The wishes behind that JSON; nothing, where it is not of that form."""
    if not isinstance(kept, dict):
        return {}
    return {
        name: RequestedClaim(values=tuple(values) if isinstance(values, list) else None)
        for name, values in kept.items()
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


def _wishes(asked: Any, names: frozenset[str]) -> dict[str, RequestedClaim]:
    """The wishes for the claims of these names; members that are not understood are ignored (Core 5.5)."""
    if asked is None:
        return {}
    if not isinstance(asked, dict):
        raise _malformed("names claims in something that is not an object")
    wishes = {name: _wish(name, how) for name, how in asked.items()}
    return {name: wish for name, wish in wishes.items() if name in names}


def _wish(name: str, how: Any) -> RequestedClaim:
    """One member: null for the default, or an object with `essential`, `value`, `values` (Core 5.5.1)."""
    if how is None:
        return RequestedClaim()
    if not isinstance(how, dict) or not isinstance(how.get("essential", False), bool):
        raise _malformed(f"wants the claim {name[:100]} in a way that is not understood")
    values = [how["value"]] if "value" in how else how.get("values")
    if values is not None and (not isinstance(values, list) or len(values) > _MAXIMUM_VALUES):
        raise _malformed(f"wants values of the claim {name[:100]} that are not a list")
    try:
        texts = None if values is None else tuple(map(_json, values))
    except orjson.JSONEncodeError as error:
        # Deeper than what is written, though not deeper than what is read.
        raise _malformed(f"wants values of the claim {name[:100]} that are nested too deep") from error
    return RequestedClaim(how.get("essential", False), texts)


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _malformed(what: str) -> InvalidRequest:
    return InvalidRequest("unknown", f"The parameter claims {what}.")
