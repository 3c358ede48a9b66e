"""`/email/revoke-change/{token}`: the link by which a previous email address revokes a change."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.errors import NotFound, WebhookTransactionFailed
from identity.operations.verification import email_changes, verification_api
from identity.web.base_handlers import Route
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import csrf
from identity.web.hosted.fields import Form
from identity.web.oauth2.oauth_handlers import PAGE_OR_REDIRECT
from identity.web.self_service.page_context import REQUEST, PageContext, SelfServiceHandler

_FORM: Final = "oauth2/verify.form.json"


class RevokeHandler(SelfServiceHandler):
    """Revokes a change on POST only: mail scanners fetch links."""

    @endpoint(access=Access.BROWSER, query=REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, token: str) -> Reply:
        """Show the button."""
        return self.confirm(await self.place(call, self.parameters(REQUEST)))

    @endpoint(access=Access.BROWSER, form=_FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document, token: str) -> Reply:
        """Revoke the change."""
        place = await self.place(call, form)
        if not csrf.has_valid_token(self, form):
            return self.confirm(place, message=csrf.INVALID_TOKEN)
        try:
            async with verification_api.limit_failures(self.services, call):
                await email_changes.revoke(self.services, call, place.tenant_id, token)
        except NotFound:
            return self.notice(place, "emailRevokeOver")
        except WebhookTransactionFailed:
            return self.confirm(place, message="verify.vetoed")
        password = (place.look["emailRevoked.password"], f"/password/forgot?{place.query}")
        return self.notice(place, "emailRevoked", links=[password])

    def confirm(self, place: PageContext, *, message: str = "") -> Reply:
        """The page with the button; it is the same for unknown tokens."""
        look = place.look
        form = Form(
            title=look["emailRevoke.title"],
            heading=look["emailRevoke.heading"],
            lead=look["emailRevoke.lead"],
            submit=look["emailRevoke.submit"],
            message=look[message] if message else "",
        )
        return csrf.with_status(self.form_page(place, form), message)


ROUTES = [Route("/email/revoke-change/{token}", RevokeHandler)]
