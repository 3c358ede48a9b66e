"""Rules of themes: the default theme, validation, and the texts of a theme."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from identity.call import Document
from identity.domain.configuration import page_templates, page_texts, published_messages, simple_themes, theme_images
from identity.domain.objects import catalogues, property_files
from identity.errors import FieldError

DEFAULT_ID: Final = "75a068fd-e94b-451a-9aeb-3ddb9a3b5987"
DEFAULT_NAME: Final = "FusionAuth"
"""The published name of the default theme, by which tools find it."""

FORMER_DEFAULT_NAME: Final = "Default"
"""Its name in earlier versions of the service."""

_NAMED_KEYS: Final = 10

MAXIMUM_TEMPLATES = 524_288
"""The maximum number of characters of all page templates of a theme together."""


def problems(theme: Document) -> list[FieldError]:
    """Return the errors of a theme: messages not in the form `key=text`, and templates that are too long."""
    return [
        *_message_problems(theme),
        *_size_problems(theme),
        *simple_themes.problems(theme),
        *theme_images.problems(theme),
        *page_templates.problems(theme),
    ]


def notices(theme: Document) -> list[str]:
    """Return what the pages do not show of a theme, and texts that are hard to read."""
    found = [f"The template [{name}] is not rendered." for name in sorted(theme.get("templates", {}))]
    if found:
        found.insert(
            0, "FreeMarker templates are stored, not rendered: the service renders Jinja templates, see docs/email.md."
        )
    found += [
        f"The image [{path}] is not shown: pages load uploaded images only, as data: URLs."
        for path, url in theme_images.urls(theme).values()
        if not theme_images.is_uploaded(url)
    ]
    found += _unused_notice(unused_messages(theme))
    return [*found, *page_templates.notices(theme), *simple_themes.contrast_problems(theme)]


def unused_messages(theme: Document) -> list[str]:
    """Return the keys of the messages of a theme that no page shows, sorted."""
    found: set[str] = set()
    for text in (theme.get("defaultMessages", ""), *theme.get("localizedMessages", {}).values()):
        found.update(published_messages.unused_keys(property_files.read(text)))
    return sorted(found - page_templates.text_keys(theme)) if found else []


def _unused_notice(keys: Sequence[str]) -> Iterator[str]:
    """Return a sentence about messages that no page shows, with the first of their keys."""
    if keys:
        named = ", ".join(f"[{key}]" for key in keys[:_NAMED_KEYS])
        more = "; check-config lists all of them" if len(keys) > _NAMED_KEYS else ""
        yield f"No page shows {len(keys)} messages of the theme: {named}{more}."


def stylesheet(theme: Document) -> str:
    """Return the stylesheet of a theme: that of its variables, then its own."""
    return simple_themes.stylesheet(theme) + str(theme.get("stylesheet", ""))


def _message_problems(theme: Document) -> Iterator[FieldError]:
    texts = {"theme.defaultMessages": theme.get("defaultMessages", "")}
    texts |= {f"theme.localizedMessages.{locale}": text for locale, text in theme.get("localizedMessages", {}).items()}
    for path, text in texts.items():
        for number, line in enumerate(property_files.logical_lines(text)):
            if line and "=" not in line and ":" not in line:
                yield FieldError.of("invalid", path, f"Line {number + 1} of [{path}] is not of the form key=text.")
                break


def _size_problems(theme: Document) -> Iterator[FieldError]:
    for member in ("templates", "pageTemplates"):
        if sum(map(len, theme.get(member, {}).values())) > MAXIMUM_TEMPLATES:
            message = "The templates of the theme exceed the maximum length together."
            yield FieldError.of("tooLong", f"theme.{member}", message)


def resolve_texts(theme: Document, locales: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the language of a page and the texts with which the theme replaces those of the catalogue.

    The language is that of the first locale in which the theme has messages or the service has a catalogue. Default
    messages that repeat the built-in English text replace nothing, so that a copy of the default theme is translated.
    """
    own, language = _choose_language(theme, locales)
    found = dict(published_messages.read(theme.get("defaultMessages", ""), is_default=True))
    if own is not None:
        found |= published_messages.read(theme["localizedMessages"][own])
    return language, found


def languages(theme: Document | None) -> tuple[str, ...]:
    """Return the languages that pages can be shown in: those of the catalogues, and further ones of the theme."""
    own = () if theme is None else (_tag(locale) for locale in theme.get("localizedMessages", {}))
    return tuple(sorted({*catalogues.LANGUAGES, *(tag for tag in own if catalogues.find_language(tag) is None)}))


def _choose_language(theme: Document, locales: Sequence[str]) -> tuple[str | None, str]:
    """Return the key of the theme's localized messages, or None, and the language."""
    localized = {_normalize(locale): locale for locale in theme.get("localizedMessages", {})}
    for locale in map(_normalize, locales):
        for candidate in (locale, locale.partition("_")[0]):
            if candidate in localized:
                return localized[candidate], _tag(localized[candidate])
        if (language := catalogues.find_language(locale)) is not None:
            return localized.get(_normalize(language)), language
    return localized.get(catalogues.SOURCE_LANGUAGE), catalogues.SOURCE_LANGUAGE


def _tag(locale: str) -> str:
    return locale.replace("_", "-")


def default_theme() -> Document:
    """Return the default theme, whose messages are the English texts of the built-in pages."""
    lines = "".join(f"{key}={text}\n" for key, text in page_texts.TEXTS.items())
    return {"name": DEFAULT_NAME, "defaultMessages": lines}


def _normalize(locale: str) -> str:
    return locale.replace("-", "_").lower()
