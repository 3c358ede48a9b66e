"""`/oauth2/callback`: the redirect URI at identity providers (RFC 6749 section 4.1.2); `/oauth2/start-idp-link`.

A provider account without a user is linked after a login to a local account.
"""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.operations.authorization import account_linking, provider_callback, request_sources
from identity.operations.authorization.account_linking import AccountLink, LinkPage
from identity.operations.login.password_login import Credentials
from identity.operations.login_transactions.authorization_steps import LoginPage
from identity.operations.providers import authorization_redirect
from identity.web.base_handlers import Route
from identity.web.endpoint import Reply, page_endpoint
from identity.web.hosted import csrf, login, page_theme, render
from identity.web.hosted.login_flow import LoginFlowHandler

_REPOSTED: Final = "again"
"""The field of a form that this service posted to itself."""


class CallbackHandler(LoginFlowHandler):
    """The callback endpoint, which operators register at their providers."""

    advice = "error.again"

    @page_endpoint(query="oauth2/callback.request.json")
    async def get(self, call: Call) -> Reply:
        """Handle a response in the query."""
        return await self.complete_login(call, self.parameters())

    @page_endpoint(form="oauth2/callback.form.json")
    async def post(self, call: Call, form: Document) -> Reply:
        """Handle a response by form_post.

        Browsers send no SameSite=Lax cookies with a cross-site form, so that a page of the service posts it again.
        """
        if _REPOSTED not in form and not self.cookie(authorization_redirect.COOKIE):
            url = call.origin.base_url + authorization_redirect.CALLBACK_PATH
            theme = page_theme.of_request(self)
            return render.form_post(url, [*form.items(), (_REPOSTED, "true")], theme, text="formPost.on")
        return await self.complete_login(call, form)

    async def complete_login(self, call: Call, answer: Document) -> Reply:
        """Continue the authorization request that started the login at the provider."""
        browser = self.browser()
        # OAuth 1.0a has no state; its temporary token is as unguessable, and new for each login.
        state = answer.get("state") or answer.get("oauth_token") or answer.get("denied")
        login_state = await provider_callback.consume_state(self.services, call, state, browser)
        self.verified_client = login_state.verified_client
        step = await provider_callback.complete_login(self.services, call, login_state, answer, browser)
        given = dict(login_state.verified_client.given)
        if isinstance(step, LoginPage) and request_sources.must_reopen(given):
            # Without a redirect to the authorization endpoint, where an idp_hint would redirect to the provider again.
            token, _ = csrf.issue(self)
            given |= await request_sources.reopen(self.services, step.client, given, token, call.origin.ip_address)
            return await self.login_page(step, given)
        return await self.render_step(step, given)


class StartIdPLinkHandler(LoginFlowHandler):
    """The page of a pending link, which is bound to the browser."""

    advice = "error.again"

    @page_endpoint(query="oauth2/start-idp-link.request.json")
    async def get(self, call: Call) -> Reply:
        """Show the page."""
        return await self.link_page(LinkPage(await self.account_link(call, self.parameters())))

    @page_endpoint(form="oauth2/start-idp-link.form.json")
    async def post(self, call: Call, form: Document) -> Reply:
        """Log in and link the account; a form without a valid CSRF token shows the page again."""
        account_link, login_id = await self.account_link(call, form), form.get("loginId", "")
        if not csrf.has_valid_token(self, form):
            return await self.link_page(LinkPage(account_link, login_id), message=csrf.INVALID_TOKEN)
        self.verified_client = account_link.verified_client
        browser = self.browser()
        credentials = Credentials(login_id, form.get("password", ""), trust_id=browser.trust_id)
        step = await account_linking.log_in(self.services, call, account_link, browser, credentials)
        if isinstance(step, LinkPage):
            return await self.link_page(step)
        return await self.render_step(step, account_link.verified_client.given)

    async def account_link(self, call: Call, given: Document) -> AccountLink:
        """Return the pending link of a request."""
        return await account_linking.get_account_link(self.services, call, given.get("link", ""), self.browser())

    async def link_page(self, page: LinkPage, *, message: str = "") -> Reply:
        """Render the page with the failure of the last attempt."""
        client, given = page.account_link.verified_client.client, page.account_link.verified_client.given
        theme = await page_theme.load(self, client.tenant, client.application, earlier=given)
        values = {
            "application_name": client.application["name"],
            "provider_name": page.account_link.provider_name,
            "account": page.account_link.account,
            "action": authorization_redirect.LINK_PATH,
            "login_id": page.login_id,
            **render.problem_values(
                theme.message(message) or login.message_of(page.problem, theme),
                is_invalid=login.is_credential_error(page.problem),
            ),
        }
        hidden = [("link", page.account_link.link)]
        redirect_uri = given["redirect_uri"]
        return csrf.form_page(
            self, "start_idp_link.html", values, theme, hidden, redirect_uri=redirect_uri, message=message
        )


ROUTES = [
    Route(authorization_redirect.CALLBACK_PATH, CallbackHandler),
    Route(authorization_redirect.LINK_PATH, StartIdPLinkHandler),
]
