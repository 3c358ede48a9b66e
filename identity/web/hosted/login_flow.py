"""Base handlers of the pages between login and authorization response: they render the steps of a login.

Once client and redirect URI are verified, errors are redirected (RFC 6749 section 4.1.2.1).
"""

from __future__ import annotations

import contextlib
import dataclasses
import urllib.parse
from collections.abc import Mapping
from http.cookies import Morsel
from typing import ClassVar

from identity.call import Call, Document
from identity.domain.clients import redirect_uris
from identity.errors import InvalidRequestObject, OAuth2Error, ServerError, ServiceError
from identity.operations.authorization import authorization, authorization_responses, login_resumption, request_sources
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
from identity.operations.login_transactions.login_transactions import (
    AuthenticatedTransaction,
    InterruptedTransaction,
    LoginTransaction,
    TransactionEndedError,
)
from identity.operations.providers import authorization_redirect
from identity.operations.sessions import sso_sessions
from identity.operations.two_factor import two_factor_trust
from identity.web.endpoint import Reply, redirect
from identity.web.hosted import csrf, login, page_theme, render
from identity.web.hosted.page_theme import PageTheme
from identity.web.oauth2.oauth_handlers import PageHandler, oauth_error


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

    async def resolve_request(self, call: Call, given: Document, tenant_id: str | None) -> Document:
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

    async def verify_request(
        self, call: Call, given: Document, tenant_id: str | None
    ) -> tuple[Document, VerifiedClient]:
        """Return the effective parameters of a request, and its client with a verified redirect URI."""
        given = await self.resolve_request(call, given, tenant_id)
        hints = self.tenant_hints(tenant_id, given)
        return given, await authorization.verify_client(self.services, call, hints, given)

    async def render_step(self, step: Step, given: Mapping[str, str]) -> Reply:
        """Render a step."""
        if isinstance(step, LoginPage):
            if isinstance(step.problem, NotRegistered):
                return self.redirect_to_not_registered(step.client, given)
            if request_sources.must_reopen(given):
                return await self.redirect_to_reopened(step.client, given)
            return await self.login_page(step, given)
        if isinstance(step, ProviderRedirect):
            return await self.redirect_to_provider(step, given)
        if isinstance(step, LinkRequired):
            return redirect(redirect_uris.with_query(authorization_redirect.LINK_PATH, {"link": step.link}))
        if isinstance(step, IntermediatePage):
            return self.redirect_to_page(step)
        if step.mode == "form_post" and self.verified_client is not None:
            client = self.verified_client.client
            theme = await page_theme.load(self, client.tenant, client.application, given)
            return self.authorization_response(step, theme)
        return self.authorization_response(step)

    async def redirect_to_reopened(self, client: Client, given: Mapping[str, str], path: str = "") -> Reply:
        """Redirect a pushed request to the login page, or to `path`, with a request_uri that survives a reload."""
        token, cookie = csrf.issue(self)
        query = await request_sources.reopen(self.services, client, given, token, self.origin().ip_address)
        return redirect(redirect_uris.with_query(path or login.authorize_path(self), query), [cookie])

    def redirect_to_not_registered(self, client: Client, given: Mapping[str, str]) -> Reply:
        """Redirect to the page for unregistered users, with the request, so that another user can log in."""
        query = {"client_id": client.presented_client_id, **self.request_parameters(given)}
        return redirect(redirect_uris.with_query(f"{login.base_path(self)}/authorized-not-registered", query))

    async def login_page(self, page: LoginPage, given: Mapping[str, str], *, message: str = "") -> Reply:
        """Return the login page."""
        remember = given.get("rememberDevice") if "loginId" in given else self.cookie(login.REMEMBER_COOKIE)
        return await login.reply(self, page, given, remember_device=remember == "true", message=message)

    async def redirect_to_provider(self, step: ProviderRedirect, given: Mapping[str, str]) -> Reply:
        """Redirect to an identity provider, with the cookie that the callback requires."""
        cookies = [self.new_cookie(authorization_redirect.COOKIE, step.secret)]
        if request_sources.must_reopen(given):
            cookies.append(csrf.issue(self)[1])
        if step.is_post:
            theme = await page_theme.load(self, step.client.tenant, step.client.application, given)
            return render.form_post(step.url, step.parameters.items(), theme, cookies, text="formPost.on")
        url = redirect_uris.with_query(step.url, step.parameters)
        # Chromium would block the redirects of the provider, whose origins the policy of our form does not name.
        if self.is_browser_form():
            theme = await page_theme.load(self, step.client.tenant, step.client.application, given)
            return render.leave(url, theme, cookies)
        return redirect(url, cookies)

    def redirect_to_page(self, step: IntermediatePage) -> Reply:
        """Redirect to a page before the response, with the secret of its login transaction in a cookie."""
        query = {
            "client_id": step.client.presented_client_id,
            "intent": login_transactions.transaction_id_of(step.transaction_secret),
        }
        if step.client.application["universalConfiguration"].get("universal"):
            query["tenantId"] = step.client.tenant_id
        page = step.page if step.page.startswith("/") else f"{login.base_path(self)}/{step.page}"
        value = login_transactions.cookie_with(self.cookie(login_transactions.COOKIE), step.transaction_secret)
        cookies = [*self.session_cookie(step.cookie), self.new_cookie(login_transactions.COOKIE, value)]
        return redirect(f"{page}?{urllib.parse.urlencode(query)}", cookies)

    def authorization_response(self, response: AuthorizationResponse, theme: PageTheme | None = None) -> Reply:
        """Return the authorization response: a redirect or a posting form."""
        cookies = self.session_cookie(response.cookie)
        if response.mode == "form_post":
            theme = theme or page_theme.of_request(self)
            return render.form_post(response.redirect_uri, response.parameters.items(), theme, cookies)
        build_uri = redirect_uris.with_fragment if response.mode == "fragment" else redirect_uris.with_query
        return redirect(build_uri(response.redirect_uri, response.parameters), cookies)

    def session_cookie(self, cookie: SsoCookie | None) -> list[Morsel[str]]:
        """Return the SSO cookie and the known-device cookie to set, if any."""
        if cookie is None:
            return []
        received = self.received_cookie(known_devices.cookie_name(cookie.user_id))
        device = known_devices.renew_cookie(
            self.services, cookie.tenant, cookie.user_id, received, self.services.clock.now()
        )
        cookies = [self.new_cookie(sso_sessions.COOKIE, cookie.secret, cookie.max_age_seconds)] if cookie.secret else []
        if device is not None:
            cookies.append(self.new_cookie(device.name, device.value, device.max_age_seconds))
        return cookies

    def refuse(self, error: ServiceError) -> None:
        """Send the error response, or the error page until the client is verified."""
        if self.verified_client is None:
            super().refuse(error)
            return
        failure: OAuth2Error = oauth_error(error)
        self.send(self.authorization_response(authorization_responses.error_response(self.verified_client, failure)))

    def fail(self) -> None:
        """Send a generic error for an unexpected exception."""
        self.refuse(ServerError("unknown", "The service could not answer this request."))


