"""Prefetch window per webhook: how many deliveries to hold, sized from its recent throughput.

Times are seconds of a monotonic clock.
"""

from __future__ import annotations

import math

_AVERAGE_SECONDS = 1.0
_MIN_HORIZON_SECONDS = 0.5
_MAX_HORIZON_SECONDS = 5.0
_LEASES_AHEAD = 3
_MIN_ROUNDS = 2
_MAX_ROUNDS = 20
"""Limits in multiples of the concurrency: deliveries held by a process that dies arrive late."""


class PrefetchHorizon:
    """How long the held deliveries should last: several times as long as a lease query takes.

    A slow query (a busy process or a busy MongoDB) would otherwise leave fast receivers idle.
    """

    def __init__(self) -> None:
        self._lease_seconds = 0.0

    def note(self, lease_seconds: float) -> None:
        """Record the duration of a lease query in the moving average (weight one half)."""
        self._lease_seconds = (self._lease_seconds + lease_seconds) / 2

    @property
    def seconds(self) -> float:
        """The horizon, within its limits."""
        return min(max(_MIN_HORIZON_SECONDS, _LEASES_AHEAD * self._lease_seconds), _MAX_HORIZON_SECONDS)


class PrefetchWindow:
    """The recent throughput of one webhook and the window that follows from it."""

    def __init__(self, concurrency: int, maximum: int) -> None:
        """`concurrency`: concurrent requests to the webhook; `maximum`: held deliveries, to leave room for others."""
        self._minimum = _MIN_ROUNDS * concurrency
        self._maximum = max(self._minimum, min(_MAX_ROUNDS * concurrency, maximum))
        self._rate = 0.0
        self._noted_at = 0.0

    def note(self, now: float) -> None:
        """Record a finished attempt, whatever its outcome."""
        self._rate = self._current_rate(now) + 1
        self._noted_at = now

    def room(self, now: float, held: int, horizon_seconds: float = _MIN_HORIZON_SECONDS) -> int:
        """How many more to lease while `held` are held; 0 until half of the window is free, to lease in batches."""
        window = round(self._current_rate(now) * horizon_seconds / _AVERAGE_SECONDS)
        window = min(max(self._minimum, window), self._maximum)
        return window - held if 2 * held <= window else 0

    def _current_rate(self, now: float) -> float:
        """Attempts per second, as an exponentially decaying average."""
        return self._rate * math.exp((self._noted_at - now) / _AVERAGE_SECONDS)
