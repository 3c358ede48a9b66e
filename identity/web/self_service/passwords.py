"""`/password/*`: request a password reset, and the form that changes a password."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from identity.call import Call, Document
from identity.domain.captcha import captchas
from identity.domain.two_factor import two_factor
from identity.errors import FieldError, Invalid, InvalidRequest, NotFound, Unavailable, WebhookTransactionFailed
from identity.operations.authorization import login_resumption
from identity.operations.captcha import verification
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.login_transactions import InterruptedTransaction
from identity.operations.messaging import user_notifications
from identity.operations.pages import page_messages, password_pages
from identity.operations.pages.password_pages import PasswordForm, TwoFactorForm
from identity.operations.password_changes import password_changes
from identity.operations.passwords import user_passwords
from identity.web.base_handlers import Route
from identity.web.endpoint import Reply, page_endpoint, redirect
from identity.web.hosted import csrf
from identity.web.hosted.fields import Field, Form, form_texts, password_hints, with_errors, with_refusal
from identity.web.hosted.login_flow import LoginFlowHandler
from identity.web.self_service.page_context import REQUEST, PageContext, SelfServiceHandler

_PASSWORD: Final = "password"  # noqa: S105 (the name of a field)
_CONFIRM: Final = "passwordConfirm"

_MAXIMUM_LOGIN_ID: Final = 500


class ForgotHandler(SelfServiceHandler):
    """Sends a password reset email; the response does not reveal whether the user exists."""

    @page_endpoint(query=REQUEST)
    async def get(self, call: Call) -> Reply:
        """Show the form."""
        given = self.parameters()
        return self.forgot_page(await self.load_context(call, given), given.get("login_hint", ""))

    @page_endpoint(form="oauth2/forgot-password.form.json")
    async def post(self, call: Call, form: Document) -> Reply:
        """Send the email in the background."""
        context, login_id = await self.load_context(call, form), form.get("loginId", "").strip()
        if not csrf.has_valid_token(self, form):
            return self.forgot_page(context, login_id, csrf.INVALID_TOKEN)
        if not _sends_reset_mails(context):
            raise InvalidRequest("unknown", "Password reset emails are not enabled.")
        if not login_id:
            return self.forgot_page(context, login_id, "forgot.blank")
        if problem := await verification.find_problem(self.services, call, context.tenant, form):
            return self.forgot_page(context, login_id, problem)
        state = {name: value for name, value in context.parameters.items() if name not in {"client_id", "tenantId"}}
        try:
            await password_changes.request_reset(
                self.services, call.within(context.tenant_id), context.tenant, login_id,
                application=context.application, state=state or None,
            )  # fmt: skip
        except Unavailable:
            return self.forgot_page(context, login_id, page_messages.TOO_MANY_ATTEMPTS)
        return redirect(context.url("/password/sent"))

    def forgot_page(self, context: PageContext, login_id: str, message: str = "") -> Reply:
        """Return the form, or a notice if password reset emails are not enabled."""
        theme = context.theme
        links = context.login_links("forgot.back")
        if not _sends_reset_mails(context):
            return self.notice(context, "forgotOff", links)
        label, value = theme["login.loginId"], login_id[:_MAXIMUM_LOGIN_ID]
        form = Form(
            **form_texts(theme, "forgot"),
            fields=[Field("loginId", label, "text", "username", value, is_focused=True)],
            links=links,
            captcha=captchas.find_widget(context.tenant),
        )
        return self.form_page(context, form, message)


class SentHandler(SelfServiceHandler):
    """The page after the request, the same whether or not an email was sent."""

    @page_endpoint(query=REQUEST)
    async def get(self, call: Call) -> Reply:
        """Show the notice."""
        context = await self.load_context(call, self.parameters())
        retry = (context.theme["forgotSent.again"], context.url("/password/forgot"))
        return self.notice(context, "forgotSent", [*context.login_links("forgot.back"), retry])


class CompleteHandler(SelfServiceHandler):
    """The page after a change."""

    @page_endpoint(query=REQUEST)
    async def get(self, call: Call) -> Reply:
        """Show the notice."""
        context = await self.load_context(call, self.parameters())
        return self.notice(context, "passwordComplete", context.login_links("selfService.login"))


class ChangeHandler(SelfServiceHandler, LoginFlowHandler):
    """The form for a new password, from an email's link or during a login; a two-factor code comes first."""

    @page_endpoint(query=REQUEST)
    async def get(self, call: Call, change_id: str) -> Reply:
        """Show the form; the link is not consumed."""
        given = self.parameters()
        try:
            context, _ = await self.load_change(call, given, change_id)
            form = await password_pages.show(self.services, call, change_id, csrf.issue(self)[0])
        except NotFound:
            return await self.expired(call, given)
        return self.change_form(context, form)

    @page_endpoint(form="oauth2/change-password.form.json")
    async def post(self, call: Call, form: Document, change_id: str) -> Reply:
        """Verify a two-factor code, or set the new password."""
        browser = csrf.browser(self)
        try:
            context, transaction = await self.load_change(call, form, change_id)
            step = await password_pages.show(self.services, call, change_id, browser)
            if not csrf.has_valid_token(self, form):
                return self.change_form(context, step, message=csrf.INVALID_TOKEN)
            if isinstance(step, PasswordForm):
                return await self.set_password(call, context, step, form, change_id, transaction)
            if form.get("action") == "send":
                method_id = form.get("methodId", "")
                step = await password_pages.send_code(self.services, call, change_id, browser, method_id)
            else:
                code = form.get("code", "")
                step = await password_pages.enter_code(self.services, call, change_id, browser, code)
        except NotFound:
            return await self.expired(call, form)
        return self.change_form(context, step)

    async def load_change(
        self, call: Call, given: Document, change_id: str
    ) -> tuple[PageContext, InterruptedTransaction | None]:
        """Return the context of a change, and the login that it interrupts, if any. Raises NotFound."""
        context = await self.load_context(call, given)
        inside = call.within(context.tenant_id) if {"client_id", "tenantId"} & given.keys() else call
        valid_id = await password_changes.get_valid_id(self.services, inside, change_id)
        context = await self.load_context(call, given, valid_id.tenant)
        if "intent" not in given:
            return context, None
        hints, cookie = self.tenant_hints(None, given), self.cookie(login_transactions.COOKIE)
        transaction = await login_resumption.find_interrupted(
            self.services, call, hints, given, cookie, login_transactions.CHANGE_PASSWORD
        )
        if transaction.login.user_id != valid_id.user["id"]:
            raise login_transactions.ended()
        return context, transaction

    async def set_password(
        self,
        call: Call,
        context: PageContext,
        step: PasswordForm,
        form: Document,
        change_id: str,
        transaction: InterruptedTransaction | None,
    ) -> Reply:
        """Set the password, and resume the interrupted login. Raises NotFound."""
        password = form.get(_PASSWORD, "")
        valid_id = step.valid_id
        errors = user_passwords.form_problems(valid_id.tenant, valid_id.user, password, form.get(_CONFIRM, ""))
        if errors:
            return self.change_form(context, step, errors=errors)
        try:
            await password_pages.complete(self.services, call, step, change_id, password)
        except Invalid as error:
            return self.change_form(context, step, errors=error.fields)
        except WebhookTransactionFailed:
            return self.change_form(context, step, message=page_messages.CHANGE_REJECTED)
        except Unavailable:
            return self.change_form(context, step, message=page_messages.SERVICE_BUSY)
        if transaction is None:
            return redirect(context.url("/password/complete"))
        self.verified_client = transaction.verified_client
        login = dataclasses.replace(
            transaction.login, reason_to_change=None, authenticated_instant=self.services.clock.now()
        )
        next_step = await login_resumption.resume(self.services, call, transaction, self.browser(), login)
        return await self.render_step(next_step, transaction.verified_client.given)

    def change_form(
        self,
        context: PageContext,
        step: TwoFactorForm | PasswordForm,
        *,
        errors: Sequence[FieldError] = (),
        message: str = "",
    ) -> Reply:
        """Return the form for a two-factor code or for the password."""
        if isinstance(step, TwoFactorForm):
            return self.two_factor_page(context, step, step.message or message)
        theme, details = context.theme, step.valid_id.details
        hints = password_hints(context.tenant, theme)
        fields = [
            Field(_PASSWORD, theme["changePassword.password"], "password", "new-password", hints=hints),
            Field(_CONFIRM, theme["changePassword.confirm"], "password", "new-password"),
        ]
        form = Form(
            title=theme["changePassword.title"],
            heading=theme["changePassword.setUp" if details.is_setup else "changePassword.heading"],
            lead=theme[f"changePassword.{details.reason.lower()}"] if details.reason else "",
            submit=theme["changePassword.submit"],
            fields=fields,
        )
        return self.form_page(context, with_refusal(form, errors, theme), message)

    def two_factor_page(self, context: PageContext, step: TwoFactorForm, message: str) -> Reply:
        """Return the form for a two-factor code, with a button for each method that sends codes."""
        theme = context.theme
        is_wrong = message == password_pages.WRONG_CODE
        errors = [FieldError.of("invalid", "code", theme[message])] if is_wrong else []
        code = Field("code", theme["twoFactor.code"], "text", "one-time-code")
        form = Form(
            **form_texts(theme, "twoFactor", theme["twoFactor.sent"] if step.is_code_sent else None),
            fields=with_errors([code], errors, theme),
            buttons=send_code_buttons(context, step.methods),
        )
        return self.form_page(context, form, "" if is_wrong else message)

    async def expired(self, call: Call, given: Document) -> Reply:
        """Return the page for an invalid change password id."""
        context = await self.load_context(call, given)
        link = (context.theme["passwordOver.again"], context.url("/password/forgot"))
        return self.notice(context, "passwordOver", [link] if _sends_reset_mails(context) else ())


def send_code_buttons(context: PageContext, methods: Sequence[Document]) -> list[tuple[str, str, str]]:
    """Return a button for each two-factor method whose codes are sent; `methods` are masked."""
    members = two_factor.ADDRESS_MEMBERS
    return [
        (context.theme.fill("twoFactor.send", method[members[method["method"]]]), "methodId", method["id"])
        for method in methods
        if method["method"] in members
    ]


def _sends_reset_mails(context: PageContext) -> bool:
    """Whether tenant or application name a template for password reset emails."""
    template_id = user_notifications.template_of(context.tenant, context.application, password_changes.FORGOT_TEMPLATE)
    return template_id is not None


ROUTES = [
    Route("/password/forgot", ForgotHandler),
    Route("/password/sent", SentHandler),
    Route("/password/complete", CompleteHandler),
    Route("/password/change/{change_id}", ChangeHandler),
]
