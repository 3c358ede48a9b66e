"""/api/email: templates, previews and sending."""

from __future__ import annotations

from identity.call import Call, Document
from identity.operations.messaging import email_templates, mail
from identity.web import crud
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, calls, endpoint


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

    @endpoint(access=Access.API_KEY, body="api/email-send.json", answer={202: "api/email-send.response.json"})
    async def post(self, call: Call, email_template_id: str, body: Document) -> Reply:
        """Queue a mail to each recipient: 202, with the errors of recipients that get none."""
        return Reply(await mail.send_all(self.services, call, email_template_id, body), 202)


ROUTES = [
    Route("/api/email/template/preview", PreviewHandler),
    Route("/api/email/send/{email_template_id}", SendHandler),
    *crud.routes(email_templates.RESOURCE),
]
