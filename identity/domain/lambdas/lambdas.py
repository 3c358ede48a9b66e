"""Lambdas: which types there are, what each defines, and what a lambda may hand back.

populate    adds to the claims of a token, or to the userinfo response; its first argument counts
reconcile   takes over what an identity provider says; changes the user and the registration
validate    says no to a login or a registration, by the errors of its first argument
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

import orjson

from identity.call import Document
from identity.errors import FieldError, GeneralError

T = TypeVar("T")

ENGINE: Final = "GraalJS"
"""The published name of the engine: modern JavaScript, of which ours is another."""

_RECONCILED: Final = (
    "Apple",
    "EpicGames",
    "ExternalJWT",
    "Facebook",
    "Google",
    "HYPR",
    "LDAPConnector",
    "LinkedIn",
    "Nintendo",
    "OpenID",
    "SAMLv2",
    "SonyPSN",
    "Steam",
    "Twitch",
    "Twitter",
    "Xbox",
)
FUNCTIONS: Final[Mapping[str, str]] = {
    "ClientCredentialsJWTPopulate": "populate",
    "JWTPopulate": "populate",
    "LoginValidation": "validate",
    "MFARequirement": "checkRequired",
    "SAMLv2Populate": "populate",
    "SCIMServerGroupRequestConverter": "convert",
    "SCIMServerGroupResponseConverter": "convert",
    "SCIMServerUserRequestConverter": "convert",
    "SCIMServerUserResponseConverter": "convert",
    "SelfServiceRegistrationValidation": "validate",
    "UserInfoPopulate": "populate",
    **{f"{name}Reconcile": "reconcile" for name in _RECONCILED},
}
"""Type -> the function that the body has to define."""

REFERENCES: Final[Mapping[str, Mapping[str, str]]] = {
    "application": {
        "lambdaConfiguration.accessTokenPopulateId": "JWTPopulate",
        "lambdaConfiguration.idTokenPopulateId": "JWTPopulate",
        "lambdaConfiguration.multiFactorRequirementId": "MFARequirement",
        "lambdaConfiguration.samlv2PopulateId": "SAMLv2Populate",
        "lambdaConfiguration.selfServiceRegistrationValidationId": "SelfServiceRegistrationValidation",
        "lambdaConfiguration.userinfoPopulateId": "UserInfoPopulate",
    },
    "tenant": {
        "lambdaConfiguration.loginValidationId": "LoginValidation",
        "lambdaConfiguration.multiFactorRequirementId": "MFARequirement",
        "lambdaConfiguration.scimEnterpriseUserRequestConverterId": "SCIMServerUserRequestConverter",
        "lambdaConfiguration.scimEnterpriseUserResponseConverterId": "SCIMServerUserResponseConverter",
        "lambdaConfiguration.scimGroupRequestConverterId": "SCIMServerGroupRequestConverter",
        "lambdaConfiguration.scimGroupResponseConverterId": "SCIMServerGroupResponseConverter",
        "lambdaConfiguration.scimUserRequestConverterId": "SCIMServerUserRequestConverter",
        "lambdaConfiguration.scimUserResponseConverterId": "SCIMServerUserResponseConverter",
        "oauthConfiguration.clientCredentialsAccessTokenPopulateLambdaId": "ClientCredentialsJWTPopulate",
    },
}
"""Resource -> member -> the type of lambda that the member names."""

# The kind of a token is not a lambda's to say: an ID token that called itself an access token would be taken for one,
# and so would the token of an entity that called itself a user's.
USER_TOKEN_CLAIMS: Final = frozenset({"amr", "cnf", "exp", "iat", "sub", "tid", "tty", "userinfo_claims"})
CLIENT_TOKEN_CLAIMS: Final = frozenset({"amr", "aud", "cnf", "exp", "gty", "iat", "permissions", "sub", "tid", "tty"})
USERINFO_CLAIMS: Final = frozenset({"email", "email_verified", "sub", "tid"})
"""Reserved claims: a lambda can neither add nor change nor remove them."""

_MAXIMUM_DEPTH: Final = 40
_MAXIMUM_ERRORS: Final = 100


class ReturnedError(ValueError):
    """What a lambda left behind cannot be used; the message says why."""


def returned(text: str, given: Sequence[Any]) -> list[Any]:
    """The arguments as the lambda left them, from their JSON text. Raises ReturnedError.

    Each is still of its kind: an object stays an object, what was absent stays absent.
    """
    try:
        values = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ReturnedError("what it left behind is not JSON") from error
    if not isinstance(values, list) or len(values) != len(given):
        raise ReturnedError("it left something else than its arguments behind")
    for number, (value, before) in enumerate(zip(values, given, strict=True), 1):
        if _kind(value) != _kind(before):
            raise ReturnedError(f"argument {number} was of the kind {_kind(before)} and came back as {_kind(value)}")
    return [_plain(value, 1) for value in values]


def populated(claims: Document, after: Document, reserved: Collection[str]) -> Document:
    """Claims as a lambda left them, but for the reserved ones; null removes a claim."""
    kept = {name: value for name, value in after.items() if name not in reserved and value is not None}
    return {**kept, **{name: value for name, value in claims.items() if name in reserved}}


def fresh_result() -> Document:
    """The first argument of a validation."""
    return {"errors": {"fieldErrors": {}, "generalErrors": []}}


def errors_of(result: Document) -> tuple[list[FieldError], list[GeneralError]]:
    """The errors that a validation put into its first argument. Raises ReturnedError."""
    errors = _member(result, "errors", dict)
    by_field = _member(errors, "fieldErrors", dict)
    fields = [
        FieldError(path, *_entry(entry, f"[invalid]{path}"))
        for path in by_field
        for entry in _member(by_field, path, list)
    ]
    whole = [GeneralError(*_entry(entry, "[invalid]")) for entry in _member(errors, "generalErrors", list)]
    return fields[:_MAXIMUM_ERRORS], whole[:_MAXIMUM_ERRORS]


def errors_response(fields: Sequence[FieldError], general: Sequence[GeneralError]) -> Document:
    """The errors as events carry them."""
    by_field: dict[str, list[Document]] = {}
    for error in fields:
        by_field.setdefault(error.path, []).append({"code": error.code, "message": error.message})
    return {
        "fieldErrors": by_field,
        "generalErrors": [{"code": error.code, "message": error.message} for error in general],
    }


def _entry(entry: Any, code: str) -> tuple[str, str]:
    """(code, message) of one error; both may be missing."""
    if not isinstance(entry, dict):
        raise ReturnedError("an error must be an object with a code and a message")
    return _member(entry, "code", str) or code, _member(entry, "message", str) or "The request was refused."


def _member(holder: Document, name: str, kind: type[T]) -> T:
    """A member of what came back, or an empty one where it is absent. Raises ReturnedError for one of another kind."""
    value = holder.get(name)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise ReturnedError(f"[{name}] must be of the kind {_kind(kind())} and is of the kind {_kind(value)}")
    return value


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
        case list():
            return "list"
        case _:
            return "object"


def _plain(value: Any, depth: int) -> Any:
    """The value without `__proto__`, which is nothing to us and something to whoever reads a token in JavaScript."""
    if depth > _MAXIMUM_DEPTH:
        raise ReturnedError(f"what it left behind is nested deeper than {_MAXIMUM_DEPTH} levels")
    if isinstance(value, dict):
        return {name: _plain(member, depth + 1) for name, member in value.items() if name != "__proto__"}
    return [_plain(item, depth + 1) for item in value] if isinstance(value, list) else value
