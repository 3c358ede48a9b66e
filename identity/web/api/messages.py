"""/api/messenger and /api/message: messengers, and templates of text messages."""

from __future__ import annotations

from identity.call import Call, Document
from identity.operations.messaging import message_templates, messengers
from identity.web import crud
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, endpoint


class PreviewHandler(ApiHandler):
    """Previews of message templates."""

    @endpoint(access=Access.API_KEY, body="api/message-preview.json", answer="api/message-preview.response.json")
    async def post(self, call: Call, body: Document) -> Reply:
        """Render the template of the request for an example user."""
        return Reply(await message_templates.preview(self.services, call, body))


ROUTES = [
    Route("/api/message/template/preview", PreviewHandler),
    *crud.routes(message_templates.RESOURCE, messengers.RESOURCE),
]
