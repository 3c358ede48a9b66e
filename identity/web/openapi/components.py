"""The component schemas of the OpenAPI document: each file of schemas/ as a request, a patch and a response.

Requests may have unknown members, and omit members with defaults. Patches may omit every member. Responses have every
member with a default, and no write-only or unknown members.
"""

from __future__ import annotations

import enum
import functools
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from identity.call import Document
from identity.schemas import FOLDER

_MAPS: Final = frozenset({"properties", "patternProperties"})
_SCHEMAS: Final = frozenset({"items", "additionalProperties", "propertyNames", "not", "if", "then", "else", "contains"})
_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf"})
# Generators of clients name models by titles, which several components of one file share.
_OMITTED: Final = frozenset({"$schema", "$id", "$comment", "$defs", "title"})
_ANNOTATIONS: Final = frozenset({"default", "description", "readOnly", "title", "writeOnly"})

# Members next to the object of a body that only requests have.
_REQUEST_ONLY: Final = frozenset({"eventInfo"})


class Use(enum.Enum):
    """The use of a schema; the value is the suffix of an object's component."""

    REQUEST = "Input"
    PATCH = "Patch"
    RESPONSE = ""


_BODY_SUFFIXES: Final = {Use.REQUEST: "Request", Use.PATCH: "PatchRequest", Use.RESPONSE: "Response"}


