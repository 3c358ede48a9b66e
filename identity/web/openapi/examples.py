"""The examples of the OpenAPI document, from examples/*.yaml.

A file has examples of components by name. Bodies that only wrap others are composed. Where one component serves
different objects, an operation has its own examples, by its id: `{request: ..., response: ...}`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from identity.call import Document
from identity.domain.objects.data_files import load_yaml

_FOLDER: Final = Path(__file__).resolve().parent / "examples"
_JSON_PATCH: Final = "application/json-patch+json"
_PREFIX: Final = "#/components/schemas/"


@functools.cache
def load() -> Document:
    """Return all examples of the files. Raises ValueError if two files have the same name."""
    found: Document = {}
    for file in sorted(_FOLDER.glob("*.yaml")):
        read = load_yaml(__file__, f"examples/{file.name}")
        if repeated := found.keys() & read.keys():
            raise ValueError(f"{file.name}: {sorted(repeated)} are in another file too")
        found |= read
    return found


class Examples:
    """Adds examples to operations; `components` are those that the document is to have."""

    def __init__(self, schemas: Document) -> None:
        self._schemas = schemas
        self._given = load()
        self.components: Document = {}

    def add_to(self, operation: Document) -> None:
        """Add the examples of the request body and of all responses."""
        own = self._given.get(operation["operationId"], {})
        contents = operation.get("requestBody", {}).get("content", {})
        for kind, media in contents.items():
            if kind == _JSON_PATCH:
                merge_patch = self._of(contents["application/merge-patch+json"]["schema"])
                media["example"] = list(_json_patch(merge_patch))
            else:
                self._add(media, own.get("request"))
        for status, response in operation["responses"].items():
            for media in response.get("content", {}).values():
                self._add(media, own.get("response") if status < "300" else None)

    def _add(self, media: Document, own: Any) -> None:
        if own is not None:
            media["example"] = own
            return
        schema = media["schema"]
        if "$ref" not in schema:
            return
        name = schema["$ref"].removeprefix(_PREFIX)
        several = self._schemas[name].get("examples", [])
        values = {f"{name}{number}": value for number, value in enumerate(several, 1)} or {name: self._of(schema)}
        self.components |= {key: {"value": value} for key, value in values.items()}
        media["examples"] = {key: {"$ref": f"#/components/examples/{key}"} for key in values}

    def _of(self, schema: Document) -> Any:
        """Return the example of a schema. Raises LookupError if a value is neither given nor composed."""
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(_PREFIX)
            return self._given[name] if name in self._given else self._composed(name)
        if schema.get("type") == "array":
            return [self._of(schema["items"])]
        if schema.get("type") == "integer":
            return 1
        raise LookupError(f"there is no example of {schema}")

    def _composed(self, name: str) -> Document:
        """Compose a body of its required members, or of all if none is required."""
        members = self._schemas[name].get("properties", {})
        wanted = self._schemas[name].get("required") or members
        try:
            return {member: self._of(members[member]) for member in wanted}
        except LookupError as error:
            raise LookupError(f"{name}: {error}") from error


def _json_patch(merge_patch: Document) -> Iterator[Document]:
    """Yield the operations (RFC 6902) with the effect of a merge patch of members of one object."""
    for wrapper, members in merge_patch.items():
        for name, value in members.items():
            yield {"op": "add", "path": f"/{wrapper}/{name}", "value": value}
