"""Published keys of theme messages, such as `forgot-password-title`, for the texts of the pages that they replace."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from identity.domain.configuration import page_texts
from identity.domain.objects import property_files
from identity.domain.objects.data_files import load_yaml

_TABLE: Final[Mapping[str, Any]] = load_yaml(__file__, "published_messages.yaml")

PUBLISHED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {key: (texts,) if isinstance(texts, str) else tuple(texts) for key, texts in _TABLE["messages"].items()}
)
"""Published key -> keys of the texts that it replaces; the first of several published keys for a text wins."""

_PLACEHOLDER: Final = re.compile(r"\{(\d)\}")
_PARAMETER: Final = re.compile(r"%(?:(\d)\$)?[sd]")
_DYNAMIC: Final = re.compile(
    r"(?:\[\{(?:application|tenant)\}[^\]]*\])?\{scope-(?:message|detail)\}."
    r"|(?:\[\w+\])?(?:confirm\.)?(?:user|registration)\."
    r"|\[\w+\](?:password|passwordConfirm)\Z"
)
"""Keys that pages look up beyond those of the catalogue: texts of scopes, and labels and errors of fields."""


@functools.lru_cache(maxsize=64)
def read(text: str, *, is_default: bool = False) -> Mapping[str, str]:
    """Return the messages of a theme, with the texts that its published keys replace.

    A text under its own key wins. Default messages that repeat the built-in English text replace nothing.
    """
    given = property_files.read(text)
    if is_default:
        given = {key: text for key, text in given.items() if text != page_texts.TEXTS.get(key)}
    found = {key: text for key, text in given.items() if key not in page_texts.TEXTS}
    for key in given.keys() & page_texts.TEXTS.keys():
        found |= {replaced: text for replaced, text in _replaced(key, given[key]) if replaced == key}
    for key in PUBLISHED:
        for replaced, replacement in _replaced(key, given[key]) if key in given else ():
            found.setdefault(replaced, replacement)
    return MappingProxyType(found)


def unused_keys(messages: Mapping[str, str]) -> Iterator[str]:
    """Return the keys of messages that no page of the service shows."""
    return (key for key, text in messages.items() if not _DYNAMIC.match(key) and not any(_replaced(key, text)))


def _replaced(key: str, text: str) -> Iterator[tuple[str, str]]:
    """Return the texts that a message replaces by their keys: that of its own key first.

    A message with a value that the page does not have, such as a limit, does not replace its text.
    """
    keys = (key, *PUBLISHED.get(key, ())) if key in page_texts.TEXTS else PUBLISHED.get(key, ())
    for replaced in keys:
        replacement = _with_placeholders(text, key, replaced)
        if replacement is not None:
            yield replaced, replacement


def values_of(key: str) -> frozenset[int]:
    """Return the numbers of the values that pages fill into a text."""
    own = {int(number) for number in _PLACEHOLDER.findall(page_texts.TEXTS[key])}
    return frozenset(own.union(_TABLE["values"].get(key, ())))


def _with_placeholders(text: str, published: str, key: str) -> str | None:
    """Return a text with `{0}` in place of its `%s`; None if the page does not have one of the values."""
    numbers, indices = _TABLE["parameters"].get(published, range(10)), list[int]()

    def placeholder(parameter: re.Match[str]) -> str:
        position = int(parameter[1]) - 1 if parameter[1] else len(indices)
        indices.append(numbers[position] if 0 <= position < len(numbers) else -1)
        return f"{{{indices[-1]}}}"

    filled = _PARAMETER.sub(placeholder, text)
    return filled if values_of(key).issuperset(indices) else None
