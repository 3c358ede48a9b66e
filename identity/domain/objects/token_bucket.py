"""How much may be done in a second, with a little saved for later. Seconds are of a monotonic clock."""

from __future__ import annotations

_SAVED_SECONDS = 0.25
_ANY = 1_000_000_000


class TokenBucket:
    """So many a second; 0 for any number."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._most = max(1.0, per_second * _SAVED_SECONDS)
        self._left = self._most
        self._at: float | None = None

    def room(self, now: float) -> int:
        """How many may be done now."""
        if not self._per_second:
            return _ANY
        passed = 0.0 if self._at is None else max(0.0, now - self._at)
        self._at = now
        self._left = min(self._most, self._left + passed * self._per_second)
        return int(self._left)

    def use(self, count: int) -> None:
        """So many are done."""
        self._left -= count
