"""Why a webhook does or does not receive an event: the gates in the order in which routing evaluates them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from identity.call import Document
from identity.domain.webhooks.webhook_health import DISABLED, PAUSED
from identity.events import subscriptions
from identity.events.catalogue import EventType


@dataclasses.dataclass(frozen=True, slots=True)
class Gate:
    """A condition of the delivery: its name, whether it is met, and what to change. `is_held`: delivered later."""

    name: str
    is_open: bool
    explanation: str
    is_held: bool = False


def of_type(webhook: Document, event_type: EventType, tenant: Document | None) -> Iterator[Gate]:
    """Yield the gates of an event that happens now; `tenant` is None for an event of the instance."""
    name, is_global, tenant_ids = event_type.name, webhook.get("global"), webhook.get("tenantIds", [])
    if tenant is None:
        yield Gate("Scope", bool(is_global or tenant_ids), "The webhook must be for all tenants or at least one.")
    else:
        is_enabled = subscriptions.setting(event_type, tenant).get("enabled") is True
        yield Gate("Event switch of the tenant", is_enabled, f"The tenant {tenant['name']} must enable {name}.")
        covers = bool(is_global) or tenant["id"] in tenant_ids
        yield Gate("Tenants of the webhook", covers, f"The webhook must be for all tenants or name {tenant['name']}.")
    is_subscribed = webhook.get("eventsEnabled", {}).get(name) is True
    yield Gate("Event switch of the webhook", is_subscribed, f"The webhook must enable {name}.")
    yield Gate("Not disabled", webhook.get("status") != DISABLED, "A disabled webhook receives no events.")
    is_paused = webhook.get("status") == PAUSED
    yield Gate("Not paused", not is_paused, "Deliveries to a paused webhook are kept until it is resumed.", is_paused)


def of_event(webhook: Document, event: Mapping[str, Any]) -> Iterator[Gate]:
    """Yield the gates of an event of the webhook event log: whether it was routed to the webhook, and the result."""
    yield Gate(
        "Webhook existed",
        webhook["insertInstant"] <= event["insertInstant"],
        "The webhook was created after the event. Send the event again to deliver it.",
    )
    attempts = [attempt for attempt in event["attempts"] if attempt["webhookId"] == webhook["id"]]
    yield Gate(
        "Attempted",
        bool(attempts),
        "No request was sent to the webhook: a gate above was closed when the event happened, or the delivery waits.",
    )
    if attempts:
        response = attempts[-1]["webhookCallResponse"]
        reason = response.get("exception") or f"the receiver answered with the status {response['statusCode']}"
        yield Gate(
            "Delivered",
            any(attempt["attemptResult"] == "Success" for attempt in attempts),
            f"Attempt {len(attempts)} failed: {reason}.",
        )
