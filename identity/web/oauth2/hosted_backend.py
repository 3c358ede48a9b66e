"""`/app/*`: the hosted backend, which keeps the tokens of single-page applications in cookies.

The cookies have the names that the published SDKs read. Scripts cannot read the access and refresh tokens.
Each cookie is sent to the registrable domain of the service, where the application and its API are; SameSite=Lax keeps
other sites from sending them, and the Origin header other hosts of the same site.
"""

from __future__ import annotations

from collections.abc import Iterator
from http.cookies import Morsel
from typing import Final

from identity.call import Call, Document
from identity.domain.objects import cors
from identity.errors import InvalidRequest, ServerError
from identity.operations.authorization import first_party_redirects
from identity.operations.clients.clients import Client
from identity.operations.pages import hosted_backend
from identity.web.base_handlers import Route
from identity.web.cross_origin import CrossOriginAccess
from identity.web.endpoint import Access, Reply, oauth_endpoint, redirect
from identity.web.oauth2.oauth_handlers import OAuth2Handler, PageHandler

ACCESS_COOKIE: Final = "app.at"
EXPIRATION_COOKIE: Final = "app.at_exp"
ID_COOKIE: Final = "app.idt"
REFRESH_COOKIE: Final = "app.rt"
BROWSER_COOKIE: Final = "app.pkce_v"
"""Binds pending logins to the browser that started them."""

_READABLE: Final = frozenset({EXPIRATION_COOKIE, ID_COOKIE})
_MAXIMUM_COOKIE_BYTES: Final = 4096
"""Browsers ignore a cookie whose name and value are longer (RFC 6265bis section 5.7)."""


class _BackendHandler(OAuth2Handler):
    """Finds the client of a request, and writes the cookies."""

    async def client(self, call: Call, given: Document, client_id: str | None) -> Client:
        """Return the client in the path or in the query. Raises InvalidRequest if they differ."""
        if client_id is not None and given.setdefault("client_id", client_id) != client_id:
            raise InvalidRequest("invalid_client_id", "The client_id of the query is not that of the path.")
        hints = self.tenant_hints(None, given)
        return await hosted_backend.find_client(self.services, call, hints, given.get("client_id"))

    def token_cookies(self, tokens: hosted_backend.CookieTokens) -> list[Morsel[str]]:
        """Return the cookies with the tokens. Raises ServerError for an access token that is too long for a cookie.

        An ID token that is too long is omitted; `/app/me` returns its claims.
        """
        values = {
            ACCESS_COOKIE: (tokens.access_token, tokens.expires_in),
            EXPIRATION_COOKIE: (str(tokens.expires_at_seconds), tokens.expires_in),
            ID_COOKIE: (tokens.id_token, tokens.expires_in),
            REFRESH_COOKIE: (tokens.refresh_token, tokens.refresh_expires_in),
        }
        if not _fits(ACCESS_COOKIE, tokens.access_token):
            raise ServerError("unknown", "The access token does not fit into a cookie: it has too many claims.")
        return [
            self.shared_cookie(name, value, seconds, tokens.domain)
            for name, (value, seconds) in values.items()
            if value is not None and _fits(name, value)
        ]

    def removed_cookies(self, domain: str | None) -> list[Morsel[str]]:
        """Return cookies that remove those with tokens."""
        names = (ACCESS_COOKIE, EXPIRATION_COOKIE, ID_COOKIE, REFRESH_COOKIE)
        return [self.shared_cookie(name, "", 0, domain) for name in names]

    def shared_cookie(self, name: str, value: str, max_age_seconds: int, domain: str | None) -> Morsel[str]:
        """Return a cookie for the whole domain; scripts can read only those that the SDKs need."""
        morsel = self.new_cookie(name, value, max_age_seconds)
        if domain is not None:
            morsel["domain"] = domain
        if name in _READABLE:
            morsel["httponly"] = ""
        return morsel


class _PageHandler(_BackendHandler, PageHandler):
    """Shared by the endpoints that browsers navigate to."""


class LoginHandler(_PageHandler):
    """The start of a login."""

    registers = False

    @oauth_endpoint(access=Access.BROWSER, query="oauth2/hosted-backend-login.request.json", answer={302: None})
    async def get(self, call: Call, client_id: str | None = None) -> Reply:
        """Redirect to the login page, or to the registration page."""
        given = self.parameters()
        client = await self.client(call, given, client_id)
        start = await hosted_backend.begin_login(
            self.services, call, client, given, self.cookie(BROWSER_COOKIE), registers=self.registers
        )
        cookie = self.new_cookie(BROWSER_COOKIE, start.browser_secret, start.ttl_seconds)
        return redirect(start.location, [cookie])


