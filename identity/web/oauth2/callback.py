"""`/oauth2/callback`: the redirect URI at identity providers (RFC 6749 section 4.1.2)."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.operations.authorization import provider_callback, request_sources
from identity.operations.login_transactions.authorization_steps import LoginPage
from identity.operations.providers import authorization_redirect
from identity.web.base_handlers import Route
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import csrf, page_theme, render
from identity.web.oauth2.login_flow import LoginFlowHandler
from identity.web.oauth2.oauth_handlers import PAGE_OR_REDIRECT

_REQUEST: Final = "oauth2/callback.request.json"
_FORM: Final = "oauth2/callback.form.json"
_REPOSTED: Final = "again"
"""The field of a form that this service posted to itself."""


class CallbackHandler(LoginFlowHandler):
    """The callback endpoint, which operators register at their providers."""

    advice = "error.again"

    @endpoint(access=Access.BROWSER, query=_REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call) -> Reply:
        """Handle a response in the query."""
        return await self.complete_login(call, self.parameters(_REQUEST))

    @endpoint(access=Access.BROWSER, form=_FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
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


ROUTES = [Route(authorization_redirect.CALLBACK_PATH, CallbackHandler)]
