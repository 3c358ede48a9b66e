"""Errors of scim2-models and pydantic in the service's own words: none of their text reaches a client."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import ValidationError
from scim2_models import SCIMException

from identity.domain.scim.errors import ScimError

_STEP: Final = re.compile(r"(?:urn:[\w.:-]+|[A-Za-z$][\w$-]*)\Z")
"""A step of a location that is an attribute of SCIM; others name parts of the library."""

_DETAILS: Final[Mapping[str, str]] = {
    "invalidFilter": "The filter is malformed, names an unknown attribute, or compares one in an unsupported way.",
    "invalidPath": "The path is malformed, or names an attribute that the resource does not have.",
    "invalidSyntax": "The structure of the message is invalid.",
    "invalidValue": "A value is missing or has the wrong type.",
    "mutability": "The attribute is read-only, immutable or required.",
    "noTarget": "The path selects nothing that the operation can change.",
}
_DETAILS_BY_TYPE: Final[Mapping[str, str]] = {
    "bool_parsing": "The value must be a boolean.",
    "bool_type": "The value must be a boolean.",
    "datetime_from_date_parsing": "The value must be an xsd:dateTime.",
    "dict_type": "The value must be an object.",
    "enum": "The value is not one of the supported values.",
    "int_parsing": "The value must be an integer.",
    "int_type": "The value must be an integer.",
    "list_type": "The value must be a list.",
    "missing": "The value is required.",
    "model_type": "The value must be an object.",
    "string_type": "The value must be a string.",
}
"""Kind of a validation error of pydantic -> detail."""
_PREFIX: Final = "scim_"


@contextlib.contextmanager
def reported(where: str = "") -> Iterator[None]:
    """Turn errors of the libraries into ScimError; `where` is put before the location within the value.

    Values of the request are not repeated.
    """
    try:
        yield
    except SCIMException as error:
        cause = error.__cause__
        if isinstance(cause, ValidationError):
            raise _of_validation(cause, where) from error
        raise _error(error.scim_type, where, status=error.status) from error
    except ValidationError as error:
        raise _of_validation(error, where) from error


def _of_validation(error: ValidationError, where: str) -> ScimError:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    kind = str(first["type"])
    location = _joined(where, _location(first["loc"]))
    if location.endswith("].op"):
        return _error("invalidValue", location, "The value must be add, remove or replace.")
    if kind.startswith(_PREFIX):
        return _error(kind.removeprefix(_PREFIX), location)
    if location.endswith(".path"):
        return _error("invalidPath", location)
    return _error("invalidValue", location, _DETAILS_BY_TYPE.get(kind))


def _error(scim_type: str, where: str, detail: str | None = None, *, status: int = 400) -> ScimError:
    known = scim_type if scim_type in _DETAILS else "invalidValue"
    detail = detail or _DETAILS[known]
    return ScimError(status, f"{where}: {detail}" if where else detail, scim_type or known)


def _location(steps: tuple[Any, ...]) -> str:
    """Return the location of an error as a path such as `emails[0].value`."""
    found = ""
    for step in steps:
        if isinstance(step, int):
            found += f"[{step}]"
        elif _STEP.match(str(step)):
            found = _joined(found, str(step))
    return found[:200]


def _joined(where: str, step: str) -> str:
    return f"{where}.{step}" if where and step else where or step
