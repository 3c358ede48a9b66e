"""The message catalogues of pages and mails: one gettext file per language, `identity/locales/<language>.po`.

The msgid of a message is its published key, such as `login.title`, with which a theme replaces it; the msgstr is its
text. `{0}` stands for a value, such as a name. `en.po` has every key; in the other files the comment of a message is
its English text.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from babel import Locale, UnknownLocaleError
from babel.dates import format_date, format_datetime
from babel.messages import pofile

from identity.domain.objects.data_files import load_yaml

SOURCE_LANGUAGE: Final = "en"

LANGUAGES: Final[Mapping[str, str]] = MappingProxyType(load_yaml(__file__, "languages.yaml"))
"""Language tag (BCP 47) -> name of the language in itself."""

FOLDER: Final = Path(__file__).parents[2] / "locales"

_BY_PRIMARY_LANGUAGE: Final = {language.partition("-")[0]: language for language in LANGUAGES}
_TRADITIONAL_CHINESE: Final = frozenset({"hant", "tw", "hk", "mo"})


@functools.cache
def texts(language: str) -> Mapping[str, str]:
    """Return the texts of a language by key; untranslated ones are missing. Raises KeyError for another language."""
    if language not in LANGUAGES:
        raise KeyError(language)
    with (FOLDER / f"{language}.po").open("rb") as file:
        catalogue = pofile.read_po(file, abort_invalid=True)
    return MappingProxyType({str(message.id): str(message.string) for message in catalogue if message.id})


def find_language(locale: str) -> str | None:
    """Return the language of LANGUAGES for a locale such as `de_CH`, `pt` or `zh-CN`, or None."""
    primary, *subtags = locale.replace("_", "-").lower().split("-")
    if primary == "zh" and _TRADITIONAL_CHINESE.intersection(subtags):
        return None
    return _BY_PRIMARY_LANGUAGE.get(primary)


def first_language(locales: Iterable[str]) -> str:
    """Return the language of the first locale that has one, else English."""
    found = map(find_language, locales)
    return next((language for language in found if language is not None), SOURCE_LANGUAGE)


@functools.lru_cache(maxsize=64)
def direction(language: str) -> str:
    """Return the direction in which a language is written: `ltr` or `rtl`."""
    try:
        return str(Locale.parse(language, sep="-").text_direction)
    except (UnknownLocaleError, ValueError):
        return "ltr"


def date(instant: int, language: str) -> str:
    """Return the date of an instant (UTC) as it is written in a language; in English for an unknown one."""
    return format_date(datetime.datetime.fromtimestamp(instant / 1000, datetime.UTC).date(), "long", _locale(language))


def _locale(language: str) -> Locale:
    try:
        return Locale.parse(language, sep="-")
    except (UnknownLocaleError, ValueError):
        return Locale.parse(SOURCE_LANGUAGE)


def date_and_time(instant: int, language: str) -> str:
    """Return an instant (UTC) as it is written in a language; in English for an unknown one."""
    moment = datetime.datetime.fromtimestamp(instant / 1000, datetime.UTC)
    return f"{format_datetime(moment, 'medium', locale=_locale(language))} UTC"


@functools.lru_cache(maxsize=64)
def name(language: str) -> str:
    """Return the name of a language in itself; an unknown one is its tag."""
    if language in LANGUAGES:
        return LANGUAGES[language]
    try:
        return Locale.parse(language, sep="-").get_display_name() or language
    except (UnknownLocaleError, ValueError):
        return language
