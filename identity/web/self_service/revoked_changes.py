"""`/email/revoke-change/{token}` and `/phone/revoke-change/{token}`: revoke a change from the previous address."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.errors import NotFound, WebhookTransactionFailed
from identity.operations.pages import page_messages
from identity.operations.verification import email_changes, phone_change_revocations, verification_api
from identity.web.base_handlers import Route
from identity.web.endpoint import Reply
from identity.web.hosted import csrf
from identity.web.hosted.fields import Form
from identity.web.oauth2.oauth_handlers import page_endpoint
from identity.web.self_service.page_context import REQUEST, PageContext, SelfServiceHandler

_FORM: Final = "oauth2/verify.form.json"


class RevokeHandler(SelfServiceHandler):
    """Revokes a change on POST only: mail scanners fetch links."""

    text_prefix = "emailRevoke"
    done = "emailRevoked"
    revoke = staticmethod(email_changes.revoke)

    @page_endpoint(query=REQUEST)
    async def get(self, call: Call, token: str) -> Reply:
        """Show the button."""
        return self.confirmation(await self.load_context(call, self.parameters(REQUEST)))

    @page_endpoint(form=_FORM)
    async def post(self, call: Call, form: Document, token: str) -> Reply:
        """Revoke the change."""
        context = await self.load_context(call, form)
        if not csrf.has_valid_token(self, form):
            return self.confirmation(context, csrf.INVALID_TOKEN)
        try:
            async with verification_api.limit_failures(self.services, call):
                await self.revoke(self.services, call, context.tenant_id, token)
        except NotFound:
            return self.notice(context, "emailRevokeOver")
        except WebhookTransactionFailed:
            return self.confirmation(context, page_messages.CHANGE_REJECTED)
        link = (context.theme["emailRevoked.password"], context.url("/password/forgot"))
        return self.notice(context, self.done, [link])

    def confirmation(self, context: PageContext, message: str = "") -> Reply:
        """Return the page with the button; it is the same for unknown tokens."""
        theme = context.theme
        form = Form(
            title=theme[f"{self.text_prefix}.title"],
            heading=theme[f"{self.text_prefix}.heading"],
            lead=theme[f"{self.text_prefix}.lead"],
            submit=theme["emailRevoke.submit"],
        )
        return self.form_page(context, form, message)


class RevokePhoneHandler(RevokeHandler):
    """The same for a phone number."""

    text_prefix = "phoneRevoke"
    done = "phoneRevoked"
    revoke = staticmethod(phone_change_revocations.revoke)


ROUTES = [
    Route("/email/revoke-change/{token}", RevokeHandler),
    Route("/phone/revoke-change/{token}", RevokePhoneHandler),
]
