"""/api/email, /api/message and /api/messenger: mails, text messages, their templates, and messengers."""

from __future__ import annotations

from identity.operations.messaging import email_templates, mail, message_templates, messengers
from identity.web import crud
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import calls


class PreviewHandler(ApiHandler):
    """Previews of email templates."""

    post = calls(
        email_templates.preview,
        "Render the template of the request for an example user.",
        body="api/email-preview.json",
        answer="api/email-preview.response.json",
    )


class SendHandler(ApiHandler):
    """Mails from a template."""

    post = calls(
        mail.send_all,
        "Queue a mail to each recipient: 202, with the errors of recipients that get none.",
        status=202,
        body="api/email-send.json",
        answer={202: "api/email-send.response.json"},
    )


class MessagePreviewHandler(ApiHandler):
    """Previews of message templates."""

    post = calls(
        message_templates.preview,
        "Render the template of the request for an example user.",
        body="api/message-preview.json",
        answer="api/message-preview.response.json",
    )


ROUTES = [
    Route("/api/email/template/preview", PreviewHandler),
    Route("/api/email/send/{email_template_id}", SendHandler),
    *crud.routes(email_templates.RESOURCE),
    Route("/api/message/template/preview", MessagePreviewHandler),
    *crud.routes(message_templates.RESOURCE, messengers.RESOURCE),
]
