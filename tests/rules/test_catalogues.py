"""The message catalogues: every language has every text, of the current English one, and every text has a use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel.messages import pofile
from babel.messages.catalog import Message

from identity.domain.objects import catalogues
from identity.domain.objects.catalogues import FOLDER, LANGUAGES, SOURCE_LANGUAGE

TRANSLATIONS = sorted(set(LANGUAGES) - {SOURCE_LANGUAGE})

_PLACEHOLDER = re.compile(r"\{[^}]*\}")
_WORD = re.compile(r"[\w-]+")


def messages(language: str) -> dict[str, Message]:
    with (FOLDER / f"{language}.po").open("rb") as file:
        return {str(message.id): message for message in pofile.read_po(file, abort_invalid=True) if message.id}


def sources() -> Iterator[str]:
    for suffix in ("py", "html", "js", "yaml"):
        for path in FOLDER.parent.rglob(f"*.{suffix}"):
            yield Path(path).read_text()


def test_every_language_has_one_catalogue() -> None:
    assert {path.stem for path in FOLDER.glob("*.po")} == set(LANGUAGES)


@pytest.mark.parametrize("language", TRANSLATIONS)
def test_translation_is_complete(language: str) -> None:
    """If this fails, add the listed messages to identity/locales/<language>.po, or remove those that English lacks."""
    english, translated = messages(SOURCE_LANGUAGE), messages(language)
    assert sorted(set(english) - set(translated)) == []
    assert sorted(set(translated) - set(english)) == []
    assert [key for key, message in translated.items() if not str(message.string).strip()] == []


@pytest.mark.parametrize("language", TRANSLATIONS)
def test_translation_is_of_the_current_english_text(language: str) -> None:
    """The comment of each message is the English text that was translated."""
    english = messages(SOURCE_LANGUAGE)
    outdated = [
        key for key, message in messages(language).items() if " ".join(message.auto_comments) != english[key].string
    ]
    assert outdated == []


@pytest.mark.parametrize("language", TRANSLATIONS)
def test_translation_has_the_same_placeholders(language: str) -> None:
    english, translated = catalogues.texts(SOURCE_LANGUAGE), catalogues.texts(language)
    different = [
        key for key in translated if _PLACEHOLDER.findall(translated[key]) != _PLACEHOLDER.findall(english[key])
    ]
    assert different == []


def test_every_message_is_used() -> None:
    """By its key or, where a page composes keys of a page and a part or a code and a field, by each word of it."""
    text = "\n".join(sources()).lower()
    words = set(_WORD.findall(text))
    unused = [key for key in messages(SOURCE_LANGUAGE) if not words.issuperset(_WORD.findall(key.lower()))]
    assert unused == []
