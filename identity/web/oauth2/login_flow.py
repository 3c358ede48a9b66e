"""Base handler of the pages between login and authorization response: it renders the steps of a login.

Once client and redirect URI are verified, errors are redirected (RFC 6749 section 4.1.2.1).
"""

from __future__ import annotations

import contextlib
import urllib.parse
from collections.abc import Mapping
from http.cookies import Morsel
from typing import Final

from identity.call import Call, Document
from identity.domain.clients import redirect_uris
from identity.errors import InvalidRequestObject, OAuth2Error, ServerError, ServiceError
from identity.operations.authorization import authorization, authorization_responses, request_sources
from identity.operations.clients.clients import Client
from identity.operations.login import known_devices
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import (
    AuthorizationResponse,
    Browser,
    IntermediatePage,
    LinkRequired,
    LoginPage,
    NotRegistered,
    ProviderRedirect,
    SsoCookie,
    Step,
    VerifiedClient,
)
from identity.operations.providers import authorization_redirect
from identity.operations.sessions import sso_sessions
from identity.operations.two_factor import two_factor_trust
from identity.web.endpoint import Reply
from identity.web.hosted import csrf, login, page_theme, render
from identity.web.oauth2.oauth_handlers import PageHandler, oauth_error

REQUEST: Final = "oauth2/authorize.request.json"
"""The parameters of an authorization request."""