class TransactionPageHandler(LoginFlowHandler):
    """A page of a login transaction."""

    async def load_theme(self, transaction: LoginTransaction, user: Document | None = None) -> PageTheme:
        """Load the theme of the page, in the language of a user who chose no other."""
        client, given = transaction.client, transaction.verified_client.given
        return await page_theme.load(self, client.tenant, client.application, earlier=given, user=user)

    def transaction_parameters(self, transaction: LoginTransaction) -> dict[str, str]:
        """Return the parameters that name a transaction in forms and URLs."""
        client = transaction.client
        query = {"client_id": client.presented_client_id, "tenantId": client.tenant_id}
        return {**query, "intent": transaction.transaction_id}

    def page_url(self, path: str, transaction: LoginTransaction) -> str:
        """Return the URL of a page of the transaction."""
        return f"{path}?{urllib.parse.urlencode(self.transaction_parameters(transaction))}"

    def form_page(
        self, transaction: LoginTransaction, theme: PageTheme, template: str, values: Document, message: str = ""
    ) -> Reply:
        """Return a page with a form of the transaction; `message` is the key of a page text."""
        return csrf.form_page(
            self,
            template,
            {"application_name": transaction.client.application["name"], **values},
            theme,
            self.transaction_parameters(transaction).items(),
            redirect_uri=transaction.verified_client.given["redirect_uri"],
            message=message,
        )

    async def continue_login(self, transaction: LoginTransaction, step: Step) -> Reply:
        """Return the next step, and remove the transaction from the cookie."""
        reply = await self.render_step(step, transaction.verified_client.given)
        return self.without_transaction(reply, transaction)

    def without_transaction(self, reply: Reply, transaction: LoginTransaction) -> Reply:
        """Return the reply, and remove the consumed transaction from the cookie unless the reply sets it."""
        if any(morsel.key == login_transactions.COOKIE for morsel in reply.cookies):
            return reply
        value = login_transactions.cookie_without(transaction.cookie, transaction.transaction_id)
        cookie = self.new_cookie(login_transactions.COOKIE, value, None if value else 0)
        return dataclasses.replace(reply, cookies=[*reply.cookies, cookie])


class AuthenticatedLoginHandler(TransactionPageHandler):
    """A page of a login whose user is authenticated."""

    page_name: ClassVar[str]
    """The page constant of login_transactions."""

    async def find_transaction(self, call: Call, given: Document, tenant_id: str | None) -> AuthenticatedTransaction:
        """Find the login transaction of this browser."""
        hints = self.tenant_hints(tenant_id, given)
        cookie = self.cookie(login_transactions.COOKIE)
        return await login_resumption.find_authenticated(self.services, call, hints, given, cookie, self.page_name)


class InterruptedLoginHandler(TransactionPageHandler):
    """A page of an interrupted login."""

    advice = "error.again"
    page_name: ClassVar[str]
    """The page constant of login_transactions."""

    async def find_transaction(
        self, call: Call, given: Document, tenant_id: str | None = None
    ) -> InterruptedTransaction:
        """Find the login transaction of this browser."""
        hints = self.tenant_hints(tenant_id, given)
        cookie = self.cookie(login_transactions.COOKIE)
        transaction = await login_resumption.find_interrupted(self.services, call, hints, given, cookie, self.page_name)
        self.verified_client = transaction.verified_client
        return transaction

    def refuse(self, error: ServiceError) -> None:
        """Redirect the error; show an error page if the transaction ended, whose response may have been sent."""
        if isinstance(error, TransactionEndedError):
            PageHandler.refuse(self, error)
        else:
            super().refuse(error)
