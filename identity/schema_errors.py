"""The errors of a document, found by `jsonschema`, in the published shape.

Loading `jsonschema` costs time and memory, and most documents are valid: only `schemas` imports this module, with the
first document that the prevalidator refuses.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Iterator
from typing import Any, Final

import jsonschema

from identity.errors import FieldError
from identity.schema_formats import FORMATS
from identity.schema_paths import Node, Steps, dotted, node_at

_KINDS = {
    "type": "invalidJSON",
    "maxLength": "tooLong",
    "minLength": "blank",
    "minItems": "empty",
    "maxItems": "tooMany",
    "propertyNames": "invalidJSON",
}
_FORMAT_KINDS = {"uuid": "couldNotConvert", "date": "couldNotConvert", "email": "notEmail"}

_MAXIMUM: Final = 100
"""The most errors of a document: a body of a megabyte can hold a million invalid items, and each error costs time."""

_formats = jsonschema.FormatChecker(formats=())
for _name, _is_valid in FORMATS.items():
    _formats.checks(_name, raises=ValueError)(_is_valid)


def _is_integer(_checker: object, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# JSON Schema takes 1e300 for an integer; what is whole and fits is one already when it comes here.
_Validator: type[jsonschema.protocols.Validator] = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)


def validator(schema: Any) -> jsonschema.protocols.Validator:
    """Return the validator of a schema."""
    return _Validator(schema, format_checker=_formats)


def find(root: Node, validator: jsonschema.protocols.Validator, document: Any) -> Iterator[FieldError]:
    """Yield the field errors of a normalized document, each path and kind once; `root` is its schema as it was read."""
    return itertools.islice(_distinct(root, validator.iter_errors(document)), _MAXIMUM)


def _distinct(root: Node, errors: Iterator[jsonschema.ValidationError]) -> Iterator[FieldError]:
    seen = set()
    for error in itertools.islice(errors, 10 * _MAXIMUM):
        for field_error in _field_errors(root, error):
            key = (field_error.path, field_error.code)
            if key not in seen:
                seen.add(key)
                yield field_error


def _field_errors(root: Node, error: jsonschema.ValidationError) -> Iterator[FieldError]:
    steps: Steps = tuple(error.absolute_path)
    here = _reported_here(root, steps)
    if here is not None:
        yield _field_error(here[1], here[0], _message_here(error, here[0]))
    elif error.validator == "required":
        required: Any = error.validator_value
        instance: Any = error.instance
        missing = [name for name in required if name not in instance]
        for name in missing:
            yield _missing_error(node_at(root, (*steps, name)), (*steps, name))
    else:
        node = node_at(root, steps)
        yield _field_error(_kind_of(error, node), steps, _message_of(error, steps))


def _message_here(error: jsonschema.ValidationError, steps: Steps) -> str:
    message = f"The [{dotted(steps)}] property is not valid."
    return _unknown_name(error, steps) if "propertyNames" in error.absolute_schema_path else message


def _unknown_name(error: jsonschema.ValidationError, steps: Steps) -> str:
    """Return the message for a member whose name is not among those of the schema."""
    name, known = str(error.instance)[:100], [str(one) for one in _names(error)]
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.7)
    hint = f" Did you mean [{near[0]}]?" if near else ""
    return f"The [{dotted(steps)}] property has the unknown name [{name}].{hint}"


def _names(error: jsonschema.ValidationError) -> Iterable[Any]:
    return error.validator_value if isinstance(error.validator_value, list) else ()


def _reported_here(root: Node, steps: Steps) -> tuple[Steps, str] | None:
    for length in range(len(steps) + 1):
        kind = node_at(root, steps[:length]).get("x-errors-here")
        if kind is not None:
            return steps[:length], kind
    return None


def _missing_error(node: Node, steps: Steps) -> FieldError:
    is_text = node.get("type") == "string" and node.get("format") not in {"uuid", "date"} and "enum" not in node
    kind = node.get("x-errors", {}).get("required", "blank" if is_text else "missing")
    return _field_error(kind, steps, f"You must specify the [{dotted(steps)}] property.")


def _kind_of(error: jsonschema.ValidationError, node: Node) -> str:
    keyword = str(error.validator)
    special = node.get("x-errors", {}).get(keyword)
    if special is not None:
        return str(special)
    if keyword == "format":
        return _FORMAT_KINDS.get(str(error.validator_value), "invalid")
    return _KINDS.get(keyword, "invalid")


def _message_of(error: jsonschema.ValidationError, steps: Steps) -> str:
    path = dotted(steps)
    if "propertyNames" in error.absolute_schema_path:
        return _unknown_name(error, steps)
    match error.validator:
        case "minLength" | "minItems":
            return f"You must specify the [{path}] property."
        case "maxLength":
            return f"The [{path}] property may have at most {error.validator_value} characters."
        case "type":
            return f"The [{path}] property must be of type [{error.validator_value}]."
        case "enum":
            return f"The [{path}] property must be one of {_listed(error.validator_value)}."
        case "minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum":
            return f"The [{path}] property is out of range ({error.validator} {error.validator_value})."
        case "format":
            return f"The [{path}] property is not a valid {error.validator_value}."
        case _:
            return f"The [{path}] property is not valid."


def _listed(values: Any) -> str:
    return ", ".join(map(str, values))


def _field_error(kind: str, steps: Steps, message: str) -> FieldError:
    return FieldError.of(kind, dotted(steps), message)
