"""Prometheus metrics of the delivery worker; events/metrics.py has those of events, approvals and single attempts."""

from __future__ import annotations

import collections
from collections.abc import Sequence

import prometheus_client

from identity.call import Document
from identity.domain.webhooks.webhook_health import ACTIVE, DISABLED, PAUSED
from identity.store.outbox_rows import DeliveryBacklog


class DeliveryMetrics:
    """The metrics of one delivery worker."""

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
        self.held_back = _gauge(
            registry, "identity_webhooks_held_back", "Webhooks whose circuit is open in this process"
        )
        self.held = _gauge(registry, "identity_webhook_deliveries_held", "Deliveries leased by this process")
        self._due = _gauge(
            registry, "identity_webhook_deliveries_due", "Due deliveries, in all processes; 10,000 for as many or more"
        )
        self._oldest_seconds = _gauge(
            registry, "identity_webhook_oldest_due_seconds", "How long the oldest due delivery has been due"
        )
        self._waiting = _gauge(
            registry,
            "identity_webhook_deliveries_waiting",
            "Ordered deliveries behind an earlier one of their object, in all processes; 10,000 for as many or more",
        )
        self._webhooks = _gauge(registry, "identity_webhooks", "Webhooks by status, in all processes", "status")

    def set_webhooks(self, webhooks: Sequence[Document]) -> None:
        """Set the number of webhooks in each status."""
        counts = collections.Counter(webhook.get("status", ACTIVE) for webhook in webhooks)
        for status in (ACTIVE, PAUSED, DISABLED):
            self._webhooks.labels(status).set(counts[status])

    def set_backlog(self, backlog: DeliveryBacklog) -> None:
        """Set the size and the age of the backlog."""
        self._due.set(backlog.due)
        self._oldest_seconds.set(backlog.oldest_seconds)
        self._waiting.set(backlog.waiting)


def _gauge(
    registry: prometheus_client.CollectorRegistry, name: str, text: str, *labels: str
) -> prometheus_client.Gauge:
    return prometheus_client.Gauge(name, text, labels, registry=registry)
