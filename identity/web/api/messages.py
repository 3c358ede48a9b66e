"""/api/messenger and /api/message: messengers, and templates of text messages."""

from __future__ import annotations

from identity.operations.messaging import message_templates, messengers
from identity.web import crud
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import calls


class PreviewHandler(ApiHandler):
    """Previews of message templates."""

    post = calls(
        message_templates.preview,
        "Render the template of the request for an example user.",
        body="api/message-preview.json",
        answer="api/message-preview.response.json",
    )


ROUTES = [
    Route("/api/message/template/preview", PreviewHandler),
    *crud.routes(message_templates.RESOURCE, messengers.RESOURCE),
]