class LoginFlowHandler(PageHandler):
    """Renders steps of a login; `verified_client` is set as soon as errors may be redirected."""

    verified_client: VerifiedClient | None = None

    def browser(self, *, from_outside: bool = False) -> Browser:
        """Return the cookies of this browser, with the Origin header for requests from other sites only."""
        origin = self.request.headers.get("Origin") if from_outside else None
        return Browser(
            self.cookie(sso_sessions.COOKIE),
            origin,
            self.cookie(authorization_redirect.COOKIE),
            self.cookie(two_factor_trust.COOKIE),
        )

    async def resolved(self, call: Call, given: Document, tenant_id: str | None) -> Document:
        """Return the effective parameters: those of this request, or pushed or signed ones."""
        hints = self.tenant_hints(tenant_id, given)
        try:
            return await request_sources.resolve(self.services, call, hints, given, browser=csrf.browser(self))
        except InvalidRequestObject as error:
            # Redirected if the redirect URI of the signed parameters, else of the unsigned ones, is verified.
            with contextlib.suppress(ServiceError):
                self.verified_client = await authorization.verify_client(
                    self.services, call, hints, error.signed or given
                )
            raise

    async def shown(self, step: Step, given: Mapping[str, str], *cookies: Morsel[str]) -> Reply:
        """Render a step; `cookies` are set in addition to those of the step."""
        if isinstance(step, LoginPage):
            if isinstance(step.problem, NotRegistered):
                return self.not_registered(step.client, given)
            if request_sources.must_reopen(given):
                return await self.reopened(step.client, given)
            return await self.page(step, given)
        if isinstance(step, ProviderRedirect):
            return await self.departure(step, given)
        if isinstance(step, LinkRequired):
            location = redirect_uris.with_query(authorization_redirect.LINK_PATH, {"link": step.link})
            return Reply(status=302, headers={"Location": location})
        if isinstance(step, IntermediatePage):
            return self.interlude(step)
        if step.mode == "form_post" and self.verified_client is not None:
            client = self.verified_client.client
            return self.response(step, await page_theme.load(self, client.tenant, client.application, given), *cookies)
        return self.response(step, None, *cookies)

    async def reopened(self, client: Client, given: Mapping[str, str], path: str = "") -> Reply:
        """The way to the login page of a pushed request: under a name that lasts, so that the page can be reloaded.

        Or to the page under `path`.
        """
        token, cookie = csrf.issue(self)
        found = await request_sources.reopen(self.services, client, given, token, self.origin().ip_address)
        location = redirect_uris.with_query(path or login.authorize_path(self), found)
        return Reply(status=302, headers={"Location": location}, cookies=[cookie])

    def not_registered(self, client: Client, given: Mapping[str, str]) -> Reply:
        """Redirect to the page for unregistered users, with the request, so that another user can log in."""
        names, kept = self.services.schemas[REQUEST].schema["properties"], request_sources.form_parameters(given)
        query = {"client_id": client.client_id, **{name: kept[name] for name in names if name in kept}}
        location = redirect_uris.with_query(f"{login.base_path(self)}/authorized-not-registered", query)
        return Reply(status=302, headers={"Location": location})

    async def page(self, page: LoginPage, given: Mapping[str, str], *, message: str = "") -> Reply:
        """Return the login page."""
        names = self.services.schemas[REQUEST].schema["properties"]
        chosen = given.get("rememberDevice") if "loginId" in given else self.cookie(login.REMEMBER_COOKIE)
        return await login.reply(self, page, given, names, remember_device=chosen == "true", message=message)

    async def departure(self, step: ProviderRedirect, given: Mapping[str, str]) -> Reply:
        """Redirect to an identity provider, with the cookie that the callback requires."""
        cookies = [self.new_cookie(authorization_redirect.COOKIE, step.secret)]
        if request_sources.must_reopen(given):
            cookies.append(csrf.issue(self)[1])
        if step.is_post:
            look = await page_theme.load(self, step.client.tenant, step.client.application, given)
            return render.form_post(step.url, step.parameters.items(), look, cookies, text="formPost.on")
        location = redirect_uris.with_query(step.url, step.parameters)
        return Reply(status=302, headers={"Location": location}, cookies=cookies)

    def interlude(self, step: IntermediatePage) -> Reply:
        """Redirect to a page before the response, with the secret of its login transaction in a cookie."""
        query = {
            "client_id": step.client.client_id,
            "intent": login_transactions.transaction_id_of(step.transaction_secret),
        }
        if step.client.application["universalConfiguration"].get("universal"):
            query["tenantId"] = step.client.tenant_id
        page = step.page if step.page.startswith("/") else f"{login.base_path(self)}/{step.page}"
        value = login_transactions.cookie_with(self.cookie(login_transactions.COOKIE), step.transaction_secret)
        cookies = [*self.session_cookie(step.cookie), self.new_cookie(login_transactions.COOKIE, value)]
        location = f"{page}?{urllib.parse.urlencode(query)}"
        return Reply(status=302, headers={"Location": location}, cookies=cookies)

    def response(
        self,
        response: AuthorizationResponse,
        look: page_theme.PageTheme | None = None,
        *cookies: Morsel[str],
    ) -> Reply:
        """Return the authorization response: a redirect (never 307, which reposts passwords) or a posting form."""
        all_cookies = [*self.session_cookie(response.cookie), *cookies]
        if response.mode == "form_post":
            look = look or page_theme.of_request(self)
            return render.form_post(response.redirect_uri, response.parameters.items(), look, all_cookies)
        place = redirect_uris.with_fragment if response.mode == "fragment" else redirect_uris.with_query
        location = place(response.redirect_uri, response.parameters)
        return Reply(status=302, headers={"Location": location}, cookies=all_cookies)

    def session_cookie(self, cookie: SsoCookie | None) -> list[Morsel[str]]:
        """Return the SSO cookie and the known-device cookie to set, if any."""
        if cookie is None:
            return []
        shown = self.received_cookie(known_devices.cookie_name(cookie.user_id))
        device = known_devices.renew_cookie(
            self.services, cookie.tenant, cookie.user_id, shown, self.services.clock.now()
        )
        found = [self.new_cookie(sso_sessions.COOKIE, cookie.secret, cookie.max_age_seconds)] if cookie.secret else []
        if device is not None:
            found.append(self.new_cookie(device.name, device.value, device.max_age_seconds))
        return found

    def refuse(self, error: ServiceError) -> None:
        """Send the error response, or the error page until the client is verified."""
        if self.verified_client is None:
            super().refuse(error)
            return
        failure: OAuth2Error = oauth_error(error)
        self.send(self.response(authorization_responses.error_response(self.verified_client, failure)))

    def fail(self) -> None:
        """Send a generic error for an unexpected exception."""
        self.refuse(ServerError("unknown", "The service could not answer this request."))
