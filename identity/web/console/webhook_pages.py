"""Pages of a webhook: send a test event whose body can be edited, and why it does not receive an event."""

from __future__ import annotations

import json
from typing import Any, Final

from identity.call import Call, Document
from identity.domain.webhooks import webhook_samples
from identity.events.catalogue import ALIASES, EVENTS, EventType
from identity.ids import parse_id
from identity.operations.webhooks import webhook_deliveries, webhook_gates
from identity.operations.webhooks.webhook_gates import Gate
from identity.web.base_handlers import Route
from identity.web.console import layouts
from identity.web.console.resource_handlers import ResourceHandler
from identity.web.console.snippets import ApiCall
from identity.web.endpoint import Access, Reply, Tenancy, endpoint

_DEFAULT: Final = "user.create"
_TYPES: Final = (webhook_samples.TEST, *EVENTS)


class WebhookHandler(ResourceHandler):
    """A page of a webhook."""

    slug = "webhooks"
    section = "webhooks"


class TestHandler(WebhookHandler):
    """`/admin/webhooks/<id>/test`."""

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call, object_id: str) -> Reply:
        """Show the form with an example of the chosen type."""
        document = await self.load(object_id)
        chosen = self.parameter("type", _DEFAULT)
        event = webhook_deliveries.sample(chosen if chosen in _TYPES else _DEFAULT, call.now)
        return self.test_page(document, json.dumps(event, indent=2, ensure_ascii=False))

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def post(self, call: Call, object_id: str) -> Reply:
        """Send the event, and show the response of the receiver."""
        document, text = await self.load(object_id), self.field("event")
        try:
            event = json.loads(text)
        except (ValueError, RecursionError) as error:
            return self.test_page(document, text, general=[f"This is not JSON: {error}."])
        response = await self.call_api("POST", f"/api/webhook/{object_id}/test", body={"event": event})
        if response.is_success:
            return self.test_page(document, text, result=response.json()["webhookAttemptLog"])
        if response.status == 401:
            return self.api_error_page(response)
        errors = response.json().get("fieldErrors", {}).values()
        return self.test_page(document, text, general=[error["message"] for found in errors for error in found])

    def test_page(self, document: Document, text: str, **values: Any) -> Reply:
        """Return the page."""
        return self.object_page(
            "webhook_test.html",
            document,
            "Test",
            400 if values.get("general") else 200,
            text=text,
            types=_TYPES,
            is_permitted=self.may("POST", "/api/webhook"),
            **{"general": (), "result": None, **values},
        )


class WhyHandler(WebhookHandler):
    """`/admin/webhooks/<id>/why`."""

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call, object_id: str) -> Reply:
        """Show the form, and the gates for what was submitted."""
        document = await self.load(object_id)
        wanted, tenant_id = self.parameter("event").strip(), self.parameter("tenantId")
        message, gates = await self.explanation(document, wanted, tenant_id) if wanted else ("", [])
        return self.object_page(
            "webhook_why.html",
            document,
            "Why not?",
            wanted=wanted,
            tenant_id=tenant_id,
            tenants=await self.choices(layouts.load("tenants")),
            types=tuple(EVENTS),
            message=message,
            gates=gates,
            api_call=ApiCall("GET", self.item_path(object_id)),
        )

    async def explanation(self, document: Document, wanted: str, tenant_id: str) -> tuple[str, list[Gate]]:
        """Return a message, and the gates for an event type or the id of an event."""
        event: Document | None = None
        if (event_id := parse_id(wanted)) is not None:
            event = (await self.find_json(f"/api/system/webhook-event-log/{event_id}")).get("webhookEventLog")
            if event is None:
                message = "The log has no such event. Events are logged only if a webhook subscribed to them."
                return message, []
            wanted, tenant_id = event["eventType"], event["event"]["event"].get("tenantId", "")
        event_type = EVENTS.get(ALIASES.get(wanted, wanted))
        if event_type is None:
            return "There is no such event type.", []
        tenant = await self.tenant(event_type, tenant_id)
        if tenant is None and not event_type.is_of_instance:
            return "Choose the tenant of the event.", []
        gates = list(webhook_gates.of_type(document, event_type, tenant))
        return "", gates if event is None else [*gates, *webhook_gates.of_event(document, event)]

    async def tenant(self, event_type: EventType, tenant_id: str) -> Document | None:
        """Return the tenant of an event; None for an event of the instance."""
        if event_type.is_of_instance or parse_id(tenant_id) is None:
            return None
        found: Document | None = (await self.find_json(f"/api/tenant/{tenant_id}")).get("tenant")
        return found


ROUTES = [
    Route("/admin/webhooks/{object_id}/test", TestHandler),
    Route("/admin/webhooks/{object_id}/why", WhyHandler),
]
