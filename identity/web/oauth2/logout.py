"""`/oauth2/logout`: end the session and redirect back (OpenID Connect RP-Initiated Logout 1.0)."""

from __future__ import annotations

import urllib.parse
from http.cookies import Morsel

from identity.call import Call, Document
from identity.operations.login_transactions import login_transactions
from identity.operations.providers import provider_logout
from identity.operations.sessions import logout, sso_sessions
from identity.web.base_handlers import Route
from identity.web.endpoint import Reply, page_endpoint, redirect
from identity.web.hosted import csrf, landing_page, page_theme, render
from identity.web.oauth2.oauth_handlers import PageHandler, tenant_routes


class LogoutHandler(PageHandler):
    """The end session endpoint."""

    @page_endpoint(query="oauth2/logout.request.json")
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Log out by a link or a redirect."""
        return await self.log_out(call, self.parameters(), tenant_id)

    @page_endpoint(form="oauth2/logout.form.json")
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Log out by a form, such as that of the confirmation page.

        A cross-site POST comes without the session's cookie (SameSite=Lax): it is repeated as a GET, which has it.
        """
        token = form.pop(csrf.FIELD, None)
        if self.is_cross_site() and not self.cookie(sso_sessions.COOKIE):
            return redirect(f"{self.request.path}?{urllib.parse.urlencode(form)}")
        return await self.log_out(call, form, tenant_id, token)

    async def log_out(self, call: Call, given: Document, tenant_id: str | None, token: str | None = None) -> Reply:
        """End the session and redirect, or show the confirmation page; `token` is the CSRF token of its form."""
        hints, secret = self.tenant_hints(tenant_id, given), self.cookie(sso_sessions.COOKIE)
        outcome = await logout.logout(self.services, call, given, hints, secret, self.requested_by(token))
        if isinstance(outcome, logout.ConfirmationRequired):
            return await self.confirmation_page(given, outcome)
        # Another site may have named a tenant or a client in which the browser has no session.
        if not outcome.has_ended_session and self.is_cross_site():
            return await self.redirect_to_target(call, outcome, [])
        return await self.redirect_to_target(
            call, outcome, [self.new_cookie(name, "", 0) for name in (sso_sessions.COOKIE, login_transactions.COOKIE)]
        )

    def requested_by(self, token: str | None) -> logout.Origin:
        """Return the origin of the request; a form with an invalid CSRF token counts as one of another site."""
        if token is None:
            return logout.Origin(self.is_cross_origin(), self.is_cross_site())
        return logout.SAME_ORIGIN if csrf.is_valid(self, token) else logout.CROSS_SITE

    async def confirmation_page(self, given: Document, outcome: logout.ConfirmationRequired) -> Reply:
        """Return the confirmation page, whose form repeats the request with a CSRF token."""
        token, cookie = csrf.issue(self)
        hidden = [*given.items(), (csrf.FIELD, token)]
        theme = await page_theme.load(self, outcome.tenant, outcome.application)
        return render.confirm_logout(self.request.path, hidden, theme, outcome.target, [cookie])

    async def redirect_to_target(self, call: Call, outcome: logout.LoggedOut, cookies: list[Morsel[str]]) -> Reply:
        """Redirect to the target, by way of the identity provider if its session ends too.

        A page with frames comes first if applications have a logout URL.
        """
        if outcome.target == logout.HOME:
            name, seconds = landing_page.SIGNED_OUT_COOKIE, landing_page.SIGNED_OUT_SECONDS
            cookies = [*cookies, self.new_cookie(name, "signed-out", seconds)]
        url = await provider_logout.start(self.services, call, outcome.tenant, outcome.provider_session, outcome.target)
        if outcome.frame_urls or (url is not None and self.is_browser_form()):
            theme = await page_theme.load(self, outcome.tenant, outcome.application)
            return render.logout(url or outcome.target, outcome.frame_urls, theme, cookies)
        return redirect(url or outcome.target, cookies)


class LogoutCallbackHandler(PageHandler):
    """The return from a logout at an identity provider."""

    @page_endpoint(query="oauth2/logout-callback.request.json")
    async def get(self, _call: Call) -> Reply:
        """Continue at the URL of the logout; without a valid state at the landing page."""
        return redirect(await provider_logout.complete(self.services, self.parameters().get("state")) or logout.HOME)


ROUTES = [
    *tenant_routes([("/oauth2/logout", LogoutHandler)]),
    Route(provider_logout.CALLBACK_PATH, LogoutCallbackHandler),
]
