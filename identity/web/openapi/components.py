"""The schemas of the document: what the files of schemas/ say, once for requests, patches and answers each.

A request may hold more than its schema knows, and lacks what the service fills in; a patch may lack everything; an
answer is closed: it holds every member that has a default, and none that is write-only or unknown.
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
_LEFT_OUT: Final = frozenset({"$schema", "$id", "$comment", "$defs"})
_ANNOTATIONS: Final = frozenset({"default", "description", "readOnly", "title", "writeOnly"})

# Members of a body beside its object that only requests have.
_OF_REQUESTS: Final = frozenset({"eventInfo"})


class Use(enum.Enum):
    """What a schema is for; the value ends the name of an object's component."""

    REQUEST = "Input"
    PATCH = "Patch"
    ANSWER = ""


_BODIES: Final = {Use.REQUEST: "Request", Use.PATCH: "PatchRequest", Use.ANSWER: "Response"}


class Components:
    """The components of one document, each made when it is first referred to."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._files: dict[str, Document] = {}
        self._sources: dict[str, tuple[str, str]] = {}
        self.schemas: dict[str, Document] = {}

    def body(self, shape: str, use: Use) -> Document:
        """A reference to a whole body: `api/webhook.json`, or the object with one member of it, `...json#webhook`."""
        file, _, member = shape.partition("#")
        title = _words(file)
        if not member:
            # A file may be answered with whole, and its one object elsewhere.
            is_shared = use is Use.ANSWER and not file.endswith(".response.json")
            name = f"{title}{'Body' if is_shared else ''}{_BODIES[use]}"
            return self._referred(name, file, "", lambda: self._whole(file, use))
        title = title if title.lower() == member.lower() else f"{title}{_capital(member)}"
        return self._referred(f"{title}{_BODIES[use]}", file, f"#{member}", lambda: self._wrapped(file, member, use))

    def built(self, name: str, schema: Document) -> Document:
        """A reference to a component that no file holds."""
        return self._referred(name, "", name, lambda: schema)

    def member(self, file: str, member: str, use: Use) -> Document:
        """A reference to the object that is a member of a body."""
        return self.part(file, f"/properties/{member}", use)

    def part(self, file: str, pointer: str, use: Use) -> Document:
        """A reference to a part of a file."""
        last = [step for step in pointer.split("/") if step not in {"", "properties", "$defs"}]
        title = "".join(map(_capital, last))
        stem = _words(file)
        name = stem if title.lower() == stem.lower() else f"{stem}{title}"
        node = functools.reduce(lambda at, step: at[step], pointer.strip("/").split("/"), self._read(file))
        return self._referred(f"{name}{use.value}", file, pointer, lambda: self.rendered(node, file, use))

    def parameters(self, file: str) -> Mapping[str, Document]:
        """The members of a schema of parameters."""
        properties: Mapping[str, Document] = self._read(file)["properties"]
        return {name: self.rendered(node, file, Use.REQUEST) for name, node in properties.items()}

    def rendered(self, node: Document, file: str, use: Use, *, closed: bool = True) -> Document:
        """A schema as the document shows it: without annotations of ours, files put in by reference."""
        if "$ref" in node:
            return self._reference(node, file, use, closed=closed)
        shown: Document = {}
        for key, value in node.items():
            if key in _LEFT_OUT or key.startswith("x-"):
                continue
            if key in _MAPS:
                wanted = {name: child for name, child in value.items() if _is_wanted(child, use)}
                shown[key] = {name: self._property(child, file, use) for name, child in wanted.items()}
            elif key in _SCHEMAS and isinstance(value, dict):
                # What a condition looks at is a part of the object, never all of it.
                whole = key in {"items", "additionalProperties"}
                shown[key] = self.rendered(value, file, use, closed=whole)
            elif key in _LISTS:
                shown[key] = [self.rendered(child, file, use, closed="properties" not in node) for child in value]
            else:
                shown[key] = value
        return _finished(shown, node, use, closed=closed)

    def _property(self, node: Document, file: str, use: Use) -> Document:
        """A member, which null removes from an object that is patched."""
        shown = self.rendered(node, file, use)
        if use is Use.PATCH and isinstance(shown.get("type"), str):
            shown["type"] = [shown["type"], "null"]
            if "enum" in shown:
                shown["enum"] = [*shown["enum"], None]
        return shown

    def _reference(self, node: Document, file: str, use: Use, *, closed: bool) -> Document:
        target, _, pointer = node["$ref"].partition("#")
        beside = {key: value for key, value in node.items() if key != "$ref" and not key.startswith("x-")}
        if beside.keys() <= _ANNOTATIONS:
            beside = {key: value for key, value in beside.items() if key != "default" or use is Use.REQUEST}
            return {**self.part(target or file, pointer, use), **beside}
        steps = pointer.strip("/").split("/")
        found = functools.reduce(lambda at, step: at[step], steps, self._read(target or file))
        return self.rendered({**found, **beside}, target or file, use, closed=closed)

    def _whole(self, file: str, use: Use) -> Document:
        """A body, whose objects are components of their own."""
        root = self._read(file)
        schema = self.rendered({**root, "properties": {}}, file, use)
        for name, node in root.get("properties", {}).items():
            if (use is Use.ANSWER and name in _OF_REQUESTS) or not _is_wanted(node, use):
                continue
            is_object = isinstance(node.get("properties"), dict)
            reference = self.member(file, name, use) if is_object else self.rendered(node, file, use)
            schema.setdefault("properties", {})[name] = reference
        return _finished(schema, root, use, closed=True)

    def _wrapped(self, file: str, member: str, use: Use) -> Document:
        return {
            "type": "object",
            "required": [member],
            "properties": {member: self.member(file, member, use)},
            "additionalProperties": False,
        }

    def _referred(self, name: str, file: str, pointer: str, make: Callable[[], Document]) -> Document:
        """Raises ValueError when two things would go by one name."""
        source = (file, pointer)
        if self._sources.setdefault(name, source) != source:
            raise ValueError(f"{name} is both {self._sources[name]} and {source}")
        if name not in self.schemas:
            self.schemas[name] = {}  # a schema may refer to itself
            self.schemas[name] = make()
        return {"$ref": f"#/components/schemas/{name}"}

    def _read(self, file: str) -> Document:
        if file not in self._files:
            self._files[file] = json.loads((self._folder / file).read_text())
        return self._files[file]


def _finished(shown: Document, node: Document, use: Use, *, closed: bool) -> Document:
    if use is Use.REQUEST:
        return shown
    required = set(node.get("required", ()))
    shown = {key: value for key, value in shown.items() if key not in {"default", "required"}}
    if use is Use.ANSWER and isinstance(node.get("properties"), dict):
        if closed:
            shown.setdefault("additionalProperties", False)
        required |= {name for name, child in node["properties"].items() if "default" in child}
        required -= {name for name, child in node["properties"].items() if not _is_wanted(child, use)}
    if use is Use.ANSWER and required:
        shown["required"] = sorted(required - _OF_REQUESTS)
    return shown


def _is_wanted(child: Any, use: Use) -> bool:
    return use is not Use.ANSWER or not child.get("writeOnly", False)


def _words(file: str) -> str:
    """The name of a file as the name of a component: `oauth2/token.response.json` is OAuth2Token."""
    folder, _, name = file.rpartition("/")
    stem = re.sub(r"\.(request|response|form)$", "", name.removesuffix(".json"))
    prefix = {"api": ""}.get(folder, "OAuth2")
    suffix = "Form" if name.endswith(".form.json") else ""
    return prefix + "".join(map(_capital, re.split(r"[-.]", stem))) + suffix


def _capital(word: str) -> str:
    return word[:1].upper() + word[1:]
