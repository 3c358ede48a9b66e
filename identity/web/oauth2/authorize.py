"""`/oauth2/authorize`: authorization requests by GET and POST, and the login form (RFC 6749 section 3.1)."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.errors import InvalidToken
from identity.operations.authorization import authorization, sso_bootstrap
from identity.operations.captcha import verification
from identity.operations.login.password_login import Credentials
from identity.operations.login_transactions.authorization_steps import LoginPage
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import csrf, login
from identity.web.oauth2.login_flow import REQUEST, LoginFlowHandler
from identity.web.oauth2.oauth_handlers import PAGE_OR_REDIRECT, tenant_routes

_FORM: Final = "oauth2/authorize.form.json"


class AuthorizeHandler(LoginFlowHandler):
    """The authorization endpoint."""

    records_refusals = True

    @endpoint(access=Access.BROWSER, query=REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Start an authorization request."""
        return await self.begin(call, self.parameters(REQUEST), tenant_id)

    @endpoint(access=Access.BROWSER, form=_FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Handle the login form, or a request that another site posts (OpenID Connect Core 3.1.2.1)."""
        if "loginId" in form or "password" in form or "identityProviderId" in form:
            return await self.log_in(call, form, tenant_id)
        return await self.begin(call, form, tenant_id)

    async def begin(self, call: Call, given: Document, tenant_id: str | None) -> Reply:
        """Respond from the SSO session, or show the login page."""
        given, verified_client = await self.verify_request(call, given, tenant_id)
        self.verified_client, browser = verified_client, self.browser(from_outside=True)
        try:
            browser = await sso_bootstrap.bootstrap(self.services, call, verified_client, browser, self.bearer_token())
        except InvalidToken:
            # The error is for the sender of the token, not for the redirect URI.
            self.verified_client = None
            raise
        step = await authorization.begin(self.services, call, verified_client, browser)
        return await self.render_step(step, given)

    async def log_in(self, call: Call, form: Document, tenant_id: str | None) -> Reply:
        """Log in; a form without a valid CSRF token shows the page again."""
        form, verified_client = await self.verify_request(call, form, tenant_id)
        self.verified_client = verified_client
        if not csrf.has_valid_token(self, form):
            page = LoginPage(verified_client.client, form.get("loginId", ""))
            return await self.login_page(page, form, message=csrf.INVALID_TOKEN)
        is_persistent, browser = form.get("rememberDevice") == "true", self.browser()
        if "identityProviderId" in form:
            step = await authorization.redirect_to_provider(
                self.services, call, verified_client, browser, form["identityProviderId"], is_persistent=is_persistent
            )
        else:
            client = verified_client.client
            if problem := await verification.find_problem(self.services, call, client.tenant, form):
                return await self.login_page(LoginPage(client, form.get("loginId", "")), form, message=problem)
            credentials = Credentials(form.get("loginId", ""), form.get("password", ""), trust_id=browser.trust_id)
            step = await authorization.log_in(
                self.services, call, verified_client, browser, credentials, is_persistent=is_persistent
            )
        reply = await self.render_step(step, form)
        if isinstance(step, LoginPage):
            return reply
        return login.with_remember_cookie(self, reply, is_persistent=is_persistent)


ROUTES = tenant_routes([("/oauth2/authorize", AuthorizeHandler)])
