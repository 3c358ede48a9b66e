"""`/oauth2/register`: self-service registration, which continues the authorization request."""

from __future__ import annotations

import dataclasses
import urllib.parse
from typing import Final

from identity.call import Call, Document
from identity.operations.authorization import request_sources
from identity.operations.clients.clients import Client
from identity.operations.login_transactions.authorization_steps import VerifiedClient
from identity.operations.pages import registration_page
from identity.operations.pages.registration_page import EmailSent, FormRejected
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import csrf, login, register
from identity.web.oauth2.login_flow import REQUEST, LoginFlowHandler
from identity.web.oauth2.oauth_handlers import PAGE_OR_REDIRECT, tenant_routes

_FORM: Final = "oauth2/register.form.json"


class RegisterHandler(LoginFlowHandler):
    """The registration page, with the same query as the authorization endpoint."""

    advice = "error.register"

    @endpoint(access=Access.BROWSER, query=REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the page; no user is created."""
        given, verified_client = await self.verify_registration(call, self.parameters(REQUEST), tenant_id)
        step = await registration_page.step_before_page(
            self.services, call, verified_client, self.browser(from_outside=True)
        )
        if step is not None:
            return await self.render_step(step, given)
        if request_sources.must_reopen(given):
            return await self.redirect_to_reopened(verified_client.client, given, self.request.path)
        return await self.registration_page(verified_client.client, given)

    @endpoint(access=Access.BROWSER, form=_FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Register the user; a form without a valid CSRF token shows the page again."""
        form, verified_client = await self.verify_registration(call, form, tenant_id)
        if not csrf.has_valid_token(self, form):
            return await self.registration_page(verified_client.client, form, message=csrf.INVALID_TOKEN)
        is_persistent = form.get("rememberDevice") == "true"
        step = await registration_page.register(
            self.services, call, verified_client, self.browser(), form, is_persistent=is_persistent
        )
        if isinstance(step, FormRejected):
            return await self.registration_page(verified_client.client, form, refused=step)
        if isinstance(step, EmailSent) and step.page_id:
            return Reply(status=302, headers={"Location": self.code_url(verified_client.client, form, step.page_id)})
        if isinstance(step, EmailSent):
            return await register.reply_email_sent(self, verified_client.client, form, self.request_parameter_names())
        reply = await self.render_step(step, form)
        remembered = login.remember_cookie(self, is_persistent=is_persistent)
        return dataclasses.replace(reply, cookies=[*reply.cookies, remembered])

    async def verify_registration(
        self, call: Call, given: Document, tenant_id: str | None
    ) -> tuple[Document, VerifiedClient]:
        """Return the request and its client. Raises InvalidRequest if the application has no self-registration."""
        given, verified_client = await self.verify_request(call, given, tenant_id)
        registration_page.require_enabled(verified_client.client)
        self.verified_client = verified_client
        return given, verified_client

    async def registration_page(
        self, client: Client, given: Document, *, refused: FormRejected | None = None, message: str = ""
    ) -> Reply:
        """Return the page."""
        return await register.reply(
            self, client, given, self.request_parameter_names(), refused=refused, message=message
        )

    def code_url(self, client: Client, given: Document, page_id: str) -> str:
        """Return the URL of the page for the code of the email."""
        request = request_sources.form_parameters(given)
        query = {name: request[name] for name in self.request_parameter_names() if name in request}
        query |= {"client_id": client.client_id, "tenantId": client.tenant_id}
        return f"/email/code/{page_id}?{urllib.parse.urlencode(query)}"


ROUTES = tenant_routes([("/oauth2/register", RegisterHandler)])
