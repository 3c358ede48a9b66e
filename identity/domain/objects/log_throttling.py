"""Silence after a word: something that fails again and again is told once in a while, with how often it was not."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable

from identity.instants import Instant, later

_REMEMBERED = 10_000


@dataclasses.dataclass(slots=True)
class _Silence:
    until: Instant
    kept_back: int = 0


class LogThrottle:
    """What was told lately, by subject, in one process."""

    def __init__(self, seconds: float) -> None:
        """`seconds` is how long after a word nothing more is told of the same subject."""
        self._seconds = seconds
        self._silences: dict[Hashable, _Silence] = {}

    def kept_back(self, subject: Hashable, now: Instant) -> int | None:
        """How many words of the subject were kept back before this one; None when this one is kept back as well."""
        silence = self._silences.get(subject)
        if silence is not None and now < silence.until:
            silence.kept_back += 1
            return None
        if len(self._silences) >= _REMEMBERED:
            self._silences.clear()
        self._silences[subject] = _Silence(later(now, seconds=self._seconds))
        return 0 if silence is None else silence.kept_back
