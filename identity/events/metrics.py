"""What events and their deliveries tell Prometheus, in any process; queues are workers/delivery_metrics.py's."""

from __future__ import annotations

import prometheus_client

from identity.store.outbox_rows import DeliveryAttempt

_OUTCOMES = ("success", "failure")


class EventMetrics:
    """The counters of the bus and of the deliverer. docs/webhooks.md says which promise each of them shows."""

    def __init__(self, registry: prometheus_client.CollectorRegistry | None = None) -> None:
        """Without a registry nobody sees them: for parts that run on their own."""
        self.events = _counter(registry, "events", "Events that webhooks are to hear of, by outcome", "outcome")
        self.synchronous = _counter(
            registry, "synchronous_attempts", "Questions of transactional events, by outcome", "outcome"
        )
        self.synchronous_seconds = prometheus_client.Histogram(
            "identity_webhook_synchronous_attempt_seconds", "Duration of such a question", registry=registry
        )
        self.failures = _counter(registry, "failed_attempts", "Failed attempts of any kind, by reason", "reason")
        self.retries = _counter(registry, "retries", "Deliveries put off to another attempt")
        self.given_up = _counter(registry, "given_up", "Deliveries for which there is no further attempt")
        self.put_off = _counter(registry, "put_off", "Deliveries put off without an attempt, by reason", "reason")
        self.asked_again = _counter(registry, "asked_again", "Deliveries that somebody asked for again", "how")
        self.oversized = _counter(registry, "oversized_events", "Events with a large body, by outcome", "outcome")
        self.loops = _counter(registry, "loops", "Requests refused because deliveries would go round in circles")
        self._seed()

    def note_question(self, attempt: DeliveryAttempt) -> None:
        """A synchronous attempt was made."""
        self.synchronous.labels(_OUTCOMES[not attempt.succeeded]).inc()
        self.synchronous_seconds.observe((attempt.end_instant - attempt.start_instant) / 1000)

    def _seed(self) -> None:
        """Have what can be known before stand there as 0: an alert on what has never happened would never fire."""
        for outcome in ("recorded", "vetoed"):
            self.events.labels(outcome)
        for outcome in _OUTCOMES:
            self.synchronous.labels(outcome)
        for outcome in ("warned", "refused"):
            self.oversized.labels(outcome)
        for how in ("resend", "recover"):
            self.asked_again.labels(how)
        for reason in ("rate limit", "paused"):
            self.put_off.labels(reason)


def _counter(
    registry: prometheus_client.CollectorRegistry | None, name: str, text: str, *labels: str
) -> prometheus_client.Counter:
    return prometheus_client.Counter(f"identity_webhook_{name}", text, labels, registry=registry)
