"""`/oauth2/passwordless` and `/oauth2/passwordless/{code}`: log in with an emailed link or code."""

from __future__ import annotations

import dataclasses
import secrets
from typing import Final

from identity.call import Call, Document
from identity.domain.login import login_outcomes
from identity.errors import Unavailable
from identity.ids import fingerprint, same_secret
from identity.operations.authorization import authorization, passwordless, request_sources
from identity.operations.login_transactions.authorization_steps import LoginPage, StepFailed, VerifiedClient
from identity.operations.pages import passwordless_pages
from identity.operations.pages.passwordless_pages import MessageSent
from identity.web.base_handlers import Route
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import csrf, fields, login, page_theme, render
from identity.web.hosted.fields import Field, Form
from identity.web.oauth2.login_flow import REQUEST, LoginFlowHandler
from identity.web.oauth2.oauth_handlers import PAGE_OR_REDIRECT

_LINK: Final = "oauth2/passwordless-link.request.json"
_FORM: Final = "oauth2/passwordless.form.json"
_PATH: Final = "/oauth2/passwordless"


class _Family(LoginFlowHandler):
    """What both pages have in common."""

    advice = "error.again"

    async def opened(self, call: Call, given: Document, tenant_id: str | None) -> tuple[Document, VerifiedClient]:
        """The request, of an application that offers such logins. Raises InvalidRequest for any other."""
        given = await self.resolved(call, given, tenant_id)
        verified_client = await authorization.verify_client(
            self.services, call, self.tenant_hints(tenant_id, given), given
        )
        passwordless_pages.require_enabled(verified_client.client)
        self.verified_client = verified_client
        return given, verified_client

    def mark(self, secret: str) -> str:
        """What the link of a mail says of the browser that asked; of no use for forging a form of it."""
        return fingerprint(f"passwordless {secret}")[:32]

    def carried(self, given: Document, token: str) -> list[tuple[str, str]]:
        """What a form carries along of the request."""
        names, kept = self.services.schemas[REQUEST].schema["properties"], request_sources.form_parameters(given)
        return [*((name, kept[name]) for name in names if name in kept), (csrf.FIELD, token)]

    async def sent(
        self,
        verified_client: VerifiedClient,
        given: Document,
        login_id: str,
        code: str,
        *,
        message: str = "",
    ) -> Reply:
        """The page after a mail was asked for, whether anybody gets one or not; with a field where it has a code."""
        client = verified_client.client
        look = await page_theme.load(self, client.tenant, client.application, given)
        token, cookie = csrf.issue(self)
        generator = client.tenant["externalIdentifierConfiguration"]["passwordlessLoginOneTimeCodeGenerator"]
        remember = [("rememberDevice", "true")] if given.get("rememberDevice") == "true" else []
        values = {
            "action": f"{login.base_path(self)}/passwordless/{code}",
            "hidden": [*self.carried(given, token), ("loginId", login_id), *remember],
            "login_id": login_id,
            "asks_code": bool(code),
            "is_numeric": generator["type"] == "randomDigits",
            "again": login.url_with_request(self, "passwordless", given, self.names()),
            "message": look[message] if message else "",
            "is_good": False,
        }
        reply = render.form(
            "passwordless_sent.html",
            values,
            look,
            redirect_uri=given["redirect_uri"],
            cookies=[cookie],
        )
        return csrf.with_status(reply, message)

    def names(self) -> list[str]:
        """The parameters of an authorization request."""
        return list(self.services.schemas[REQUEST].schema["properties"])


