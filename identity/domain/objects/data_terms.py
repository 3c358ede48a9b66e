"""Terms of custom data: what an index needs to find objects by the values of `data`, whose names are not known.

A term is the path of a value and the value as a text in lower case, cut to a maximum length. Objects with more values
than are worth an index, and those of earlier releases, have UNLISTED or no terms: they are compared one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from identity.domain.objects.search_expressions import Scalar, as_number, text_of

MEMBER: Final = "private.dataTerms"
UNLISTED: Final = "*"

_MAXIMUM_TERMS = 64
_MAXIMUM_LENGTH = 100


def of(data: Mapping[str, Any]) -> list[str]:
    """Return the terms of custom data."""
    found = set[str]()
    for path, value in _values("", data):
        found.update(of_value(path, value))
        if len(found) > _MAXIMUM_TERMS:
            return [UNLISTED]
    return sorted(found)


def of_value(path: str, value: Scalar) -> set[str]:
    """Return the terms of a value, or of values that equal it: a text may spell a number."""
    number = as_number(value)
    spelled = {text_of(value)} if number is None else {text_of(value), _spelled(number)}
    return {start(path, text) for text in spelled}


def start(path: str, text: str) -> str:
    """Return the term of a text, or the start of the terms of texts that start with it."""
    return f"{path}={text}"[:_MAXIMUM_LENGTH]


def _spelled(number: float) -> str:
    """Return the same text for equal numbers."""
    return str(int(number)) if number == int(number) else repr(number)


def _values(path: str, value: Any) -> Iterator[tuple[str, Scalar]]:
    """Yield the values in data with their paths, in which items of lists have the path of the list."""
    if isinstance(value, Mapping):
        for name, member in value.items():
            yield from _values(f"{path}.{name}" if path else name, member)
    elif isinstance(value, list):
        for item in value:
            yield from _values(path, item)
    elif isinstance(value, Scalar):
        yield path, value
