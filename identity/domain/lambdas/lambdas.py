"""Lambda types, the function that each defines, validation of what a lambda returns, and the default lambdas.

populate    modifies its first argument: the claims of a token, or the userinfo response
reconcile   modifies the user and the registration by the claims of an identity provider
validate    rejects a login or a registration by adding errors to its first argument
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson

from identity.call import Document
from identity.domain.objects.data_files import load_yaml
from identity.errors import FieldError, GeneralError

T = TypeVar("T")

ENGINE: Final = "GraalJS"
"""The published name of the JavaScript engine; the service runs QuickJS under it."""

_TYPES: Final = load_yaml(__file__, "lambda_types.yaml")
FUNCTIONS: Final[Mapping[str, str]] = _TYPES["functions"]
"""The function that the body must define, by type."""

REFERENCES: Final[Mapping[str, Mapping[str, str]]] = _TYPES["references"]
"""The lambda type that a member refers to, by resource and member."""

# The type of a token is reserved: otherwise a lambda could turn an ID token into an access token, or the token of an
# entity into that of a user.
USER_TOKEN_CLAIMS: Final = frozenset({"act", "amr", "cnf", "exp", "iat", "sub", "tid", "tty", "userinfo_claims"})
CLIENT_TOKEN_CLAIMS: Final = frozenset({"amr", "aud", "cnf", "exp", "gty", "iat", "permissions", "sub", "tid", "tty"})
USERINFO_CLAIMS: Final = frozenset({"email", "email_verified", "sub", "tid"})
"""Reserved claims, which a lambda cannot add, change or remove."""

_MAX_DEPTH: Final = 40
_MAX_ERRORS: Final = 100


class ReturnedError(ValueError):
    """The result of a lambda is unusable; the message has the reason."""


def returned(text: str, given: Sequence[Any]) -> list[Any]:
    """Parse the arguments that a lambda returned. Raises ReturnedError.

    Each must have the JSON type of the argument `given`: an object remains an object, null remains null.
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


def populated(claims: Document, returned_claims: Document, reserved: Collection[str]) -> Document:
    """The claims that a lambda returned, with the original reserved claims; null removes a claim."""
    populated_claims = {
        name: value for name, value in returned_claims.items() if name not in reserved and value is not None
    }
    return {**populated_claims, **{name: value for name, value in claims.items() if name in reserved}}


def fresh_result() -> Document:
    """The first argument of a validation."""
    return {"errors": {"fieldErrors": {}, "generalErrors": []}}


def form_context(form: Document | None, fields: Sequence[Document], step: int, total_steps: int) -> Document:
    """What a validation of self-service registration gets to know of the submitted step; one page has one step."""
    return {
        "fields": list(fields),
        "form": form,
        "step": step,
        "stepIndex": step - 1,
        "totalSteps": total_steps,
    }


def errors_of(result: Document) -> tuple[list[FieldError], list[GeneralError]]:
    """The errors that a validation added to its first argument. Raises ReturnedError."""
    errors = _member(result, "errors", dict)
    by_field = _member(errors, "fieldErrors", dict)
    fields = [
        FieldError(path, *_entry(entry, f"[invalid]{path}"))
        for path in by_field
        for entry in _member(by_field, path, list)
    ]
    whole = [GeneralError(*_entry(entry, "[invalid]")) for entry in _member(errors, "generalErrors", list)]
    return fields[:_MAX_ERRORS], whole[:_MAX_ERRORS]


def errors_response(fields: Sequence[FieldError], general: Sequence[GeneralError]) -> Document:
    """The errors in the form of event payloads."""
    by_field: dict[str, list[Document]] = {}
    for error in fields:
        by_field.setdefault(error.path, []).append({"code": error.code, "message": error.message})
    return {
        "fieldErrors": by_field,
        "generalErrors": [{"code": error.code, "message": error.message} for error in general],
    }


def _entry(entry: Any, code: str) -> tuple[str, str]:
    """The code and the message of an error, each with a default."""
    if not isinstance(entry, dict):
        raise ReturnedError("an error must be an object with a code and a message")
    return _member(entry, "code", str) or code, _member(entry, "message", str) or "The request was refused."


def _member(holder: Document, name: str, kind: type[T]) -> T:
    """A member of the result, or its empty value. Raises ReturnedError if it has another type."""
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
    """The value without `__proto__` members, which could pollute prototypes in JavaScript that reads a token."""
    if depth > _MAX_DEPTH:
        raise ReturnedError(f"what it left behind is nested deeper than {_MAX_DEPTH} levels")
    if isinstance(value, dict):
        return {name: _plain(member, depth + 1) for name, member in value.items() if name != "__proto__"}
    return [_plain(item, depth + 1) for item in value] if isinstance(value, list) else value


DEFAULT_BODIES: Final[Mapping[str, str]] = {
    kind: (Path(__file__).with_name("defaults") / name).read_text("utf-8") for kind, name in _TYPES["defaults"].items()
}
"""The source of the lambdas that a new instance contains, by type."""


def default_name(kind: str) -> str:
    """Return the name of the default lambda of a type."""
    return f"Default {kind.removesuffix('Reconcile')} reconcile"


_SAMPLES: Final[Mapping[str, Sequence[Any]]] = load_yaml(__file__, "lambda_samples.yaml")["samples"]


def sample_arguments(kind: str) -> list[Any]:
    """Return example arguments of a lambda type, of which the last one is the context."""
    return copy.deepcopy(list(_SAMPLES.get(kind) or _SAMPLES[FUNCTIONS[kind]]))