class RegisterHandler(LoginHandler):
    """The start of a registration, or of a login if the application has no self-registration."""

    registers = True


class CallbackHandler(_PageHandler):
    """The end of a login."""

    advice = "error.again"

    @oauth_endpoint(access=Access.BROWSER, query="oauth2/hosted-backend-callback.request.json", answer={302: None})
    async def get(self, call: Call) -> Reply:
        """Exchange the code, set the cookies and return to the application."""
        given = self.parameters()
        completed = await hosted_backend.complete_login(self.services, call, given, self.cookie(BROWSER_COOKIE))
        cookies = [] if completed.tokens is None else self.token_cookies(completed.tokens)
        return redirect(completed.location, cookies)


class LogoutHandler(_PageHandler):
    """The logout."""

    @oauth_endpoint(access=Access.BROWSER, query="oauth2/hosted-backend-logout.request.json", answer={302: None})
    async def get(self, call: Call, client_id: str | None = None) -> Reply:
        """Remove the cookies and redirect to the logout endpoint, which ends the session.

        For a request from another site no cookies are removed: the logout endpoint asks the user for confirmation.
        """
        given = self.parameters()
        client = await self.client(call, given, client_id)
        if self.is_cross_site():
            return redirect(hosted_backend.logout_url(client, given))
        location, domain = await hosted_backend.log_out(
            self.services, call, client, given, self.cookie(REFRESH_COOKIE), self.cookie(ID_COOKIE)
        )
        return redirect(location, self.removed_cookies(domain))


class _ScriptHandler(_BackendHandler):
    """Shared by the endpoints for scripts of the application; its settings decide about CORS."""

    cross_origin = CrossOriginAccess.BY_APPLICATION

    def page_origin(self) -> str | None:
        """Return the origin of the requesting page; None for a page of the service, or without an Origin header."""
        origin = self.request.headers.get("Origin")
        if origin is None or cors.is_same_host(origin, self.addresses.base_url(self.request), self.request.host):
            return None
        return origin

    def allow_origin(self, origin: str | None) -> None:
        """Allow the page to read the response, including an error."""
        self.set_header("Vary", "Origin")
        if origin is not None:
            self.set_header("Access-Control-Allow-Origin", origin)
            self.set_header("Access-Control-Allow-Credentials", "true")


class MeHandler(_ScriptHandler):
    """The user of the browser."""

    @oauth_endpoint(access=Access.BROWSER, answer="oauth2/userinfo.response.json")
    async def get(self, call: Call) -> Reply:
        """Return the claims of the userinfo endpoint for the access token of the cookie."""
        origin = self.page_origin()
        claims = await hosted_backend.retrieve_user(self.services, call, self.cookie(ACCESS_COOKIE), origin)
        self.allow_origin(origin)
        return Reply(claims)


class RefreshHandler(_ScriptHandler):
    """New tokens for the refresh token of the browser."""

    @oauth_endpoint(access=Access.BROWSER, query="oauth2/hosted-backend-refresh.request.json", answer=None)
    async def post(self, call: Call, client_id: str | None = None) -> Reply:
        """Refresh; 400 if the user has to log in again. The body is ignored."""
        given, origin = self.parameters(), self.page_origin()
        client = await self.client(call, given, client_id)
        hosted_backend.require_origin(self.services, origin, client.application)
        if origin is None and self.is_cross_origin():
            raise InvalidRequest("invalid_origin", "The request comes from another origin without an Origin header.")
        self.allow_origin(origin)
        tokens = await hosted_backend.refresh(
            self.services, call, client, self.cookie(REFRESH_COOKIE), self.cookie(ACCESS_COOKIE)
        )
        return Reply(cookies=self.token_cookies(tokens))


def _fits(name: str, value: str | None) -> bool:
    return value is None or len(name) + len(value) <= _MAXIMUM_COOKIE_BYTES


def _routes() -> Iterator[Route]:
    by_client = {"login": LoginHandler, "register": RegisterHandler, "refresh": RefreshHandler, "logout": LogoutHandler}
    for name, handler in by_client.items():
        yield Route(f"/app/{name}", handler)
        yield Route(f"/app/{name}/{{client_id}}", handler)
    yield Route(first_party_redirects.HOSTED_BACKEND_PATH, CallbackHandler)
    yield Route("/app/me", MeHandler)


ROUTES = list(_routes())
