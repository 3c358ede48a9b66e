"""Resolve the webhooks subscribed to an event, from cached configuration.

An event reaches a webhook if its tenant enables the type, the webhook covers the tenant, and the webhook enables the
type. Instance events have no tenant switch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from identity.background_tasks import CooperativeYield
from identity.call import Document
from identity.domain.webhooks.webhook_health import DISABLED
from identity.domain.webhooks.webhook_transactions import NONE
from identity.events.catalogue import EVENTS, EventType
from identity.ids import TenantId

_NO_WEBHOOKS: tuple[Document, ...] = ()


class SubscriptionIndex:
    """The webhooks, indexed by event type and tenant."""

    def __init__(self, webhooks: Sequence[Document] = ()) -> None:
        self.webhooks = webhooks
        self._of_instance: dict[str, list[Document]] = {}
        self._global: dict[str, list[Document]] = {}
        self._of_tenant: dict[tuple[str, str], list[Document]] = {}
        for webhook in webhooks:
            self._add_all(webhook)

    @classmethod
    async def built(cls, webhooks: Sequence[Document]) -> SubscriptionIndex:
        """Build the index without blocking the event loop, however many webhooks there are."""
        index, pace = cls(), CooperativeYield()
        for webhook in webhooks:
            index._add_all(webhook)  # its own
            await pace.step()
        index.webhooks = webhooks
        return index

    def _add_all(self, webhook: Document) -> None:
        if webhook.get("status") == DISABLED:
            return
        for name, is_enabled in webhook.get("eventsEnabled", {}).items():
            if is_enabled is True and name in EVENTS:
                self._add(EVENTS[name], webhook)

    def _add(self, event_type: EventType, webhook: Document) -> None:
        tenant_ids = webhook.get("tenantIds", [])
        if event_type.is_of_instance:
            # A webhook without any tenant is switched off, for instance events too.
            if webhook.get("global") or tenant_ids:
                self._of_instance.setdefault(event_type.name, []).append(webhook)
        elif webhook.get("global"):
            self._global.setdefault(event_type.name, []).append(webhook)
        else:
            for tenant_id in dict.fromkeys(tenant_ids):
                self._of_tenant.setdefault((event_type.name, tenant_id), []).append(webhook)

    def webhooks_for(
        self, event_type: EventType, tenant_id: TenantId | None, tenant: Mapping[str, Any]
    ) -> tuple[Document, ...]:
        """The webhooks subscribed to an event of this tenant; global webhooks first."""
        if event_type.is_of_instance:
            return tuple(self._of_instance.get(event_type.name, _NO_WEBHOOKS))
        if tenant_id is None or setting(event_type, tenant).get("enabled") is not True:
            return _NO_WEBHOOKS
        of_tenant = self._of_tenant.get((event_type.name, tenant_id), _NO_WEBHOOKS)
        return (*self._global.get(event_type.name, _NO_WEBHOOKS), *of_tenant)

    def has_any(self, tenant_id: TenantId | None, tenant: Mapping[str, Any]) -> bool:
        """Whether a webhook subscribes to any event of this tenant or of the instance."""
        return bool(self._of_instance) or any(
            self.webhooks_for(EVENTS[name], tenant_id, tenant) for name in _settings(tenant) if name in EVENTS
        )


def transaction_type(event_type: EventType, tenant: Mapping[str, Any]) -> str:
    """The approval that a tenant requires for an event: one of the five transaction types."""
    if not event_type.transactional:
        return NONE
    return str(setting(event_type, tenant).get("transactionType") or NONE)


def setting(event_type: EventType, tenant: Mapping[str, Any]) -> Mapping[str, Any]:
    """The tenant's settings of an event type; empty, which means disabled, if it has none."""
    found: Mapping[str, Any] = _settings(tenant).get(event_type.name, {})
    return found


def _settings(tenant: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = tenant.get("eventConfiguration", {}).get("events", {})
    return found
