"""Unknown members of a request, which are probably misspelled, and members that its schema rejects.

The rest of a request with schema errors is validated without the rejected members, so that a response has all errors
at once.
"""

from __future__ import annotations

import difflib
import itertools
import urllib.parse
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from identity.call import Document
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


Complete = Callable[[Document], Document]
Errors = Callable[[Document], Iterable[FieldError]]


def remove_rejected(
    document: Document, errors: Iterable[FieldError], fill: Complete, examine: Errors
) -> tuple[Document, frozenset[str]]:
    """Return the document without its rejected members, with defaults, and the rejected paths in the wrapped object.

    An array with a rejected item is removed as a whole, to keep the indexes of errors. So is a member of the object
    that is incomplete after that, unless it is itself the missing member.
    """
    cut = frozenset(error.path.partition("[")[0] for error in errors)
    rest = fill(_without(document, cut))
    broken = {path for path in map(_member, examine(rest)) if path is not None}
    return fill(_without(rest, broken)), frozenset(path for path in cut | broken if "." in path)


def unrelated_to(errors: Iterable[FieldError], rejected: Collection[str]) -> list[FieldError]:
    """Return the errors that are not about a rejected member or anything in it."""
    return [error for error in errors if not any(_is_within(error.path, path) for path in rejected)]


def _is_within(path: str, member: str) -> bool:
    return path == member or path.startswith((f"{member}.", f"{member}["))


def _without(document: Document, paths: Iterable[str]) -> Document:
    for path in paths:
        document = _cut(document, path.split("."))
    return document


def _cut(value: Any, steps: list[str]) -> Any:
    """Return a copy without the member at the path."""
    if not isinstance(value, dict) or steps[0] not in value:
        return value
    if len(steps) == 1:
        return {name: member for name, member in value.items() if name != steps[0]}
    return {**value, steps[0]: _cut(value[steps[0]], steps[1:])}


def _member(error: FieldError) -> str | None:
    """Return the path of the member of the wrapped object that has the error; None for the object itself."""
    steps = error.path.partition("[")[0].split(".")
    is_inside = len(steps) > 2 or "[" in error.path
    return ".".join(steps[:2]) if is_inside else None
