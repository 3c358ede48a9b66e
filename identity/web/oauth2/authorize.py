"""`/oauth2/authorize`: authorization requests and the login form (RFC 6749 section 3.1); `/oauth2/par` (RFC 9126).

`/oauth2/authorized-not-registered` is the page for users without a registration, if the application requires one.
"""

from __future__ import annotations

import urllib.parse

from identity.call import Call, Document
from identity.errors import InvalidToken, OAuth2Error
from identity.operations.authorization import authorization, pushed_requests, sso_bootstrap
from identity.operations.captcha import verification
from identity.operations.clients import clients, ip_access_lists, oauth_debug
from identity.operations.login.password_login import Credentials
from identity.operations.login_transactions.authorization_steps import LoginPage
from identity.web.endpoint import Access, Reply, oauth_endpoint, page_endpoint
from identity.web.hosted import csrf, login, page_theme, render
from identity.web.hosted.login_flow import LoginFlowHandler
from identity.web.oauth2.oauth_handlers import AUTHORIZE_REQUEST, NO_CACHE, OAuth2Handler, PageHandler, tenant_routes


class AuthorizeHandler(LoginFlowHandler):
    """The authorization endpoint."""

    records_refusals = True

    @page_endpoint(query=AUTHORIZE_REQUEST)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Start an authorization request."""
        return await self.begin(call, self.parameters(), tenant_id)

    @page_endpoint(form="oauth2/authorize.form.json")
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


class PushedRequestHandler(OAuth2Handler):
    """The pushed authorization request endpoint."""

    accepts_dpop_proof = True

    @oauth_endpoint(access=Access.CLIENT, form="oauth2/par.request.json", answer={201: "oauth2/par.response.json"})
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Store an authorization request for a minute and return its request_uri."""
        identified = await self.identify_client(form, tenant_id)
        try:
            client = identified.authenticate("authorization_code")
            answer = await pushed_requests.push(self.services, call, client, form, self.dpop_proof(call))
        except OAuth2Error as error:
            await oauth_debug.log_failure(self.services, call, identified.client, form, error, subject="request_uri")
            raise
        return Reply(answer, status=201, headers=NO_CACHE)


class NotRegisteredHandler(PageHandler):
    """The end of the login for this user; another user can log in with the same request."""

    @oauth_endpoint(access=Access.BROWSER, query=AUTHORIZE_REQUEST, answer="text/html")
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the page. It has no data of a user, because its URL can be opened by others."""
        given = self.parameters()
        client = await clients.get_client(self.services, self.tenant_hints(tenant_id, given), given.get("client_id"))
        await ip_access_lists.require_address(self.services, client, call.origin.ip_address)
        theme = await page_theme.load(self, client.tenant, client.application, given)
        # The session belongs to the unregistered user, so that it must not be used again.
        query = urllib.parse.urlencode({**given, "prompt": "login"})
        other = f"{login.authorize_path(self)}?{query}" if "redirect_uri" in given or "request_uri" in given else ""
        return render.not_registered(client.application["name"], other, theme)


ROUTES = tenant_routes(
    [
        ("/oauth2/authorize", AuthorizeHandler),
        ("/oauth2/par", PushedRequestHandler),
        ("/oauth2/authorized-not-registered", NotRegisteredHandler),
    ]
)