class Components:
    """The components of one document, each built at its first reference."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._read = functools.cache(lambda file: json.loads((folder / file).read_text()))
        self._sources: dict[str, tuple[str, str]] = {}
        self.schemas: dict[str, Document] = {}

    def body(self, schema: str, use: Use) -> Document:
        """Return a reference to a body: `api/webhook.json`, or `api/webhook.json#webhook` for one member of it."""
        file, _, member = schema.partition("#")
        title = _component_name(file)
        if not member:
            # The same file may be one response as a whole, and its only object another one.
            is_shared = use is Use.RESPONSE and not file.endswith(".response.json")
            name = f"{title}{'Body' if is_shared else ''}{_BODY_SUFFIXES[use]}"
            return self._reference(name, file, "", lambda: self._build_body(file, use))
        title = title if title.lower() == member.lower() else f"{title}{capitalize(member)}"
        name = f"{title}{_BODY_SUFFIXES[use]}"
        return self._reference(name, file, f"#{member}", lambda: self._build_wrapper(file, member, use))

    def add(self, name: str, schema: Document) -> Document:
        """Add a component that is not in a file, and return a reference to it."""
        return self._reference(name, "", name, lambda: schema)

    def member(self, file: str, member: str, use: Use) -> Document:
        """Return a reference to the object that is a member of a body."""
        return self.part(file, f"/properties/{member}", use)

    def part(self, file: str, pointer: str, use: Use) -> Document:
        """Return a reference to a part of a file."""
        title = "".join(capitalize(step) for step in pointer.split("/") if step not in {"", "properties", "$defs"})
        stem = _component_name(file)
        name = stem if title.lower() == stem.lower() else f"{stem}{title}"
        node = self._resolve(file, pointer)
        return self._reference(f"{name}{use.value}", file, pointer, lambda: self.convert(node, file, use))

    def parameters(self, file: str) -> Mapping[str, Document]:
        """Return the members of a schema of query parameters."""
        properties: Mapping[str, Document] = self._read(file)["properties"]
        return {name: self.convert(node, file, Use.REQUEST) for name, node in properties.items()}

    def convert(self, node: Document, file: str, use: Use, *, closed: bool = True) -> Document:
        """Convert a schema for the document: without our own keywords, with references to components."""
        if "$ref" in node:
            return self._convert_reference(node, file, use, closed=closed)
        result: Document = {}
        for key, value in node.items():
            if key in _OMITTED or key.startswith("x-") or _is_object_default(key, value):
                continue
            if key in _MAPS:
                members = {name: child for name, child in value.items() if _is_visible(child, use)}
                result[key] = {name: self._convert_member(child, file, use) for name, child in members.items()}
            elif key in _SCHEMAS and isinstance(value, dict):
                # Conditions describe a part of the object only.
                result[key] = self.convert(value, file, use, closed=key in {"items", "additionalProperties"})
            elif key in _LISTS:
                result[key] = [self.convert(child, file, use, closed="properties" not in node) for child in value]
            else:
                result[key] = value
        return _apply_use(result, node, use, closed=closed)

    def _convert_member(self, node: Document, file: str, use: Use) -> Document:
        """Convert a member; in patches, null removes it."""
        result = self.convert(node, file, use)
        if use is Use.PATCH and isinstance(result.get("type"), str):
            result["type"] = [result["type"], "null"]
            if "enum" in result:
                result["enum"] = [*result["enum"], None]
        return result

    def _convert_reference(self, node: Document, file: str, use: Use, *, closed: bool) -> Document:
        target, _, pointer = node["$ref"].partition("#")
        kept = {key: value for key, value in node.items() if key != "$ref" and not key.startswith("x-")}
        siblings = {key: value for key, value in kept.items() if not _is_object_default(key, value)}
        if siblings.keys() <= _ANNOTATIONS:
            siblings = {key: value for key, value in siblings.items() if key != "default" or use is Use.REQUEST}
            return {**self.part(target or file, pointer, use), **siblings}
        referenced = self._resolve(target or file, pointer)
        return self.convert({**referenced, **siblings}, target or file, use, closed=closed)

    def _resolve(self, file: str, pointer: str) -> Document:
        """Return the part of a file at a JSON pointer."""
        node: Document = functools.reduce(lambda at, step: at[step], pointer.strip("/").split("/"), self._read(file))
        return node

    def _build_body(self, file: str, use: Use) -> Document:
        """Build a body whose objects are separate components."""
        root = self._read(file)
        schema = self.convert({**root, "properties": {}}, file, use)
        for name, node in root.get("properties", {}).items():
            if (use is Use.RESPONSE and name in _REQUEST_ONLY) or not _is_visible(node, use):
                continue
            is_object = isinstance(node.get("properties"), dict)
            converted = self.member(file, name, use) if is_object else self.convert(node, file, use)
            schema.setdefault("properties", {})[name] = converted
        return _apply_use(schema, root, use, closed=True)

    def _build_wrapper(self, file: str, member: str, use: Use) -> Document:
        return {
            "type": "object",
            "required": [member],
            "properties": {member: self.member(file, member, use)},
            "additionalProperties": False,
        }

    def _reference(self, name: str, file: str, pointer: str, build: Callable[[], Document]) -> Document:
        """Return a reference to a component, built if it is new. Raises ValueError if the name has another source."""
        source = (file, pointer)
        if self._sources.setdefault(name, source) != source:
            raise ValueError(f"{name} is both {self._sources[name]} and {source}")
        if name not in self.schemas:
            self.schemas[name] = {}  # a schema may refer to itself
            self.schemas[name] = build()
        return {"$ref": f"#/components/schemas/{name}"}


def _apply_use(schema: Document, node: Document, use: Use, *, closed: bool) -> Document:
    """Apply the rules of a use to defaults, required members and unknown members."""
    if use is Use.REQUEST:
        return schema
    schema = {key: value for key, value in schema.items() if key not in {"default", "required"}}
    if use is Use.PATCH:
        return schema
    required = set(node.get("required", ()))
    if isinstance(node.get("properties"), dict):
        if closed:
            schema.setdefault("additionalProperties", False)
        required |= {name for name, child in node["properties"].items() if "default" in child}
        required -= {name for name, child in node["properties"].items() if not _is_visible(child, use)}
    if required:
        schema["required"] = sorted(required - _REQUEST_ONLY)
    return schema


def _is_object_default(key: str, value: Any) -> bool:
    """Return whether this is a default with objects, which generators of clients render as invalid code."""
    return key == "default" and (isinstance(value, dict) or (isinstance(value, list) and dict in map(type, value)))


def _is_visible(child: Any, use: Use) -> bool:
    return use is not Use.RESPONSE or not child.get("writeOnly", False)


def _component_name(file: str) -> str:
    """Return the component name of a file: OAuth2Token for `oauth2/token.response.json`."""
    folder, _, name = file.rpartition("/")
    stem = re.sub(r"\.(request|response|form)$", "", name.removesuffix(".json"))
    prefix = "" if folder == "api" else "OAuth2"
    suffix = "Form" if name.endswith(".form.json") else ""
    return prefix + "".join(map(capitalize, re.split(r"[-.]", stem))) + suffix


def capitalize(word: str) -> str:
    """Return the word with its first letter in upper case, and the others unchanged."""
    return word[:1].upper() + word[1:]
