"""/api/webhook beyond the generic operations (an extension of our own), and the logs of events and attempts."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.objects.search import whole_number
from identity.errors import Invalid
from identity.operations.objects import crud
from identity.operations.webhooks import webhook_deliveries, webhook_event_logs
from identity.resources import WEBHOOK
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Query, Reply, calls, endpoint

_MOST_RESULTS = 1000
_EVENT_LOG_CRITERIA: Query = {
    "end": "instant",
    "event": "text",
    "eventResult": "text",
    "eventType": "text",
    "numberOfResults": "integer",
    "orderBy": "text",
    "start": "instant",
    "startRow": "integer",
}


class TestHandler(ApiHandler):
    """Tests of a webhook."""

    @endpoint(access=Access.API_KEY, body="api/webhook-test.request.json", answer="api/webhook-attempt-log.json")
    async def post(self, call: Call, webhook_id: str, body: Document) -> Reply:
        """Send an event once, regardless of subscriptions and without a log, and return the attempt."""
        attempt = await webhook_deliveries.test(self.services, call, webhook_id, body)
        return Reply({"webhookAttemptLog": attempt})


class ResendHandler(ApiHandler):
    """Redelivery of one event."""

    @endpoint(
        access=Access.API_KEY, body="api/webhook-resend.request.json", answer={202: "api/webhook-queued.response.json"}
    )
    async def post(self, call: Call, body: Document, webhook_id: str | None = None) -> Reply:
        """Redeliver to one webhook, or to all that were subscribed; idempotent."""
        count = await webhook_deliveries.resend(self.services, call, body["eventId"], webhook_id)
        return Reply({"deliveries": count}, 202)


class RecoverHandler(ApiHandler):
    """Redelivery of failed deliveries."""

    @endpoint(
        access=Access.API_KEY, body="api/webhook-recover.request.json", answer={202: "api/webhook-queued.response.json"}
    )
    async def post(self, call: Call, webhook_id: str, body: Document) -> Reply:
        """Redeliver the failed deliveries since an instant; idempotent."""
        start, end = body["startInstant"], body.get("endInstant")
        count = await webhook_deliveries.recover(self.services, call, webhook_id, start, end)
        return Reply({"deliveries": count}, 202)


class StatusHandler(ApiHandler):
    """The status of a webhook."""

    @endpoint(access=Access.API_KEY, body="api/webhook-status.request.json", answer="api/webhook.json")
    async def put(self, call: Call, webhook_id: str, body: Document) -> Reply:
        """Pause, disable or enable; idempotent."""
        webhook = await webhook_deliveries.set_status(self.services, call, webhook_id, body["status"])
        return Reply({"webhook": crud.to_caller_response(self.services, call.caller, WEBHOOK, webhook)})


class DeadLettersHandler(ApiHandler):
    """Failed deliveries."""

    @endpoint(
        access=Access.API_KEY,
        query={"numberOfResults": "integer", "startRow": "integer"},
        answer="api/webhook-dead-letter.response.json",
    )
    async def get(self, call: Call, webhook_id: str) -> Reply:
        """Retrieve them, the newest first."""
        start, count = self.whole("startRow", 0), min(self.whole("numberOfResults", 25), _MOST_RESULTS)
        total, letters = await webhook_event_logs.dead_letters(self.services, webhook_id, start, count)
        return Reply({"deadLetters": letters, "total": total})

    def whole(self, name: str, default: int) -> int:
        """Return a number of the query. Raises Invalid."""
        number = whole_number(self.query().get(name, default))
        if number is None or not 0 <= number < 2**31:
            raise Invalid.field("invalid", name, f"The [{name}] value must be a whole number.")
        return number


class SecretHandler(ApiHandler):
    """The secret of Standard Webhooks signatures."""

    @endpoint(access=Access.API_KEY, body="api/webhook-secret.request.json", answer="api/webhook-secret.response.json")
    async def post(self, call: Call, webhook_id: str, body: Document) -> Reply:
        """Create a secret, which is returned only once; the old one signs as well for a while."""
        overlap = body["overlapInSeconds"]
        return Reply({"secret": await webhook_deliveries.new_secret(self.services, call, webhook_id, overlap)})

    delete = calls(webhook_deliveries.remove_secret, "Delete the secret.")


class EventLogHandler(ApiHandler):
    """A sent event."""

    @endpoint(access=Access.API_KEY, answer="api/webhook-event-log.json")
    async def get(self, call: Call, webhook_event_log_id: str) -> Reply:
        """Retrieve the event with its delivery attempts."""
        return Reply({"webhookEventLog": await webhook_event_logs.retrieve(self.services, webhook_event_log_id)})


class AttemptLogHandler(ApiHandler):
    """A delivery attempt."""

    @endpoint(access=Access.API_KEY, answer="api/webhook-attempt-log.json")
    async def get(self, call: Call, webhook_attempt_log_id: str) -> Reply:
        """Retrieve the attempt."""
        return Reply(
            {"webhookAttemptLog": await webhook_event_logs.retrieve_attempt(self.services, webhook_attempt_log_id)}
        )


class EventLogSearchHandler(ApiHandler):
    """Search of sent events, by query or by body, with the same names."""

    @endpoint(access=Access.API_KEY, query=_EVENT_LOG_CRITERIA, answer="api/webhook-event-log-search.response.json")
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
        total, events = await webhook_event_logs.search(self.services, call, criteria, prefix)
        return Reply({"total": total, "webhookEventLogs": events})


ROUTES = [
    Route("/api/webhook/resend", ResendHandler),
    Route("/api/webhook/{webhook_id}/dead-letter", DeadLettersHandler),
    Route("/api/webhook/{webhook_id}/recover", RecoverHandler),
    Route("/api/webhook/{webhook_id}/resend", ResendHandler),
    Route("/api/webhook/{webhook_id}/secret", SecretHandler),
    Route("/api/webhook/{webhook_id}/status", StatusHandler),
    Route("/api/webhook/{webhook_id}/test", TestHandler),
    Route("/api/system/webhook-event-log/search", EventLogSearchHandler),
    Route("/api/system/webhook-event-log/{webhook_event_log_id}", EventLogHandler),
    Route("/api/system/webhook-attempt-log/{webhook_attempt_log_id}", AttemptLogHandler),
]
