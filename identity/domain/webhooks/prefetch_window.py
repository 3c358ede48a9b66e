"""How much work for one receiver is worth having at hand, by how fast it takes what it gets.

Seconds are of a monotonic clock.
"""

from __future__ import annotations

import math

_MEMORY_SECONDS = 1.0
_AHEAD_SECONDS = 0.5
_MOST_AHEAD_SECONDS = 5.0
_AHEAD_OF_TAKING = 3
_LEAST_ROUNDS = 2
_MOST_ROUNDS = 20
"""Rounds are as many as may be under way at a time; what is at hand comes late from a process that dies."""


class Ahead:
    """For how long the work at hand should last: longer than it takes to do it, write that down and get more.

    That takes long where the process has much else to do, or MongoDB has; and a receiver that is quick would wait.
    """

    def __init__(self) -> None:
        self._taking_seconds = 0.0

    def note(self, taking_seconds: float) -> None:
        """Getting more took so long this time; of what was before, half counts."""
        self._taking_seconds = (self._taking_seconds + taking_seconds) / 2

    @property
    def seconds(self) -> float:
        """Some rounds of getting more, within reason."""
        return min(max(_AHEAD_SECONDS, _AHEAD_OF_TAKING * self._taking_seconds), _MOST_AHEAD_SECONDS)


class PrefetchWindow:
    """What one receiver took lately, and what follows from it."""

    def __init__(self, concurrency: int, most: int) -> None:
        """`concurrency`: how many may be under way to it at a time; `most`: at hand, so that others have room, too."""
        self._least = _LEAST_ROUNDS * concurrency
        self._most = max(self._least, min(_MOST_ROUNDS * concurrency, most))
        self._taken = 0.0
        self._noted_at = 0.0

    def note(self, now: float) -> None:
        """One more is done, whatever came of it."""
        self._taken = self._lately(now) + 1
        self._noted_at = now

    def room(self, now: float, held: int, ahead_seconds: float = _AHEAD_SECONDS) -> int:
        """How many more to take while `held` are at hand: none before half is done, so that asking is worth it."""
        wanted = min(max(self._least, round(self._lately(now) * ahead_seconds / _MEMORY_SECONDS)), self._most)
        return wanted - held if 2 * held <= wanted else 0

    def _lately(self, now: float) -> float:
        """How many were done in about the last second: the older, the less one counts."""
        return self._taken * math.exp((self._noted_at - now) / _MEMORY_SECONDS)
