"""Circuit breakers: deliveries to a webhook that keeps failing are suspended, except for a probe from time to time."""

from __future__ import annotations

from collections.abc import Collection
from time import monotonic

import structlog

from identity.config.sections import Webhooks
from identity.domain.webhooks.circuit_breaker import BreakerSettings, CircuitBreaker
from identity.ids import WebhookId
from identity.workers.delivery_metrics import DeliveryMetrics

_log = structlog.get_logger(__name__)


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
