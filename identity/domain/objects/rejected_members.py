"""Validation of the rest of a request with schema errors, so that a response has all errors at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from identity.call import Document
from identity.errors import FieldError

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
