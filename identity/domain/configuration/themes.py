"""Themes: the default one, the texts that a theme may change, and what is wrong inside of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from identity.call import Document
from identity.domain.configuration import page_texts
from identity.domain.objects import property_files
from identity.errors import FieldError

DEFAULT_ID: Final = "75a068fd-e94b-451a-9aeb-3ddb9a3b5987"
DEFAULT_NAME: Final = "FusionAuth"
"""The published name of the theme that every instance has: tools look it up by this name."""

FORMER_DEFAULT_NAME: Final = "Default"
"""Its name in earlier versions of the service."""

_LANGUAGE = "en"
"""What the default texts are written in: who wants it needs no other."""

MAXIMUM_TEMPLATES = 524_288
"""Letters of all page templates of a theme together."""


def problems(theme: Document) -> list[FieldError]:
    """What is wrong inside the theme: texts that are no lines of `key=text`, too much of everything."""
    return [*_message_problems(theme), *_size_problems(theme)]


def _message_problems(theme: Document) -> Iterator[FieldError]:
    texts = {"theme.defaultMessages": theme.get("defaultMessages", "")}
    texts |= {f"theme.localizedMessages.{locale}": text for locale, text in theme.get("localizedMessages", {}).items()}
    for path, text in texts.items():
        for number, line in enumerate(property_files.logical_lines(text)):
            if line and "=" not in line and ":" not in line:
                yield FieldError.of("invalid", path, f"Line {number + 1} of [{path}] is not of the form key=text.")
                break


def _size_problems(theme: Document) -> Iterator[FieldError]:
    if sum(map(len, theme.get("templates", {}).values())) > MAXIMUM_TEMPLATES:
        yield FieldError.of("tooLong", "theme.templates", "The templates of the theme are too long together.")


def texts(theme: Document, locales: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The language and the texts of a theme: those of the first locale that it has, over the default ones."""
    found = property_files.read(theme.get("defaultMessages", ""))
    localized = {_plain(locale): locale for locale in theme.get("localizedMessages", {})}
    for locale in map(_plain, locales):
        for wanted in (locale, locale.partition("_")[0]):
            if wanted in localized:
                own = localized[wanted]
                return own.replace("_", "-"), found | property_files.read(theme["localizedMessages"][own])
        if locale.partition("_")[0] == _LANGUAGE:
            break
    return _LANGUAGE, found


def default() -> Document:
    """The theme that every instance has: our own pages, with their texts to be copied."""
    lines = "".join(f"{key}={text}\n" for key, text in page_texts.TEXTS.items())
    return {"name": DEFAULT_NAME, "defaultMessages": lines}


def _plain(locale: str) -> str:
    return locale.replace("-", "_").lower()
