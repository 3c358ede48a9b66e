"""`/oauth2/register`: self-service registration, which continues the authorization request."""

from __future__ import annotations

import urllib.parse
from typing import Final

from identity.call import Call, Document
from identity.domain.users import self_registration
from identity.operations.authorization import request_sources
from identity.operations.captcha import verification
from identity.operations.clients.clients import Client
from identity.operations.login_transactions.authorization_steps import Step, VerifiedClient
from identity.operations.pages import registration_form_page, registration_page
from identity.operations.pages.registration_form_page import StepRejected
from identity.operations.pages.registration_page import EmailSent, FormRejected
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import csrf, login, register, register_form
from identity.web.hosted.register_form import NOT_REJECTED
from identity.web.oauth2.login_flow import REQUEST, LoginFlowHandler
from identity.web.oauth2.oauth_handlers import PAGE_OR_REDIRECT, tenant_routes

FORM: Final = "oauth2/register.form.json"


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

    @endpoint(access=Access.BROWSER, form=FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Register the user; a form without a valid CSRF token shows the page again."""
        form, verified_client = await self.verify_registration(call, form, tenant_id)
        if not csrf.has_valid_token(self, form):
            return await self.registration_page(verified_client.client, form, message=csrf.INVALID_TOKEN)
        is_persistent = form.get("rememberDevice") == "true"
        client = verified_client.client
        if problem := await verification.find_problem(self.services, call, client.tenant, form):
            return await self.registration_page(client, form, message=problem)
        uses_form = self_registration.uses_form(client.application)
        submit = registration_form_page.submit_first if uses_form else registration_page.register
        outcome = await submit(self.services, call, verified_client, self.browser(), form, is_persistent=is_persistent)
        if isinstance(outcome, StepRejected):
            outcome = outcome.rejected
        if isinstance(outcome, FormRejected):
            return await self.registration_page(client, form, refused=outcome)
        return await self.finished(client, form, outcome, is_persistent=is_persistent)

    async def finished(
        self, client: Client, given: Document, outcome: Step | EmailSent, *, is_persistent: bool
    ) -> Reply:
        """Return the step after a registration."""
        if isinstance(outcome, EmailSent) and outcome.page_id:
            return Reply(status=302, headers={"Location": self.code_url(client, given, outcome.page_id)})
        if isinstance(outcome, EmailSent):
            return await register.reply_email_sent(self, client, given, self.request_parameter_names())
        reply = await self.render_step(outcome, given)
        return login.with_remember_cookie(self, reply, is_persistent=is_persistent)

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
        """Return the page, or the first step of the application's form."""
        if self_registration.uses_form(client.application):
            return await register_form.reply_first(
                self, client, given, self.request_parameter_names(), rejected=refused or NOT_REJECTED, message=message
            )
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
