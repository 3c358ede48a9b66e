"""Members of a request that its schema does not name: which they are, and which named member was probably meant."""

from __future__ import annotations

import difflib
import itertools
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from identity.errors import FieldError, Invalid
from identity.schemas import dotted

Path = tuple[str | int, ...]

HEADER: Final = "X-Ignored-Members"
MAXIMUM_LISTED: Final = 20
_MAXIMUM_FOUND = 100
_MAXIMUM_NAME = 100
_SIMILARITY = 0.6
_MISSING_KINDS = ("[blank]", "[missing]")


def ignored(schema: Mapping[str, Any], body: Any) -> list[Path]:
    """The paths of members of a JSON body, or of the values of a JSON Patch, that the schema does not name.

    At most a hundred: comparing names costs time, and a body may have as many members as it has room for.
    """
    documents = map(_patched, body) if isinstance(body, list) else [body]
    found = (path for document in documents for path in _unnamed(schema, document, ()))
    return list(itertools.islice(found, _MAXIMUM_FOUND))


def listed(paths: Sequence[Path]) -> str:
    """The value of the `X-Ignored-Members` header: dotted paths, percent-encoded, the first twenty of them."""
    return ", ".join(urllib.parse.quote(dotted(path)[:_MAXIMUM_NAME], safe=".[]") for path in paths[:MAXIMUM_LISTED])


def with_suggestions(error: Invalid, paths: Sequence[Path]) -> Invalid:
    """The error, in which a missing member names the ignored one that is probably a misspelling of it."""
    fields = [_suggested(field, paths) for field in error.fields]
    return error if fields == list(error.fields) else Invalid(fields, error.general, log_detail=error.log_detail)


def nearest(name: str, known: Sequence[str]) -> str | None:
    """The known name that is most like this one, if any is."""
    by_key = {one.lower(): one for one in known}
    found = difflib.get_close_matches(name.lower()[:_MAXIMUM_NAME], by_key, n=1, cutoff=_SIMILARITY)
    return by_key[found[0]] if found else None


def _suggested(field: FieldError, paths: Sequence[Path]) -> FieldError:
    if not field.code.startswith(_MISSING_KINDS):
        return field
    steps = field.path.split(".")
    for end, wanted in enumerate(steps, start=1):
        parent = ".".join(steps[: end - 1])
        found = nearest(wanted, [str(path[-1]) for path in paths if dotted(path[:-1]) == parent])
        if found is not None:
            given, meant = ".".join([*steps[: end - 1], found[:_MAXIMUM_NAME]]), ".".join(steps[:end])
            message = f"{field.message} The request has [{given}]: did you mean [{meant}]?"
            return FieldError(field.path, field.code, message)
    return field


def _unnamed(node: Mapping[str, Any], value: Any, path: Path) -> Iterator[Path]:
    if isinstance(value, list) and isinstance(node.get("items"), dict):
        for index, item in enumerate(value):
            yield from _unnamed(node["items"], item, (*path, index))
    if not isinstance(value, dict):
        return
    named, rest = node.get("properties"), node.get("additionalProperties")
    for name, member in value.items():
        child = (named or {}).get(name, rest)
        if isinstance(child, dict):
            yield from _unnamed(child, member, (*path, name))
        elif named is not None and "additionalProperties" not in node:
            yield (*path, name)


def _patched(operation: Any) -> Any:
    """The document that has the value of a JSON Patch operation, and nothing else, where its pointer points."""
    if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
        return None
    document = operation.get("value")
    for step in reversed(operation["path"].split("/")[1:]):
        name = step.replace("~1", "/").replace("~0", "~")
        document = [document] if name == "-" or name.isdecimal() else {name: document}
    return document
