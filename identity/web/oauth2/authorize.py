"""`/oauth2/authorize`: authorization requests by GET and POST, and the login page's own form (RFC 6749 section 3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from identity.call import Call, Document
from identity.domain import redirect_uris
from identity.errors import OAuth2Error, ServerError, ServiceError
from identity.operations import authorization, request_sources, sso
from identity.operations.authorization import AuthorizationResponse, Browser, LoginPage, Proven, Step
from identity.operations.clients import Client
from identity.operations.login import Credentials
from identity.web.endpoint import Access, Reply, Route, Tenancy, endpoint
from identity.web.hosted import csrf, login, looks, render
from identity.web.oauth2.family import PAGE_OR_REDIRECT, PageHandler, oauth_error

_REQUEST: Final = "oauth2/authorize.request.json"
_FORM: Final = "oauth2/authorize.form.json"


class AuthorizeHandler(PageHandler):
    """The authorization endpoint. Once client and redirect URI are proven, failures go there and nowhere else."""

    proven: Proven | None = None

    @endpoint(access=Access.BROWSER, query=_REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Begin a request."""
        return await self.begin(call, self.parameters(_REQUEST), tenant_id)

    @endpoint(access=Access.BROWSER, form=_FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Take the login form; or begin a request, which another site may well post (OpenID Connect Core 3.1.2.1)."""
        if "loginId" in form or "password" in form:
            return await self.log_in(call, form, tenant_id)
        return await self.begin(call, form, tenant_id)

    async def begin(self, call: Call, given: Document, tenant_id: str | None) -> Reply:
        """Answer from the session, or show the login page."""
        given = await self.resolved(call, given, tenant_id)
        self.proven = await authorization.prove(self.services, call, self.tenant_hints(tenant_id, given), given)
        browser = Browser(self.cookie(sso.COOKIE), self.request.headers.get("Origin"))
        return await self.shown(await authorization.begin(self.services, call, self.proven, given, browser), given)

    async def log_in(self, call: Call, form: Document, tenant_id: str | None) -> Reply:
        """Log in, unless the form is not one that we showed to this browser."""
        form = await self.resolved(call, form, tenant_id)
        proven = await authorization.prove(self.services, call, self.tenant_hints(tenant_id, form), form)
        self.proven = proven
        if not csrf.is_valid(self, form.get(csrf.FIELD, "")):
            page = LoginPage(proven.client, form.get("loginId", ""))
            return await self.page(page, form, message=login.STALE, status=403)
        credentials = Credentials(form.get("loginId", ""), form.get("password", ""))
        step = await authorization.log_in(
            self.services, call, proven, form, Browser(self.cookie(sso.COOKIE)), credentials,
            is_persistent=form.get("rememberDevice") == "true",
        )  # fmt: skip
        return await self.shown(step, form)

    async def resolved(self, call: Call, given: Document, tenant_id: str | None) -> Document:
        """The parameters that count, whether they came with this request or were pushed."""
        hints = self.tenant_hints(tenant_id, given)
        return await request_sources.resolved(self.services, call, hints, given, browser=csrf.browser(self))

    async def shown(self, step: Step, given: Mapping[str, str]) -> Reply:
        """What a step looks like."""
        if isinstance(step, LoginPage):
            if request_sources.is_just_used(given):
                return await self.reopened(step.client, given)
            return await self.page(step, given)
        if step.mode == "form_post" and self.proven is not None:
            client = self.proven.client
            return self.response(step, await looks.of(self, client.tenant, client.application, given))
        return self.response(step)

    async def reopened(self, client: Client, given: Mapping[str, str]) -> Reply:
        """The way to the login page of a pushed request: under a name that lasts, so that the page can be reloaded."""
        token, cookie = csrf.issue(self)
        found = await request_sources.reopened(self.services, client, given, token)
        location = redirect_uris.with_query(self.request.path, found)
        return Reply(status=302, headers={"Location": location}, cookies=[cookie])

    async def page(self, page: LoginPage, given: Mapping[str, str], *, message: str = "", status: int = 200) -> Reply:
        """The login page."""
        names = self.services.schemas[_REQUEST].schema["properties"]
        remember_device = given.get("rememberDevice") == "true"
        return await login.reply(
            self, page, given, names, remember_device=remember_device, message=message, status=status
        )

    def response(self, response: AuthorizationResponse, look: looks.Look = looks.DEFAULT) -> Reply:
        """The authorization response: a redirect, never 307, which would post a password on; or a form that posts."""
        cookies = []
        if response.cookie is not None:
            cookies = [self.new_cookie(sso.COOKIE, response.cookie.secret, response.cookie.max_age_seconds)]
        if response.mode == "form_post":
            return render.form_post(response.redirect_uri, response.parameters.items(), look, cookies)
        place = redirect_uris.with_fragment if response.mode == "fragment" else redirect_uris.with_query
        return Reply(
            status=302, headers={"Location": place(response.redirect_uri, response.parameters)}, cookies=cookies
        )

    def refuse(self, error: ServiceError) -> None:
        """The error response, or the error page as long as nothing is proven."""
        if self.proven is None:
            super().refuse(error)
            return
        failure: OAuth2Error = oauth_error(error)
        self.send(self.response(authorization.refusal(self.proven, failure)))

    def fail(self) -> None:
        """An unexpected failure, which says nothing of itself."""
        self.refuse(ServerError("unknown", "The service could not answer this request."))


ROUTES = [Route("/oauth2/authorize", AuthorizeHandler), Route("/{tenant_id}/oauth2/authorize", AuthorizeHandler)]
