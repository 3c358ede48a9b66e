"""Unknown members of a request, and the known members that they are probably misspellings of."""

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
    """Return the paths of unknown members of a JSON body, or of the values of a JSON Patch.

    At most a hundred: comparing names takes time, and a body may have very many members.
    """
    documents = map(_patched, body) if isinstance(body, list) else [body]
    found = (path for document in documents for path in _unnamed(schema, document, ()))
    return list(itertools.islice(found, _MAXIMUM_FOUND))


def listed(paths: Sequence[Path]) -> str:
    """Return the value of the `X-Ignored-Members` header: the first twenty dotted paths, percent-encoded."""
    return ", ".join(urllib.parse.quote(dotted(path)[:_MAXIMUM_NAME], safe=".[]") for path in paths[:MAXIMUM_LISTED])


def with_suggestions(error: Invalid, paths: Sequence[Path]) -> Invalid:
    """Return the error with suggestions: a missing member names the unknown one that probably misspells it."""
    fields = [_suggested(field, paths) for field in error.fields]
    return error if fields == list(error.fields) else Invalid(fields, error.general, log_detail=error.log_detail)


def nearest(name: str, known: Sequence[str]) -> str | None:
    """Return the most similar known name, if there is one."""
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
    """Return a document with the value of a JSON Patch operation at its pointer, and nothing else."""
    if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
        return None
    document = operation.get("value")
    for step in reversed(operation["path"].split("/")[1:]):
        name = step.replace("~1", "/").replace("~0", "~")
        document = [document] if name == "-" or name.isdecimal() else {name: document}
    return document
