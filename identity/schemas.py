"""The compiled files of schemas/: validation of JSON bodies, and filtering of responses.

Beyond JSON Schema 2020-12 the files use annotations of our own on properties:

    x-text          "verbatim": not trimmed; "lower": trimmed and lower-cased (default: trimmed)
    x-blank-is-null true: a blank text counts as absent
    x-shown-unless  the value with which the member is left out of responses
    x-errors        keyword -> kind of the error code, where the default of `_KINDS` does not fit
    x-errors-here   kind: every error inside this property is reported for it, once, with this kind
    x-zero-is-null  true: the number 0 counts as absent
    x-from-text     name: a text is read as an object with this one member
    x-single-item   true: a value that is not an array is read as an array of it

`readOnly` members are ignored in requests, `writeOnly` ones left out of responses. Unknown members of an object are
dropped if its schema lists `properties` and has no `additionalProperties`.
"""

from __future__ import annotations

import copy
import datetime
import difflib
import functools
import itertools
import json
import re
import zoneinfo
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema

from identity import coercion, shipped_files
from identity.errors import FieldError, Invalid
from identity.ids import parse_id

FOLDER = shipped_files.folder("schemas")

_Node = Mapping[str, Any]
_Steps = tuple[str | int, ...]

_KINDS = {
    "type": "invalidJSON",
    "maxLength": "tooLong",
    "minLength": "blank",
    "minItems": "empty",
    "maxItems": "tooMany",
    "propertyNames": "invalidJSON",
}
_FORMAT_KINDS = {"uuid": "couldNotConvert", "date": "couldNotConvert", "email": "notEmail"}

# A body of a megabyte can hold a million invalid items, and each error costs time.
_MAXIMUM_ERRORS = 100

_formats = jsonschema.FormatChecker(formats=())


def _is_integer(_checker: object, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# JSON Schema takes 1e300 for an integer; what is whole and fits is one already when it comes here (see _tidied).
_Validator: type[jsonschema.protocols.Validator] = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)


@_formats.checks("uuid")
def _is_uuid(value: object) -> bool:
    return not isinstance(value, str) or parse_id(value) is not None


def is_email(text: str) -> bool:
    """Return whether a text may be an email address."""
    return re.fullmatch(r"[^\s@\x00-\x1f\"<>]{1,64}@[^\s@\x00-\x1f\"<>]{1,190}", text) is not None


@_formats.checks("email")
def _is_email(value: object) -> bool:
    return not isinstance(value, str) or is_email(value)


@_formats.checks("date", raises=ValueError)
def _is_date(value: object) -> bool:
    if not isinstance(value, str):
        return True
    return datetime.date.fromisoformat(value).isoformat() == value


@_formats.checks("locale")
def _is_locale(value: object) -> bool:
    return not isinstance(value, str) or re.fullmatch(r"[A-Za-z]{2,3}([_-][A-Za-z0-9]{2,8})*", value) is not None


@_formats.checks("timezone")
def _is_timezone(value: object) -> bool:
    return not isinstance(value, str) or value in _timezones()


@functools.cache
def _timezones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


class Shape:
    """One compiled schema file."""

    def __init__(self, schema: _Node) -> None:
        self.schema = schema
        self._validator = _Validator(_compiled(schema), format_checker=_formats)

    def read(self, document: Any) -> Any:
        """Return the document, normalized, with defaults, validated.

        Raises Invalid with every field error of the document.
        """
        tidy, errors = self.examine(document)
        if errors:
            raise Invalid(errors)
        return tidy

    def examine(self, document: Any) -> tuple[Any, list[FieldError]]:
        """Return the document as `read` does, together with its field errors."""
        tidy = fill(self.schema, _tidied(self.schema, document))
        return tidy, list(itertools.islice(self.errors(tidy), _MAXIMUM_ERRORS))

    def errors(self, document: Any) -> Iterator[FieldError]:
        """Yield every field error of a normalized document, each path and kind once."""
        seen = set()
        for error in itertools.islice(self._validator.iter_errors(document), 10 * _MAXIMUM_ERRORS):
            for field_error in _field_errors(self.schema, error):
                key = (field_error.path, field_error.code)
                if key not in seen:
                    seen.add(key)
                    yield field_error

    def show(self, document: Any) -> Any:
        """Return the document for a response: without write-only members, nulls and undeclared members."""
        return _shown(self.schema, document)

    def is_valid(self, document: Any) -> bool:
        """Return whether the document is valid as it is."""
        return bool(self._validator.is_valid(document))


