"""Circuit breakers: deliveries to a webhook that keeps failing are suspended, except for a probe from time to time.

Deliveries are delayed, never lost: what is not sent stays due. Times are seconds of a monotonic clock.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection
from time import monotonic

import structlog

from identity.config.sections import Webhooks
from identity.ids import WebhookId
from identity.workers.delivery_metrics import DeliveryMetrics

_log = structlog.get_logger(__name__)


_MAX_OUTCOMES = 1000
"""The number of recent outcomes considered."""


@dataclasses.dataclass(frozen=True, slots=True)
class BreakerSettings:
    """Open once `failure_ratio` of at least `minimum_attempts` in `window_seconds` failed; 0 attempts: never.

    After `pause_seconds` one delivery is sent as a probe. Its outcome closes the circuit or restarts the pause.
    """

    failure_ratio: float = 0.7
    minimum_attempts: int = 10
    window_seconds: float = 300.0
    pause_seconds: float = 30.0


class CircuitBreaker:
    """The circuit breaker of one webhook in this process."""

    def __init__(self, settings: BreakerSettings) -> None:
        self._settings = settings
        self._outcomes: collections.deque[tuple[float, bool]] = collections.deque()
        self._failures = 0
        self._opened_at: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether deliveries are suspended."""
        return self._opened_at is not None

    def note(self, now: float, *, success: bool) -> None:
        """Record the outcome of an attempt."""
        if self._opened_at is not None:
            self._note_probe(now, success=success)
            return
        self._outcomes.append((now, success))
        self._failures += not success
        while len(self._outcomes) > _MAX_OUTCOMES or self._outcomes[0][0] <= now - self._settings.window_seconds:
            _, succeeded = self._outcomes.popleft()
            self._failures -= not succeeded
        if self._is_failing():
            self._opened_at = now

    def room(self, now: float, held: int) -> int | None:
        """How many more deliveries may be sent while `held` are in progress; None for no limit."""
        if self._opened_at is None:
            return None
        return 0 if now < self._opened_at + self._settings.pause_seconds or held else 1

    def _note_probe(self, now: float, *, success: bool) -> None:
        """A success closes the circuit, whichever attempt it was; a failure restarts the pause."""
        self._outcomes.clear()
        self._failures = 0
        self._opened_at = None if success else now

    def _is_failing(self) -> bool:
        minimum = self._settings.minimum_attempts
        if not minimum or len(self._outcomes) < minimum:
            return False
        return self._failures >= self._settings.failure_ratio * len(self._outcomes)


class CircuitBreakers:
    """The circuit breakers of this process, by webhook."""

    def __init__(self, settings: Webhooks, metrics: DeliveryMetrics) -> None:
        self._settings = BreakerSettings(
            settings.breaker_failure_ratio,
            settings.breaker_minimum_attempts,
            settings.breaker_window_seconds,
            settings.breaker_pause_seconds,
        )
        self._metrics = metrics
        self._by_id: dict[str, CircuitBreaker] = {}

    def note(self, webhook_id: WebhookId, *, success: bool) -> None:
        """Record the outcome of an attempt."""
        breaker = self._by_id.setdefault(webhook_id, CircuitBreaker(self._settings))
        was_open = breaker.is_open
        breaker.note(monotonic(), success=success)
        if breaker.is_open != was_open:
            _log.warning("webhook held back" if breaker.is_open else "webhook answers again", webhook_id=webhook_id)
            self._count()

    def room(self, webhook_id: WebhookId, held: int) -> int | None:
        """How many more deliveries may be leased while `held` are held; None for no limit."""
        breaker = self._by_id.get(webhook_id)
        return None if breaker is None else breaker.room(monotonic(), held)

    def keep(self, webhook_ids: Collection[str]) -> None:
        """Discard the circuit breakers of all other webhooks."""
        self._by_id = {key: breaker for key, breaker in self._by_id.items() if key in webhook_ids}
        self._count()

    def _count(self) -> None:
        self._metrics.held_back.set(sum(each.is_open for each in self._by_id.values()))