class PasswordlessHandler(_Family):
    """Asks for a login id, and mails a link or a code to its user."""

    @endpoint(access=Access.BROWSER, query=REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the page; no email is sent."""
        given, verified_client = await self.opened(call, self.parameters(REQUEST), tenant_id)
        step = await passwordless_pages.step_before_page(
            self.services, call, verified_client, self.browser(from_outside=True)
        )
        if step is not None:
            return await self.shown(step, given)
        if request_sources.must_reopen(given):
            return await self.reopened(verified_client.client, given, self.request.path)
        return await self.asked(verified_client, given)

    @endpoint(access=Access.BROWSER, form=_FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Send the email; a form without a valid CSRF token shows the page again."""
        form, verified_client = await self.opened(call, form, tenant_id)
        if not csrf.has_valid_token(self, form):
            return await self.asked(verified_client, form, message=csrf.INVALID_TOKEN)
        login_id, is_persistent = form.get("loginId", "").strip(), form.get("rememberDevice") == "true"
        if not login_id:
            return await self.asked(verified_client, form)
        step = await passwordless_pages.send_message(
            self.services,
            call,
            verified_client,
            self.browser(),
            login_id,
            self.mark(self.cookie(csrf.COOKIE)),
            is_persistent=is_persistent,
        )
        if isinstance(step, login_outcomes.TooManyAttempts):
            return await self.asked(verified_client, form, message="[RateLimitedException]")
        if not isinstance(step, MessageSent):
            return await self.shown(step, form)
        reply = await self.sent(verified_client, form, login_id, step.code)
        remembered = login.remember_cookie(self, is_persistent=is_persistent)
        return dataclasses.replace(reply, cookies=[*reply.cookies, remembered])

    async def asked(self, verified_client: VerifiedClient, given: Document, *, message: str = "") -> Reply:
        """The page."""
        client = verified_client.client
        look = await page_theme.load(self, client.tenant, client.application, given)
        token, cookie = csrf.issue(self)
        login_id = given.get("loginId") or given.get("login_hint", "")
        name = client.application["name"]
        chosen = given.get("rememberDevice") if "loginId" in given else self.cookie(login.REMEMBER_COOKIE)
        form = Form(
            action=self.request.path,
            hidden=self.carried(given, token),
            title=look.fill("passwordless.title", name),
            heading=look["passwordless.heading"],
            lead=look.fill("passwordless.lead", name, strong=True),
            submit=look["passwordless.submit"],
            fields=[Field("loginId", look["login.loginId"], "text", "username", login_id, is_focused=True)],
            message=look[message] if message else "",
            remember=chosen == "true",
            links=[(look["passwordless.login"], login.url_with_request(self, "authorize", given, self.names()))],
        )
        page = fields.page(form, look, redirect_uri=given["redirect_uri"], cookies=[cookie])
        return csrf.with_status(page, message)


class LinkHandler(_Family):
    """The link of a mail. Looking at it uses nothing up; the browser that asked goes on by itself, any other asks."""

    @endpoint(access=Access.BROWSER, query=_LINK, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, code: str, tenant_id: str | None = None) -> Reply:
        """Show the page that goes on, or asks whether to."""
        given, verified_client = await self.opened(call, self.parameters(_LINK), tenant_id)
        step = await passwordless_pages.step_before_page(self.services, call, verified_client, self.browser())
        if step is not None:
            return await self.shown(step, given)
        return await self.confirmed(call, verified_client, given, code)

    @endpoint(access=Access.BROWSER, form=_FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, code: str, form: Document, tenant_id: str | None = None) -> Reply:
        """Log in; a form without a valid CSRF token shows the page again."""
        form, verified_client = await self.opened(call, form, tenant_id)
        one_time_code, login_id = form.get("oneTimeCode"), form.get("loginId", "")
        asks_code = passwordless.uses_one_time_code(verified_client.client)
        if not csrf.has_valid_token(self, form):
            if asks_code:
                return await self.sent(verified_client, form, login_id, code, message=csrf.INVALID_TOKEN)
            return await self.confirmed(call, verified_client, form, code, message=csrf.INVALID_TOKEN)
        is_persistent = form.get("rememberDevice") == "true"
        step = await passwordless_pages.log_in(
            self.services, call, verified_client, self.browser(), code, one_time_code, is_persistent=is_persistent
        )
        if step is None:
            return await self.sent(verified_client, form, login_id, code, message="passwordless.wrongCode")
        return await self.shown(step, form)

    async def confirmed(
        self,
        call: Call,
        verified_client: VerifiedClient,
        given: Document,
        code: str,
        *,
        message: str = "",
    ) -> Reply:
        """The page: it says who is about to be logged in, unless this is the browser that asked."""
        secret, client = self.cookie(csrf.COOKIE), verified_client.client
        is_same = (
            bool(secret)
            and not message
            and same_secret(given.get(passwordless_pages.BROWSER_PARAMETER, ""), self.mark(secret))
        )
        login_id: str | None = ""
        if not is_same:
            try:
                login_id = await passwordless_pages.find_login_id(self.services, call, verified_client, code)
            except Unavailable:
                return await self.page(LoginPage(client, problem=login_outcomes.TooManyAttempts(0)), given)
        if login_id is None:
            return await self.page(LoginPage(client, problem=StepFailed("passwordless.over")), given)
        look = await page_theme.load(self, client.tenant, client.application, given)
        token, cookie = csrf.issue(self)
        nonce = secrets.token_urlsafe(16) if is_same else None
        remember = [("rememberDevice", "true")] if given.get("rememberDevice") == "true" else []
        values = {
            "application_name": client.application["name"],
            "action": self.request.path,
            "hidden": [*self.carried(given, token), *remember],
            "login_id": login_id,
            "message": look[message] if message else "",
            "is_good": False,
            "nonce": nonce,
        }
        reply = render.form(
            "passwordless_confirm.html",
            values,
            look,
            redirect_uri=given["redirect_uri"],
            cookies=[cookie],
            nonce=nonce,
        )
        return csrf.with_status(reply, message)


ROUTES = [
    Route(prefix + path, handler)
    for path, handler in ((_PATH, PasswordlessHandler), (_PATH + "/{code}", LinkHandler))
    for prefix in ("", "/{tenant_id}")
]
