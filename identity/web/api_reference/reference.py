"""The contents of the API reference: operations by tag, and schemas as tables of members."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from identity.call import Document

_PREFIX: Final = "#/components/schemas/"
_BOUNDS: Final = ("minimum", "maximum", "minLength", "maxLength", "pattern", "default", "minItems", "maxItems")


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """One method of a path."""

    method: str
    path: str
    document: Document

    @property
    def anchor(self) -> str:
        """The fragment of its section."""
        return str(self.document["operationId"])


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """A row of a schema: `type` and `links` describe the value, `notes` its bounds."""

    name: str
    type: str
    links: tuple[str, ...]
    is_required: bool
    description: str
    notes: tuple[str, ...]


class Reference:
    """An OpenAPI document, for the templates."""

    def __init__(self, document: Document) -> None:
        self.title = f"{document['info']['title']} {document['info']['version']}"
        self.description = document["info"]["description"]
        self._parameters: Mapping[str, Document] = document["components"]["parameters"]
        self._shared_examples: Mapping[str, Document] = document["components"]["examples"]
        self.schemas: Mapping[str, Document] = document["components"]["schemas"]
        self.tags: dict[str, list[Operation]] = {}
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                self.tags.setdefault(operation["tags"][0], []).append(Operation(method.upper(), path, operation))

    def parameters(self, operation: Operation) -> list[Document]:
        """Return the parameters of an operation."""
        given = operation.document.get("parameters", [])
        return [self._parameters[one["$ref"].rpartition("/")[2]] if "$ref" in one else one for one in given]

    def bodies(self, holder: Document) -> Iterator[tuple[str, str, list[Member], list[str]]]:
        """Yield (content type, name of the schema or an empty text, members, examples) of a body."""
        for content_type, media in holder.get("content", {}).items():
            schema = media.get("schema", {})
            names = references(schema)
            described = [] if "$ref" in schema else members(schema)
            yield content_type, names[0] if "$ref" in schema else "", described, self._examples(media)

    def _examples(self, media: Document) -> list[str]:
        """Return the examples of a body as indented JSON."""
        names = [one["$ref"].rpartition("/")[2] for one in media.get("examples", {}).values()]
        values = [media["example"]] if "example" in media else [self._shared_examples[name]["value"] for name in names]
        return [orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() for value in values]


def members(schema: Document) -> list[Member]:
    """Return the members of an object, also of those that it is composed of."""
    required = set(schema.get("required", ()))
    found = [_member(name, one, is_required=name in required) for name, one in schema.get("properties", {}).items()]
    for part in _parts(schema):
        found += members(part)
    return found


def type_of(schema: Document) -> str:
    """Return the type of a schema as text."""
    if "const" in schema:
        return f"the value {schema['const']!r}"
    if "enum" in schema:
        return "one of " + ", ".join(str(value) for value in schema["enum"])
    kind = schema.get("type", "")
    text = " or ".join(kind) if isinstance(kind, list) else str(kind)
    if "items" in schema:
        text = f"array of {type_of(schema['items']) or 'values'}"
    if "format" in schema:
        text += f" ({schema['format']})"
    if not text and _parts(schema):
        text = " or ".join(dict.fromkeys(filter(None, map(type_of, _parts(schema)))))
    return text or ("object" if references(schema) else "any value")


def references(schema: object) -> tuple[str, ...]:
    """Return the names of the schemas that a schema refers to, down to its own members."""
    if not isinstance(schema, Mapping):
        return ()
    if "$ref" in schema:
        return (str(schema["$ref"]).removeprefix(_PREFIX),)
    nested = [schema.get("items"), schema.get("additionalProperties"), *_parts(schema)]
    return tuple(dict.fromkeys(name for one in nested for name in references(one)))


def _member(name: str, schema: Document, *, is_required: bool) -> Member:
    notes = tuple(f"{bound}: {schema[bound]}" for bound in _BOUNDS if bound in schema)
    flags = tuple(text for flag, text in (("readOnly", "read only"), ("writeOnly", "write only")) if schema.get(flag))
    description = str(schema.get("description", ""))
    return Member(name, type_of(schema), references(schema), is_required, description, flags + notes)


def _parts(schema: Mapping[str, Any]) -> Sequence[Document]:
    return [part for word in ("allOf", "anyOf", "oneOf") for part in schema.get(word, ())]
