"""What follows an attempt: nothing after a success, a retry by the schedule, or giving up."""

from __future__ import annotations

import random

import structlog

from identity.config.sections import Webhooks
from identity.domain.webhooks.retry_schedule import RetrySchedule
from identity.domain.webhooks.webhook_health import GONE
from identity.events.delivery import AttemptResult
from identity.events.metrics import EventMetrics
from identity.store.outbox_rows import DeliveryLease, DeliveryOutcome

_log = structlog.get_logger(__name__)

_RANDOM = random.SystemRandom()


class DeliveryRetries:
    """Decides about retries and counts them."""

    def __init__(self, settings: Webhooks, metrics: EventMetrics) -> None:
        self._schedule = RetrySchedule(settings.schedule, settings.jitter, settings.is_published)
        self._metrics = metrics

    def outcome(self, lease: DeliveryLease, result: AttemptResult) -> DeliveryOutcome:
        """The outcome of an attempt, with the instant of the next one; a 410 (Gone) is never retried."""
        attempt = result.attempt
        if attempt.succeeded:
            return DeliveryOutcome(lease, attempt, None)
        if attempt.status == GONE:
            self._metrics.given_up.inc()
            return DeliveryOutcome(lease, attempt, None)
        due = self._schedule.next_attempt(
            attempt.end_instant, lease.attempts + 1, _RANDOM.random(), at_least_seconds=result.wait_seconds
        )
        (self._metrics.given_up if due is None else self._metrics.retries).inc()
        if due is None:
            _log.error(
                "delivery given up",
                event_id=lease.event_id,
                webhook_id=lease.webhook_id,
                attempts=lease.attempts + 1,
                reason=attempt.exception or f"status {attempt.status}",
            )
        return DeliveryOutcome(lease, attempt, due)
