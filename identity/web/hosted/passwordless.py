"""`/oauth2/passwordless` and `/oauth2/passwordless/{code}`: log in with an emailed link or code."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.domain.captcha import captchas
from identity.domain.login import login_outcomes
from identity.domain.objects.external_identifiers import PASSWORDLESS_LOGIN, IdSettings
from identity.errors import Unavailable
from identity.ids import fingerprint, same_secret
from identity.operations.authorization import passwordless, request_sources
from identity.operations.captcha import verification
from identity.operations.login_transactions.authorization_steps import LoginPage, StepFailed, VerifiedClient
from identity.operations.pages import passwordless_pages
from identity.web.endpoint import Reply, page_endpoint
from identity.web.hosted import csrf, fields, login, page_theme
from identity.web.hosted.fields import Field, Form
from identity.web.hosted.login_flow import LoginFlowHandler
from identity.web.oauth2.oauth_handlers import AUTHORIZE_REQUEST, tenant_routes

_FORM: Final = "oauth2/passwordless.form.json"
_PATH: Final = "/oauth2/passwordless"


class _PasswordlessHandler(LoginFlowHandler):
    """Shared by both pages."""

    advice = "error.again"

    async def verify_passwordless(
        self, call: Call, given: Document, tenant_id: str | None
    ) -> tuple[Document, VerifiedClient]:
        """Return the request and its client. Raises InvalidRequest if the application has no passwordless login."""
        given, verified_client = await self.verify_request(call, given, tenant_id)
        passwordless_pages.require_enabled(verified_client.client)
        self.verified_client = verified_client
        return given, verified_client

    def browser_mark(self, secret: str) -> str:
        """Return the parameter of a mailed link that identifies the requesting browser; it reveals no CSRF token."""
        return fingerprint(f"passwordless {secret}")[:32]

    def hidden_fields(self, given: Document) -> list[tuple[str, str]]:
        """Return the authorization request, and the choice to stay signed in, as hidden fields."""
        remember = [("rememberDevice", "true")] if given.get("rememberDevice") == "true" else []
        return [*self.request_parameters(given).items(), *remember]

    async def sent_page(
        self, verified_client: VerifiedClient, given: Document, login_id: str, code: str, *, message: str = ""
    ) -> Reply:
        """Return the page after a mail was requested, the same without a user; with a field if the mail has a code."""
        client = verified_client.client
        theme = await page_theme.load(self, client.tenant, client.application, given)
        values = {
            "action": f"{login.base_path(self)}/passwordless/{code}",
            "login_id": login_id,
            "asks_code": bool(code),
            "is_numeric": IdSettings.of(client.tenant, PASSWORDLESS_LOGIN).has_numeric_codes,
            "again": login.url_with_request(self, "passwordless", given),
            "is_good": False,
        }
        hidden, redirect_uri = [*self.hidden_fields(given), ("loginId", login_id)], given["redirect_uri"]
        return csrf.form_page(
            self, "passwordless_sent.html", values, theme, hidden, redirect_uri=redirect_uri, message=message
        )


class PasswordlessHandler(_PasswordlessHandler):
    """Prompts for a login id, and mails a link or a code to its user."""

    @page_endpoint(query=AUTHORIZE_REQUEST)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the page; no email is sent."""
        given, verified_client = await self.verify_passwordless(call, self.parameters(), tenant_id)
        step = await passwordless_pages.step_before_page(
            self.services, call, verified_client, self.browser(from_outside=True)
        )
        if step is not None:
            return await self.render_step(step, given)
        if request_sources.must_reopen(given):
            return await self.redirect_to_reopened(verified_client.client, given, self.request.path)
        return await self.request_page(verified_client, given)

    @page_endpoint(form=_FORM)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Send the email; a form without a valid CSRF token shows the page again."""
        form, verified_client = await self.verify_passwordless(call, form, tenant_id)
        if not csrf.has_valid_token(self, form):
            return await self.request_page(verified_client, form, message=csrf.INVALID_TOKEN)
        login_id, is_persistent = form.get("loginId", "").strip(), form.get("rememberDevice") == "true"
        if not login_id:
            return await self.request_page(verified_client, form)
        if problem := await verification.find_problem(self.services, call, verified_client.client.tenant, form):
            return await self.request_page(verified_client, form, message=problem)
        mark = self.browser_mark(self.cookie(csrf.COOKIE))
        step = await passwordless_pages.send_message(
            self.services, call, verified_client, self.browser(), login_id, mark, is_persistent=is_persistent
        )
        if isinstance(step, login_outcomes.TooManyAttempts):
            return await self.request_page(verified_client, form, message="[RateLimitedException]")
        if not isinstance(step, passwordless_pages.MessageSent):
            return await self.render_step(step, form)
        reply = await self.sent_page(verified_client, form, login_id, step.code)
        return login.with_remember_cookie(self, reply, is_persistent=is_persistent)

    async def request_page(self, verified_client: VerifiedClient, given: Document, *, message: str = "") -> Reply:
        """Return the page."""
        client = verified_client.client
        theme = await page_theme.load(self, client.tenant, client.application, given)
        login_id = given.get("loginId") or given.get("login_hint", "")
        name = client.application["name"]
        remember = given.get("rememberDevice") if "loginId" in given else self.cookie(login.REMEMBER_COOKIE)
        form = Form(
            hidden=list(self.request_parameters(given).items()),
            title=theme.fill("passwordless.title", name),
            heading=theme["passwordless.heading"],
            lead=theme.fill("passwordless.lead", name, strong=True),
            submit=theme["passwordless.submit"],
            fields=[Field("loginId", theme["login.loginId"], "text", "username", login_id, is_focused=True)],
            remember=remember == "true",
            captcha=captchas.find_widget(client.tenant),
            links=[(theme["passwordless.login"], login.url_with_request(self, "authorize", given))],
        )
        return fields.page(self, form, theme, message=message, redirect_uri=given["redirect_uri"])


class LinkHandler(_PasswordlessHandler):
    """The mailed link. A GET consumes nothing. The requesting browser continues by itself, others confirm the login."""

    @page_endpoint(query="oauth2/passwordless-link.request.json")
    async def get(self, call: Call, code: str, tenant_id: str | None = None) -> Reply:
        """Show the page that continues, or that requests confirmation."""
        given, verified_client = await self.verify_passwordless(call, self.parameters(), tenant_id)
        step = await passwordless_pages.step_before_page(self.services, call, verified_client, self.browser())
        if step is not None:
            return await self.render_step(step, given)
        return await self.confirmation_page(call, verified_client, given, code)

    @page_endpoint(form=_FORM)
    async def post(self, call: Call, code: str, form: Document, tenant_id: str | None = None) -> Reply:
        """Log in; a form without a valid CSRF token shows the page again."""
        form, verified_client = await self.verify_passwordless(call, form, tenant_id)
        one_time_code, login_id = form.get("oneTimeCode"), form.get("loginId", "")
        asks_code = passwordless.uses_one_time_code(verified_client.client)
        if not csrf.has_valid_token(self, form):
            if asks_code:
                return await self.sent_page(verified_client, form, login_id, code, message=csrf.INVALID_TOKEN)
            return await self.confirmation_page(call, verified_client, form, code, message=csrf.INVALID_TOKEN)
        is_persistent = form.get("rememberDevice") == "true"
        step = await passwordless_pages.log_in(
            self.services, call, verified_client, self.browser(), code, one_time_code, is_persistent=is_persistent
        )
        if step is None:
            return await self.sent_page(verified_client, form, login_id, code, message="passwordless.wrongCode")
        return await self.render_step(step, form)

    async def confirmation_page(
        self, call: Call, verified_client: VerifiedClient, given: Document, code: str, *, message: str = ""
    ) -> Reply:
        """Return the page; it names the user, unless this is the requesting browser."""
        secret, client = self.cookie(csrf.COOKIE), verified_client.client
        mark = given.get(passwordless_pages.BROWSER_PARAMETER, "")
        is_same = bool(secret) and not message and same_secret(mark, self.browser_mark(secret))
        login_id: str | None = ""
        if not is_same:
            try:
                login_id = await passwordless_pages.find_login_id(self.services, call, verified_client, code)
            except Unavailable:
                return await self.login_page(LoginPage(client, problem=login_outcomes.TooManyAttempts(0)), given)
        if login_id is None:
            return await self.login_page(LoginPage(client, problem=StepFailed("passwordless.over")), given)
        theme = await page_theme.load(self, client.tenant, client.application, given)
        values = {
            "application_name": client.application["name"],
            "login_id": login_id,
            "is_good": False,
            "is_own": is_same,
        }
        hidden, redirect_uri = self.hidden_fields(given), given["redirect_uri"]
        return csrf.form_page(
            self, "passwordless_confirm.html", values, theme, hidden, redirect_uri=redirect_uri, message=message
        )


ROUTES = tenant_routes([(_PATH, PasswordlessHandler), (_PATH + "/{code}", LinkHandler)])
