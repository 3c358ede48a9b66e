"""A token bucket: a rate limit with a small burst. Seconds are of a monotonic clock."""

from __future__ import annotations

_BURST_SECONDS = 0.25
_UNLIMITED = 1_000_000_000


class TokenBucket:
    """`per_second` 0 is unlimited."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._capacity = max(1.0, per_second * _BURST_SECONDS)
        self._tokens = self._capacity
        self._updated_at: float | None = None

    def available(self, now: float) -> int:
        """Return how many tokens are available."""
        if not self._per_second:
            return _UNLIMITED
        passed = 0.0 if self._updated_at is None else max(0.0, now - self._updated_at)
        self._updated_at = now
        self._tokens = min(self._capacity, self._tokens + passed * self._per_second)
        return int(self._tokens)

    def consume(self, count: int) -> None:
        """Consume tokens."""
        self._tokens -= count