class Schemas:
    """The files of schemas/, each compiled on first use.

    They are not checked against the metaschema here: a test does that for each file.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._shapes: dict[str, Shape] = {}

    def __getitem__(self, name: str) -> Shape:
        """Return the compiled schema of a file, by its name in schemas/, such as `api/webhook.json`."""
        if name not in self._shapes:
            self._shapes[name] = Shape(load(name, self._folder))
        return self._shapes[name]


def load(name: str, folder: Path = FOLDER) -> dict[str, Any]:
    """Return the schema of a file, with every `$ref` to another file (or `#/$defs/...`) resolved."""
    schema = json.loads((folder / name).read_text())
    inlined: dict[str, Any] = _inlined(schema, schema, folder)
    return inlined


def _inlined(node: Any, root: Any, folder: Path) -> Any:
    if isinstance(node, list):
        return [_inlined(item, root, folder) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        file, _, pointer = node["$ref"].partition("#")
        target_root = json.loads((folder / file).read_text()) if file else root
        target = functools.reduce(
            lambda at, step: at[step], pointer.strip("/").split("/") if pointer else [], target_root
        )
        siblings = {key: value for key, value in node.items() if key != "$ref"}
        return _inlined({**target, **siblings}, target_root, folder)
    return {key: _inlined(value, root, folder) for key, value in node.items() if key != "$defs"}


def fill(node: _Node, value: Any) -> Any:
    """Set the defaults of absent members."""
    if isinstance(value, dict):
        for name, child in node.get("properties", {}).items():
            if name not in value and "default" in child:
                value[name] = copy.deepcopy(child["default"])
            if name in value:
                value[name] = fill(child, value[name])
        extra = node.get("additionalProperties")
        if isinstance(extra, dict):
            for name in value.keys() - node.get("properties", {}).keys():
                value[name] = fill(extra, value[name])
    elif isinstance(value, list) and isinstance(node.get("items"), dict):
        value = [fill(node["items"], item) for item in value]
    return value


def _tidied(node: _Node, value: Any) -> Any:
    value = coercion.coerce(node, value)
    if isinstance(value, dict):
        return {
            name: tidy
            for name, member in value.items()
            if member is not None
            and _is_wanted(node, name)
            and (tidy := _tidied(_child(node, name), member)) is not None
        }
    if isinstance(value, list):
        child = _child(node, 0)
        items = [None if item is None else _tidied(child, item) for item in value]
        if "items" in node:  # free-form arrays keep null, so that the other items keep their positions
            items = [item for item in items if item is not None]
        return _unique(items) if node.get("uniqueItems") else items
    if isinstance(value, str):
        return _tidied_text(node, value)
    if isinstance(value, float) and node.get("type") == "integer" and value.is_integer() and abs(value) < 2**63:
        return int(value)
    return value


def _unique(items: list[Any]) -> list[Any]:
    """Return the items without duplicates, compared as JSON: `1`, `true` and `"1"` differ."""
    first: dict[str, Any] = {}
    for item in items:
        first.setdefault(json.dumps(item, sort_keys=True), item)
    return list(first.values())


def _is_wanted(node: _Node, name: str) -> bool:
    properties = node.get("properties")
    if properties is None or name in properties:
        return not (properties or {}).get(name, {}).get("readOnly", False)
    return "additionalProperties" in node


def _tidied_text(node: _Node, text: str) -> str | None:
    manner = node.get("x-text", "trim" if "type" in node or "enum" in node else "verbatim")
    if manner != "verbatim":
        text = text.strip()
    if manner == "lower":
        text = text.lower()
    if node.get("format") == "uuid":
        text = parse_id(text) or text
    if node.get("x-blank-is-null") and not text.strip():
        return None
    return text


def _shown(node: _Node, value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _shown(_child(node, name), member)
            for name, member in value.items()
            if member is not None and _is_shown(node, name, member)
        }
    if isinstance(value, list):
        return [_shown(_child(node, 0), item) for item in value]
    return value


def _is_shown(node: _Node, name: str, value: Any) -> bool:
    properties = node.get("properties")
    if properties is None or name in properties:
        child = (properties or {}).get(name, {})
        return not child.get("writeOnly", False) and child.get("x-shown-unless") != value
    return "additionalProperties" in node


def _compiled(node: Any) -> Any:
    """Return the schema for the validator, without `uniqueItems`: duplicates are removed, its check is quadratic."""
    if isinstance(node, dict):
        return {key: _compiled(value) for key, value in node.items() if key != "uniqueItems"}
    return [_compiled(item) for item in node] if isinstance(node, list) else node


def _child(node: _Node, step: str | int) -> _Node:
    if isinstance(step, int):
        child = node.get("items")
    else:
        child = node.get("properties", {}).get(step, node.get("additionalProperties"))
    return child if isinstance(child, dict) else {}


def _field_errors(root: _Node, error: jsonschema.ValidationError) -> Iterator[FieldError]:
    steps: _Steps = tuple(error.absolute_path)
    here = _reported_here(root, steps)
    if here is not None:
        yield _field_error(here[1], here[0], _message_here(error, here[0]))
    elif error.validator == "required":
        required: Any = error.validator_value
        instance: Any = error.instance
        missing = [name for name in required if name not in instance]
        for name in missing:
            yield _missing_error(_node_at(root, (*steps, name)), (*steps, name))
    else:
        node = _node_at(root, steps)
        yield _field_error(_kind_of(error, node), steps, _message_of(error, steps))


def _message_here(error: jsonschema.ValidationError, steps: _Steps) -> str:
    message = f"The [{dotted(steps)}] property is not valid."
    return _unknown_name(error, steps) if "propertyNames" in error.absolute_schema_path else message


def _unknown_name(error: jsonschema.ValidationError, steps: _Steps) -> str:
    """Return the message for a member whose name is not among those of the schema."""
    name, known = str(error.instance)[:100], [str(one) for one in _names(error)]
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.7)
    hint = f" Did you mean [{near[0]}]?" if near else ""
    return f"The [{dotted(steps)}] property has the unknown name [{name}].{hint}"


def _names(error: jsonschema.ValidationError) -> Iterable[Any]:
    return error.validator_value if isinstance(error.validator_value, list) else ()


def _reported_here(root: _Node, steps: _Steps) -> tuple[_Steps, str] | None:
    for length in range(len(steps) + 1):
        kind = _node_at(root, steps[:length]).get("x-errors-here")
        if kind is not None:
            return steps[:length], kind
    return None


def _node_at(root: _Node, steps: _Steps) -> _Node:
    return functools.reduce(_child, steps, root)


def _missing_error(node: _Node, steps: _Steps) -> FieldError:
    is_text = node.get("type") == "string" and node.get("format") not in {"uuid", "date"} and "enum" not in node
    kind = node.get("x-errors", {}).get("required", "blank" if is_text else "missing")
    return _field_error(kind, steps, f"You must specify the [{dotted(steps)}] property.")


def _kind_of(error: jsonschema.ValidationError, node: _Node) -> str:
    keyword = str(error.validator)
    special = node.get("x-errors", {}).get(keyword)
    if special is not None:
        return str(special)
    if keyword == "format":
        return _FORMAT_KINDS.get(str(error.validator_value), "invalid")
    return _KINDS.get(keyword, "invalid")


def _message_of(error: jsonschema.ValidationError, steps: _Steps) -> str:
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


def _field_error(kind: str, steps: _Steps, message: str) -> FieldError:
    return FieldError.of(kind, dotted(steps), message)


def dotted(steps: Iterable[str | int]) -> str:
    """Return the path of a field as in the Errors JSON: `user.twoFactor.methods[0].secret`."""
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path
