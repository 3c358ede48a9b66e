"""/api/system/webhook-event-log and /api/system/webhook-attempt-log."""

from __future__ import annotations

from identity.call import Call, Document
from identity.operations.webhooks import webhook_event_logs as operations
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Query, Reply, endpoint

_CRITERIA: Query = {
    "end": "instant",
    "event": "text",
    "eventResult": "text",
    "eventType": "text",
    "numberOfResults": "integer",
    "orderBy": "text",
    "start": "instant",
    "startRow": "integer",
}


class EventLogHandler(ApiHandler):
    """A sent event."""

    @endpoint(access=Access.API_KEY, answer="api/webhook-event-log.json")
    async def get(self, call: Call, webhook_event_log_id: str) -> Reply:
        """Retrieve the event with its delivery attempts."""
        return Reply({"webhookEventLog": await operations.retrieve(self.services, webhook_event_log_id)})


class AttemptLogHandler(ApiHandler):
    """A delivery attempt."""

    @endpoint(access=Access.API_KEY, answer="api/webhook-attempt-log.json")
    async def get(self, call: Call, webhook_attempt_log_id: str) -> Reply:
        """Retrieve the attempt."""
        return Reply({"webhookAttemptLog": await operations.retrieve_attempt(self.services, webhook_attempt_log_id)})


class EventLogSearchHandler(ApiHandler):
    """Search of sent events, by query or by body, with the same names."""

    @endpoint(access=Access.API_KEY, query=_CRITERIA, answer="api/webhook-event-log-search.response.json")
    async def get(self, call: Call) -> Reply:
        """Search by query parameters."""
        return await self.found(call, self.query(), "")

    @endpoint(
        access=Access.API_KEY,
        body="api/webhook-event-log-search.request.json",
        answer="api/webhook-event-log-search.response.json",
    )
    async def post(self, call: Call, body: Document) -> Reply:
        """Search by a JSON body."""
        return await self.found(call, body["search"], "search.")

    async def found(self, call: Call, criteria: Document, prefix: str) -> Reply:
        """Search by criteria."""
        total, events = await operations.search(self.services, call, criteria, prefix)
        return Reply({"total": total, "webhookEventLogs": events})


ROUTES = [
    Route("/api/system/webhook-event-log/search", EventLogSearchHandler),
    Route("/api/system/webhook-event-log/{webhook_event_log_id}", EventLogHandler),
    Route("/api/system/webhook-attempt-log/{webhook_attempt_log_id}", AttemptLogHandler),
]
