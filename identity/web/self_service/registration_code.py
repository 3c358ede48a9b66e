"""`/email/code/{id}`: the page after a registration that asks for the code of the verification email."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.errors import FieldError, NotFound, WebhookTransactionFailed
from identity.operations.pages import page_messages, registration_code
from identity.web.base_handlers import Route
from identity.web.endpoint import Reply, redirect
from identity.web.hosted import csrf
from identity.web.hosted.fields import Field, Form, with_errors
from identity.web.oauth2.oauth_handlers import page_endpoint
from identity.web.self_service.page_context import REQUEST, PageContext, SelfServiceHandler

_FORM: Final = "oauth2/verify.form.json"
_CODE: Final = "oneTimeCode"
_WRONG: Final = FieldError.of("invalid", _CODE, "This code is incorrect.")


class CodeHandler(SelfServiceHandler):
    """The page; it is the same for a new user and for an address in use."""

    @page_endpoint(query=REQUEST)
    async def get(self, call: Call, page_id: str) -> Reply:
        """Show the form."""
        context = await self.load_context(call, self.parameters(REQUEST))
        if not await registration_code.is_open(self.services, context.tenant_id, page_id):
            return self.expired(context)
        return self.code_page(context)

    @page_endpoint(form=_FORM)
    async def post(self, call: Call, form: Document, page_id: str) -> Reply:
        """Verify the address."""
        context = await self.load_context(call, form)
        if not csrf.has_valid_token(self, form):
            return self.code_page(context, message=csrf.INVALID_TOKEN)
        code = form.get(_CODE, "").strip()
        try:
            is_verified = await registration_code.verify(self.services, call, context.tenant_id, page_id, code)
        except NotFound:
            return self.expired(context)
        except WebhookTransactionFailed:
            return self.code_page(context, message=page_messages.CHANGE_REJECTED)
        if not is_verified:
            return self.code_page(context, is_wrong=True)
        return redirect(context.url("/email/complete"))

    def code_page(self, context: PageContext, message: str = "", *, is_wrong: bool = False) -> Reply:
        """Return the form."""
        theme = context.theme
        code = Field(_CODE, theme["verify.code"], "text", "one-time-code")
        form = Form(
            title=theme["registerSent.title"],
            heading=theme["registerSent.heading"],
            lead=theme["registerSent.code"],
            submit=theme["verificationRequired.submit"],
            fields=with_errors([code], [_WRONG] if is_wrong else [], theme),
            notes=[theme["registerSent.none"]],
            links=context.login_links("selfService.login"),
        )
        return self.form_page(context, form, message)

    def expired(self, context: PageContext) -> Reply:
        """Return the page for an expired code."""
        return self.notice(context, "registerCodeOver", context.login_links("selfService.login"))


ROUTES = [Route("/email/code/{page_id}", CodeHandler)]
