"""The compiled files of schemas/: validation of JSON bodies, and filtering of responses.

Beyond JSON Schema 2020-12 the files use annotations of our own on properties:

    x-text          "verbatim": not trimmed; "lower": trimmed and lower-cased (default: trimmed)
    x-blank-is-null true: a blank text counts as absent
    x-shown-unless  the value with which the member is left out of responses
    x-errors        keyword -> kind of the error code, where the default of `schema_errors` does not fit
    x-errors-here   kind: every error inside this property is reported for it, once, with this kind
    x-zero-is-null  true: the number 0 counts as absent
    x-names         name -> number: a text that is one of the names is read as its number
    x-from-text     name: a text is read as an object with this one member
    x-single-item   true: a value that is not an array is read as an array of it

`readOnly` members are ignored in requests, `writeOnly` ones left out of responses. Unknown members of an object are
dropped if its schema lists `properties` and has no `additionalProperties`.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from identity import coercion, shipped_files
from identity.errors import FieldError, Invalid
from identity.ids import parse_id
from identity.prevalidation import Prevalidator
from identity.schema_formats import FORMATS
from identity.schema_formats import is_email as is_email
from identity.schema_paths import Node, child_of
from identity.schema_paths import dotted as dotted

FOLDER = shipped_files.folder("schemas")


class Shape:
    """One compiled schema file."""

    def __init__(self, schema: Node) -> None:
        self.schema = schema

    @functools.cached_property
    def _prevalidator(self) -> Prevalidator:
        return Prevalidator(_compiled(self.schema), FORMATS)

    @functools.cached_property
    def _errors(self) -> Callable[[Any], Iterator[FieldError]]:
        # Most documents are valid, and jsonschema takes a twentieth of the start.
        from identity import schema_errors  # noqa: PLC0415

        return functools.partial(schema_errors.find, self.schema, schema_errors.validator(_compiled(self.schema)))

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
        return tidy, [] if self._prevalidator.accepts(tidy) else list(self.errors(tidy))

    def errors(self, document: Any) -> Iterator[FieldError]:
        """Yield the field errors of a normalized document, each path and kind once, at most a hundred."""
        return self._errors(document)

    def show(self, document: Any) -> Any:
        """Return the document for a response: without write-only members, nulls and undeclared members."""
        return _shown(self.schema, document)


class Schemas:
    """The files of schemas/, each compiled on first use.

    They are not checked against the metaschema here: a test does that for each file.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder

    def __getitem__(self, name: str) -> Shape:
        """Return the compiled schema of a file, by its name in schemas/, such as `api/webhook.json`."""
        return _shape(name, self._folder)


@functools.cache
def _shape(name: str, folder: Path) -> Shape:
    return Shape(load(name, folder))


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


def fill(node: Node, value: Any) -> Any:
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


def _tidied(node: Node, value: Any) -> Any:
    value = coercion.coerce(node, value)
    if isinstance(value, dict):
        return {
            name: tidy
            for name, member in value.items()
            if member is not None
            and _is_wanted(node, name)
            and (tidy := _tidied(child_of(node, name), member)) is not None
        }
    if isinstance(value, list):
        child = child_of(node, 0)
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


def _is_wanted(node: Node, name: str) -> bool:
    properties = node.get("properties")
    if properties is None or name in properties:
        return not (properties or {}).get(name, {}).get("readOnly", False)
    return "additionalProperties" in node


def _tidied_text(node: Node, text: str) -> str | None:
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


def _shown(node: Node, value: Any) -> Any:
    if isinstance(value, dict):
        properties, has_others = node.get("properties"), "properties" not in node or "additionalProperties" in node
        shown = {}
        for name, member in value.items():
            child = properties.get(name) if properties else None
            if (
                member is None
                or (child is None and not has_others)
                or (child is not None and _is_hidden(child, member))
            ):
                continue
            # Most members are plain values, and a call for each costs as much as all the rest.
            is_plain = not isinstance(member, dict | list)
            shown[name] = member if is_plain else _shown(child_of(node, name), member)
        return shown
    if isinstance(value, list):
        child = child_of(node, 0)
        return [_shown(child, item) for item in value]
    return value


def _is_hidden(child: Node, member: Any) -> bool:
    return bool(child.get("writeOnly")) or child.get("x-shown-unless") == member


def _compiled(node: Any) -> Any:
    """Return the schema for the validator, without `uniqueItems`: duplicates are removed, its check is quadratic."""
    if isinstance(node, dict):
        return {key: _compiled(value) for key, value in node.items() if key != "uniqueItems"}
    return [_compiled(item) for item in node] if isinstance(node, list) else node
