"""What the delivery loop tells Prometheus; events, questions and single attempts are events/metrics.py's."""

from __future__ import annotations

import collections
from collections.abc import Sequence

import prometheus_client

from identity.call import Document
from identity.domain.webhooks.webhook_health import ACTIVE, DISABLED, PAUSED


class DeliveryMetrics:
    """What delivery tells Prometheus."""

    def __init__(self, registry: prometheus_client.CollectorRegistry) -> None:
        self.attempts = prometheus_client.Counter(
            "identity_webhook_attempts", "Background attempts by outcome", ["outcome"], registry=registry
        )
        self.seconds = prometheus_client.Histogram(
            "identity_webhook_attempt_seconds", "Duration of an attempt", registry=registry
        )
        self.wait_seconds = prometheus_client.Histogram(
            "identity_webhook_first_attempt_delay_seconds", "From an event to its first attempt", registry=registry
        )
        self.held = prometheus_client.Gauge(
            "identity_webhook_deliveries_held", "Deliveries leased by this process", registry=registry
        )
        self.due = prometheus_client.Gauge(
            "identity_webhook_deliveries_due",
            "Deliveries whose time has come, in all processes; 10,000 where there are as many or more",
            registry=registry,
        )
        self.held_back = prometheus_client.Gauge(
            "identity_webhooks_held_back", "Webhooks whose circuit is open in this process", registry=registry
        )
        self.oldest_seconds = prometheus_client.Gauge(
            "identity_webhook_oldest_due_seconds", "How long the oldest due delivery has been due", registry=registry
        )
        self.waiting = prometheus_client.Gauge(
            "identity_webhook_deliveries_waiting",
            "Deliveries that wait for an earlier one about their object, in all processes; 10,000 for as many or more",
            registry=registry,
        )
        self.webhooks = prometheus_client.Gauge(
            "identity_webhooks", "Webhooks by status, in all processes", ["status"], registry=registry
        )

    def note_states(self, webhooks: Sequence[Document]) -> None:
        """How many webhooks there are in each state."""
        counts = collections.Counter(webhook.get("status", ACTIVE) for webhook in webhooks)
        for status in (ACTIVE, PAUSED, DISABLED):
            self.webhooks.labels(status).set(counts[status])
