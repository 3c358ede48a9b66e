"""Who hears of an event: the three gates, evaluated from the configuration in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from identity.background_tasks import CooperativeYield
from identity.call import Document
from identity.domain.webhooks.webhook_health import DISABLED
from identity.domain.webhooks.webhook_transactions import NONE
from identity.events.catalogue import EVENTS, EventType
from identity.ids import TenantId

_NOBODY: tuple[Document, ...] = ()


class SubscriptionIndex:
    """The webhooks, indexed by event type and tenant (gates 2 and 3: the webhook's scope and its own switches)."""

    def __init__(self, webhooks: Sequence[Document] = ()) -> None:
        self.webhooks = webhooks
        self._of_instance: dict[str, list[Document]] = {}
        self._global: dict[str, list[Document]] = {}
        self._of_tenant: dict[tuple[str, str], list[Document]] = {}
        for webhook in webhooks:
            self._add_all(webhook)

    @classmethod
    async def built(cls, webhooks: Sequence[Document]) -> SubscriptionIndex:
        """The routes to these webhooks; others go on in between, however many there are."""
        routes, pace = cls(), CooperativeYield()
        for webhook in webhooks:
            routes._add_all(webhook)  # its own
            await pace.step()
        routes.webhooks = webhooks
        return routes

    def _add_all(self, webhook: Document) -> None:
        if webhook.get("status") == DISABLED:
            return
        for name, is_on in webhook.get("eventsEnabled", {}).items():
            if is_on is True and name in EVENTS:
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

    def to(self, event_type: EventType, tenant_id: TenantId | None, tenant: Mapping[str, Any]) -> tuple[Document, ...]:
        """The webhooks that shall hear of an event (gate 1, the tenant's switch, stands before the others)."""
        if event_type.is_of_instance:
            return tuple(self._of_instance.get(event_type.name, _NOBODY))
        if tenant_id is None or setting(event_type, tenant).get("enabled") is not True:
            return _NOBODY
        own = self._of_tenant.get((event_type.name, tenant_id), _NOBODY)
        return (*self._global.get(event_type.name, _NOBODY), *own)

    def are_open(self, tenant_id: TenantId | None, tenant: Mapping[str, Any]) -> bool:
        """Whether any event at all of this tenant, or of the instance, would reach a webhook now."""
        return bool(self._of_instance) or any(
            self.to(EVENTS[name], tenant_id, tenant) for name in _settings(tenant) if name in EVENTS
        )


def transaction_type(event_type: EventType, tenant: Mapping[str, Any]) -> str:
    """How many webhooks must agree to an event of this tenant: one of the five transaction types."""
    if not event_type.transactional:
        return NONE
    return str(setting(event_type, tenant).get("transactionType") or NONE)


def setting(event_type: EventType, tenant: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the tenant says about an event type; nothing said is switched off."""
    found: Mapping[str, Any] = _settings(tenant).get(event_type.name, {})
    return found


def _settings(tenant: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = tenant.get("eventConfiguration", {}).get("events", {})
    return found
