"""Durations in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

_UNITS: Final = (86_400, 3600, 60, 1)

_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "de": ("Tag|Tage", "Stunde|Stunden", "Minute|Minuten", "Sekunde|Sekunden"),
    "en": ("day|days", "hour|hours", "minute|minutes", "second|seconds"),
    "es": ("día|días", "hora|horas", "minuto|minutos", "segundo|segundos"),
    "fr": ("jour|jours", "heure|heures", "minute|minutes", "seconde|secondes"),
    "it": ("giorno|giorni", "ora|ore", "minuto|minuti", "secondo|secondi"),
    "nl": ("dag|dagen", "uur|uur", "minuut|minuten", "seconde|seconden"),
    "pt": ("dia|dias", "hora|horas", "minuto|minutos", "segundo|segundos"),
}
"""The singular and plural of each unit, by language."""


def localized(milliseconds: int, languages: Iterable[str]) -> str:
    """Return a duration in its two largest units, such as `1 day 2 hours`, in the first known language, or English."""
    known = (language.replace("-", "_").partition("_")[0].lower() for language in languages)
    words = _WORDS[next((language for language in known if language in _WORDS), "en")]
    parts, rest = [], max(1, round(milliseconds / 1000))
    for seconds, both in zip(_UNITS, words, strict=True):
        count, rest = divmod(rest, seconds)
        if count:
            singular, plural = both.split("|")
            parts.append(f"{count} {singular if count == 1 else plural}")
    return " ".join(parts[:2])
