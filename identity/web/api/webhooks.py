"""/api/webhook beyond the row: trying out, asking again, pausing, secrets. All of it is our own extension."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.objects.search import whole_number
from identity.errors import Invalid
from identity.operations.objects import crud
from identity.operations.webhooks import webhook_deliveries, webhook_event_logs
from identity.resources import WEBHOOK
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, endpoint

_MOST_RESULTS = 1000


class TestHandler(ApiHandler):
    """Try a webhook out."""

    @endpoint(access=Access.API_KEY, body="api/webhook-test.request.json", answer="api/webhook-attempt-log.json")
    async def post(self, call: Call, webhook_id: str, body: Document) -> Reply:
        """Send an event now, whatever the gates say, once and without a log; answers the attempt."""
        attempt = await webhook_deliveries.test(self.services, call, webhook_id, body)
        return Reply({"webhookAttemptLog": attempt})


class ResendHandler(ApiHandler):
    """Deliver one event once more."""

    @endpoint(
        access=Access.API_KEY, body="api/webhook-resend.request.json", answer={202: "api/webhook-queued.response.json"}
    )
    async def post(self, call: Call, body: Document, webhook_id: str | None = None) -> Reply:
        """To one webhook, or to all that were to hear of it; safe to repeat."""
        count = await webhook_deliveries.resend(self.services, call, body["eventId"], webhook_id)
        return Reply({"deliveries": count}, 202)


class RecoverHandler(ApiHandler):
    """Deliver again what was given up."""

    @endpoint(
        access=Access.API_KEY, body="api/webhook-recover.request.json", answer={202: "api/webhook-queued.response.json"}
    )
    async def post(self, call: Call, webhook_id: str, body: Document) -> Reply:
        """Everything since an instant; safe to repeat."""
        start, end = body["startInstant"], body.get("endInstant")
        count = await webhook_deliveries.recover(self.services, call, webhook_id, start, end)
        return Reply({"deliveries": count}, 202)


class StatusHandler(ApiHandler):
    """Pause, disable, enable."""

    @endpoint(access=Access.API_KEY, body="api/webhook-status.request.json", answer="api/webhook.json")
    async def put(self, call: Call, webhook_id: str, body: Document) -> Reply:
        """Set the status; safe to repeat."""
        webhook = await webhook_deliveries.set_status(self.services, call, webhook_id, body["status"])
        return Reply({"webhook": crud.to_caller_response(self.services, call.caller, WEBHOOK, webhook)})


class DeadLettersHandler(ApiHandler):
    """Deliveries that were given up."""

    @endpoint(
        access=Access.API_KEY,
        query={"numberOfResults": "integer", "startRow": "integer"},
        answer="api/webhook-dead-letter.response.json",
    )
    async def get(self, call: Call, webhook_id: str) -> Reply:
        """The newest first."""
        start, count = self.whole("startRow", 0), min(self.whole("numberOfResults", 25), _MOST_RESULTS)
        total, letters = await webhook_event_logs.dead_letters(self.services, webhook_id, start, count)
        return Reply({"deadLetters": letters, "total": total})

    def whole(self, name: str, default: int) -> int:
        """A number of the query. Raises Invalid."""
        number = whole_number(self.query().get(name, default))
        if number is None or not 0 <= number < 2**31:
            raise Invalid.field("invalid", name, f"The [{name}] value must be a whole number.")
        return number


class SecretHandler(ApiHandler):
    """The secret of Standard Webhooks signatures."""

    @endpoint(access=Access.API_KEY, body="api/webhook-secret.request.json", answer="api/webhook-secret.response.json")
    async def post(self, call: Call, webhook_id: str, body: Document) -> Reply:
        """Make a new one, which is told now and never again; the old one signs along for a while."""
        overlap = body["overlapInSeconds"]
        return Reply({"secret": await webhook_deliveries.new_secret(self.services, call, webhook_id, overlap)})

    @endpoint(access=Access.API_KEY)
    async def delete(self, call: Call, webhook_id: str) -> Reply:
        """Sign with no secret any more."""
        await webhook_deliveries.remove_secret(self.services, call, webhook_id)
        return Reply()


ROUTES = [
    Route("/api/webhook/resend", ResendHandler),
    Route("/api/webhook/{webhook_id}/dead-letter", DeadLettersHandler),
    Route("/api/webhook/{webhook_id}/recover", RecoverHandler),
    Route("/api/webhook/{webhook_id}/resend", ResendHandler),
    Route("/api/webhook/{webhook_id}/secret", SecretHandler),
    Route("/api/webhook/{webhook_id}/status", StatusHandler),
    Route("/api/webhook/{webhook_id}/test", TestHandler),
]
