"""Prometheus metrics of events and attempts, in every process; workers/delivery_metrics.py has those of the queues."""

from __future__ import annotations

import prometheus_client

from identity.store.outbox_rows import DeliveryAttempt

_OUTCOMES = ("success", "failure")


class EventMetrics:
    """The counters of the bus and of the deliverer. docs/webhooks.md describes which promise each of them verifies."""

    def __init__(self, registry: prometheus_client.CollectorRegistry | None = None) -> None:
        """Without a registry the metrics are counted but not exported."""
        self.events = _counter(registry, "events", "Events with subscribed webhooks, by outcome", "outcome")
        self.approval_requests = _counter(
            registry, "synchronous_attempts", "Approval requests of transactional events, by outcome", "outcome"
        )
        self.approval_request_seconds = prometheus_client.Histogram(
            "identity_webhook_synchronous_attempt_seconds", "Duration of an approval request", registry=registry
        )
        self.failures = _counter(registry, "failed_attempts", "Failed attempts of any kind, by reason", "reason")
        self.retries = _counter(registry, "retries", "Deliveries scheduled for another attempt")
        self.given_up = _counter(registry, "given_up", "Deliveries for which there is no further attempt")
        self.postponed = _counter(registry, "put_off", "Deliveries postponed without an attempt, by reason", "reason")
        self.redeliveries = _counter(registry, "asked_again", "Deliveries requested again through the API", "how")
        self.oversized = _counter(registry, "oversized_events", "Events with a large body, by outcome", "outcome")
        self.loops = _counter(registry, "loops", "Requests refused because of a delivery loop")
        self._initialize()

    def observe_approval_request(self, attempt: DeliveryAttempt) -> None:
        """Count an approval request."""
        self.approval_requests.labels(_OUTCOMES[not attempt.succeeded]).inc()
        self.approval_request_seconds.observe((attempt.end_instant - attempt.start_instant) / 1000)

    def _initialize(self) -> None:
        """Export known label values as 0: alerts on a series that does not exist never fire."""
        for outcome in ("recorded", "vetoed"):
            self.events.labels(outcome)
        for outcome in _OUTCOMES:
            self.approval_requests.labels(outcome)
        for outcome in ("warned", "refused"):
            self.oversized.labels(outcome)
        for how in ("resend", "recover"):
            self.redeliveries.labels(how)
        for reason in ("rate limit", "paused"):
            self.postponed.labels(reason)


def _counter(
    registry: prometheus_client.CollectorRegistry | None, name: str, text: str, *labels: str
) -> prometheus_client.Counter:
    return prometheus_client.Counter(f"identity_webhook_{name}", text, labels, registry=registry)
