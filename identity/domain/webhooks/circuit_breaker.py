"""A circuit breaker for one receiver: while nearly everything fails, only a probe now and then is sent.

It holds deliveries back, it loses none: what is not sent stays due. Seconds are of a monotonic clock.
"""

from __future__ import annotations

import collections
import dataclasses

_REMEMBERED = 1000
"""How many outcomes are looked back at, at the most."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """Open when at least `failure_ratio` of at least `minimum_attempts` in `window_seconds` failed; 0 attempts: never.

    After `pause_seconds` one delivery is let through, and decides.
    """

    failure_ratio: float = 0.7
    minimum_attempts: int = 10
    window_seconds: float = 300.0
    pause_seconds: float = 30.0


class CircuitBreaker:
    """What this process knows of one receiver."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._seen: collections.deque[tuple[float, bool]] = collections.deque()
        self._failures = 0
        self._opened_at: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether deliveries are held back."""
        return self._opened_at is not None

    def note(self, now: float, *, success: bool) -> None:
        """Take the outcome of an attempt into account."""
        if self._opened_at is not None:
            self._judge_probe(now, success=success)
            return
        self._seen.append((now, success))
        self._failures += not success
        while len(self._seen) > _REMEMBERED or self._seen[0][0] <= now - self._rules.window_seconds:
            _, succeeded = self._seen.popleft()
            self._failures -= not succeeded
        if self._is_failing():
            self._opened_at = now

    def room(self, now: float, held: int) -> int | None:
        """How many more may be sent while `held` are on their way: None for any number."""
        if self._opened_at is None:
            return None
        return 0 if now < self._opened_at + self._rules.pause_seconds or held else 1

    def _judge_probe(self, now: float, *, success: bool) -> None:
        """A success closes the circuit, whichever attempt it was; a failure starts the pause anew."""
        self._seen.clear()
        self._failures = 0
        self._opened_at = None if success else now

    def _is_failing(self) -> bool:
        least = self._rules.minimum_attempts
        if not least or len(self._seen) < least:
            return False
        return self._failures >= self._rules.failure_ratio * len(self._seen)
