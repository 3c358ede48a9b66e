"""`/oauth2/register`: self-service registration, which continues the authorization request."""

from __future__ import annotations

import dataclasses
from typing import Final

from identity.call import Call, Document
from identity.operations.authorization import authorization, request_sources
from identity.operations.clients.clients import Client
from identity.operations.login_transactions.authorization_steps import VerifiedClient
from identity.operations.pages import registration_page
from identity.operations.pages.registration_page import EmailSent, FormRejected
from identity.web.base_handlers import Route
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import csrf, login, register
from identity.web.oauth2.login_flow import REQUEST, LoginFlowHandler
from identity.web.oauth2.oauth_handlers import PAGE_OR_REDIRECT

_FORM: Final = "oauth2/register.form.json"


class RegisterHandler(LoginFlowHandler):
    """The registration page, with the same query as the authorization endpoint."""

    advice = "error.register"

    @endpoint(access=Access.BROWSER, query=REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the page; no user is created."""
        given, verified_client = await self.opened(call, self.parameters(REQUEST), tenant_id)
        step = await registration_page.step_before_page(
            self.services, call, verified_client, self.browser(from_outside=True)
        )
        if step is not None:
            return await self.shown(step, given)
        if request_sources.must_reopen(given):
            return await self.reopened(verified_client.client, given, self.request.path)
        return await self.asked(verified_client.client, given)

    @endpoint(access=Access.BROWSER, form=_FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Register the user; a form without a valid CSRF token shows the page again."""
        form, verified_client = await self.opened(call, form, tenant_id)
        if not csrf.has_valid_token(self, form):
            return await self.asked(verified_client.client, form, message=csrf.INVALID_TOKEN)
        is_persistent = form.get("rememberDevice") == "true"
        step = await registration_page.register(
            self.services, call, verified_client, self.browser(), form, is_persistent=is_persistent
        )
        if isinstance(step, FormRejected):
            return await self.asked(verified_client.client, form, refused=step)
        if isinstance(step, EmailSent):
            return await register.reply_email_sent(self, verified_client.client, form, self.names())
        reply = await self.shown(step, form)
        remembered = login.remember_cookie(self, is_persistent=is_persistent)
        return dataclasses.replace(reply, cookies=[*reply.cookies, remembered])

    async def opened(self, call: Call, given: Document, tenant_id: str | None) -> tuple[Document, VerifiedClient]:
        """The request, of an application whose users register themselves. Raises InvalidRequest for any other."""
        given = await self.resolved(call, given, tenant_id)
        verified_client = await authorization.verify_client(
            self.services, call, self.tenant_hints(tenant_id, given), given
        )
        registration_page.require_enabled(verified_client.client)
        self.verified_client = verified_client
        return given, verified_client

    async def asked(
        self,
        client: Client,
        given: Document,
        *,
        refused: FormRejected | None = None,
        message: str = "",
    ) -> Reply:
        """The page."""
        return await register.reply(self, client, given, self.names(), refused=refused, message=message)

    def names(self) -> list[str]:
        """The parameters of the request, which the pages carry along."""
        return list(self.services.schemas[REQUEST].schema["properties"])


ROUTES = [Route(prefix + "/oauth2/register", RegisterHandler) for prefix in ("", "/{tenant_id}")]
