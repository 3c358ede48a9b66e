"""`/oauth2/register`: self-service registration in one page, or in the steps of a form; it continues the request.

`/oauth2/complete-registration` collects required fields that a user lacks (spec: hosted login, step 4).
"""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any, Final

from identity.call import Call, Document
from identity.domain.captcha import captchas
from identity.domain.forms import field_keys, field_values
from identity.domain.users import self_registration, users
from identity.errors import ServiceError
from identity.operations.authorization import just_in_time_registration, request_sources
from identity.operations.captcha import verification
from identity.operations.clients.clients import Client
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import Step, VerifiedClient
from identity.operations.login_transactions.login_transactions import (
    AuthenticatedTransaction,
    RegistrationTransaction,
    TransactionEndedError,
)
from identity.operations.pages import (
    complete_registration_page,
    page_messages,
    registration_form_page,
    registration_page,
    registration_verification,
)
from identity.operations.pages.complete_registration_page import MissingFields
from identity.operations.pages.registration_form_page import NextStep, StepRejected
from identity.operations.pages.registration_page import EmailSent, FormRejected
from identity.operations.pages.registration_verification import LoginIdVerification
from identity.web.endpoint import Reply, page_endpoint, redirect
from identity.web.hosted import csrf, fields, login, page_theme, render
from identity.web.hosted.fields import Field, Form, inputs, localized, profile_field
from identity.web.hosted.login_flow import AuthenticatedLoginHandler, LoginFlowHandler, TransactionPageHandler
from identity.web.hosted.page_theme import PageTheme
from identity.web.oauth2.oauth_handlers import AUTHORIZE_REQUEST, PageHandler, tenant_routes

_FORM: Final = "oauth2/register.form.json"
_LAST: Final = 10**6
_STEP: Final = "step"
_RESEND_SECONDS: Final = 30
NOT_REJECTED: Final = FormRejected()


class RegisterHandler(LoginFlowHandler):
    """The registration page, with the same query as the authorization endpoint."""

    advice = "error.register"

    @page_endpoint(query=AUTHORIZE_REQUEST)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the page; no user is created."""
        given, verified_client = await self.verify_registration(call, self.parameters(), tenant_id)
        step = await registration_page.step_before_page(
            self.services, call, verified_client, self.browser(from_outside=True)
        )
        if step is not None:
            return await self.render_step(step, given)
        if request_sources.must_reopen(given):
            return await self.redirect_to_reopened(verified_client.client, given, self.request.path)
        return await self.registration_page(verified_client.client, given)

    @page_endpoint(form=_FORM)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Register the user; a form without a valid CSRF token shows the page again."""
        form, verified_client = await self.verify_registration(call, form, tenant_id)
        if not csrf.has_valid_token(self, form):
            return await self.registration_page(verified_client.client, form, message=csrf.INVALID_TOKEN)
        is_persistent = form.get("rememberDevice") == "true"
        client = verified_client.client
        if problem := await verification.find_problem(self.services, call, client.tenant, form):
            return await self.registration_page(client, form, message=problem)
        uses_form = self_registration.uses_form(client.application)
        submit = registration_form_page.submit_first if uses_form else registration_page.register
        outcome = await submit(self.services, call, verified_client, self.browser(), form, is_persistent=is_persistent)
        if isinstance(outcome, StepRejected):
            outcome = outcome.rejected
        if isinstance(outcome, FormRejected):
            return await self.registration_page(client, form, refused=outcome)
        return await self.finished(client, form, outcome, is_persistent=is_persistent)

    async def finished(
        self, client: Client, given: Document, outcome: Step | EmailSent, *, is_persistent: bool
    ) -> Reply:
        """Return the step after a registration."""
        if isinstance(outcome, EmailSent) and outcome.page_id:
            query = {**self.request_parameters(given), "client_id": client.presented_client_id}
            query["tenantId"] = client.tenant_id
            return redirect(f"/email/code/{outcome.page_id}?{urllib.parse.urlencode(query)}")
        if isinstance(outcome, EmailSent):
            return await self.email_sent_page(client, given)
        reply = await self.render_step(outcome, given)
        return login.with_remember_cookie(self, reply, is_persistent=is_persistent)

    async def verify_registration(
        self, call: Call, given: Document, tenant_id: str | None
    ) -> tuple[Document, VerifiedClient]:
        """Return the request and its client. Raises InvalidRequest if the application has no self-registration."""
        given, verified_client = await self.verify_request(call, given, tenant_id)
        registration_page.require_enabled(verified_client.client)
        self.verified_client = verified_client
        return given, verified_client

    async def registration_page(
        self, client: Client, given: Document, *, refused: FormRejected = NOT_REJECTED, message: str = ""
    ) -> Reply:
        """Return the page with the values of `given`, or the first step of the application's form.

        Nothing is stored yet. `message` is the key of a page text.
        """
        theme = await page_theme.load(self, client.tenant, client.application, given)
        if self_registration.uses_form(client.application):
            form = await self.first_step(client, given, theme)
        else:
            form = _form(client, _fields(client, given, theme), theme)
        form = dataclasses.replace(
            fields.with_refusal(form, fields.localized(refused.fields, theme), theme, refused.general),
            hidden=list(self.request_parameters(given).items()),
            remember=given.get("rememberDevice") == "true",
            captcha=captchas.find_widget(client.tenant),
            links=[(theme["register.login"], login.url_with_request(self, "authorize", given))],
        )
        return fields.page(self, form, theme, message=message, redirect_uri=given["redirect_uri"])

    async def first_step(self, client: Client, given: Document, theme: PageTheme) -> Form:
        """Return the first step of the application's form."""
        steps = await registration_form_page.load_steps(self.services, client)
        answers = field_values.read(steps[0].fields, given)
        if "user.email" in answers:
            answers["user.email"] = answers["user.email"] or given.get("login_hint", "")
        hints = fields.password_hints(client.tenant, theme)
        return _form(client, fields.inputs(steps[0].fields, answers, theme, hints), theme, 1, len(steps))

    async def email_sent_page(self, client: Client, given: Mapping[str, str]) -> Reply:
        """Return the page after an email was sent; it is the same for a new address and for one in use."""
        theme = await page_theme.load(self, client.tenant, client.application, given)
        links = [(theme["selfService.login"], login.url_with_request(self, "authorize", given))]
        return render.notice("registerSent", theme, links)


class RegisterStepsHandler(RegisterHandler, TransactionPageHandler):
    """A step of a registration whose transaction is stored."""

    @page_endpoint(query="oauth2/register-steps.request.json")
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show a step with its earlier answers; without a number, the first one that is not done."""
        given = self.parameters()
        transaction = await self.find_transaction(call, given, tenant_id)
        return await self.step_page(transaction, _number(given), transaction.draft.answers)

    @page_endpoint(form=_FORM)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Store the answers and continue; a form without a valid CSRF token shows the step again."""
        transaction = await self.find_transaction(call, form, tenant_id)
        number = _number(form)
        if not csrf.has_valid_token(self, form):
            return await self.step_page(transaction, number, transaction.draft.answers, message=csrf.INVALID_TOKEN)
        outcome = await registration_form_page.submit(self.services, call, transaction, self.browser(), number, form)
        client = transaction.client
        if isinstance(outcome, NextStep):
            return redirect(self.step_url(transaction, outcome.number))
        if isinstance(outcome, StepRejected):
            return await self.rejected_page(transaction, outcome, form)
        is_persistent = transaction.draft.is_persistent
        reply = await self.finished(
            client, dict(transaction.verified_client.given), outcome, is_persistent=is_persistent
        )
        return self.without_transaction(reply, transaction)

    async def find_transaction(self, call: Call, given: Document, tenant_id: str | None) -> RegistrationTransaction:
        """Find the registration of this browser."""
        hints = self.tenant_hints(tenant_id, given)
        cookie = self.cookie(login_transactions.COOKIE)
        transaction = await registration_form_page.find(self.services, call, hints, given, cookie)
        self.verified_client = transaction.verified_client
        return transaction

    async def rejected_page(self, transaction: RegistrationTransaction, outcome: StepRejected, form: Document) -> Reply:
        """Return a step with its errors, for the new transaction if the old one was consumed."""
        if outcome.transaction is not None:
            new, answers = outcome.transaction, outcome.transaction.draft.answers
            reply = await self.step_page(new, outcome.number, answers, rejected=outcome.rejected)
            cookie = self.new_cookie(login_transactions.COOKIE, new.cookie)
            return dataclasses.replace(reply, cookies=[*reply.cookies, cookie])
        steps = await registration_form_page.load_steps(self.services, transaction.client)
        answers = field_values.read(steps[outcome.number - 1].fields, form)
        return await self.step_page(transaction, outcome.number, answers, rejected=outcome.rejected)

    async def step_page(
        self,
        transaction: RegistrationTransaction,
        number: int,
        answers: Mapping[str, Any],
        *,
        rejected: FormRejected = NOT_REJECTED,
        message: str = "",
    ) -> Reply:
        """Return a step that can be reached with the answers so far, with a link to the step before.

        Where an earlier answer has the password, it stays if its field is left blank.
        """
        client, theme = transaction.client, await self.load_theme(transaction)
        steps = await registration_form_page.load_steps(self.services, client)
        number = registration_form_page.reachable_step(transaction.draft, steps, number)
        step, hints = steps[number - 1], fields.password_hints(client.tenant, theme)
        shown = fields.inputs(step.fields, answers, theme, hints)
        if field_keys.PASSWORD in transaction.draft.answers:
            shown = fields.with_optional_password(shown)
        form = _form(client, shown, theme, number, len(steps))
        form = fields.with_refusal(form, fields.localized(rejected.fields, theme), theme, rejected.general)
        if step.verifies:
            pending = registration_verification.of(client, transaction.transaction_id, transaction.draft, step.verifies)
            is_sent = await registration_verification.is_sent(self.services, pending)
            form = _with_verification(form, pending, theme, is_sent=is_sent)
        form = dataclasses.replace(
            form,
            hidden=[*self.transaction_parameters(transaction).items(), (_STEP, str(number))],
            links=[(theme["form.back"], self.step_url(transaction, number - 1))] if number > 1 else [],
        )
        redirect_uri = transaction.verified_client.given["redirect_uri"]
        return fields.page(self, form, theme, message=message, redirect_uri=redirect_uri)

    def step_url(self, transaction: RegistrationTransaction, number: int) -> str:
        """Return the URL of a step."""
        path = f"{login.base_path(self)}/{login_transactions.REGISTRATION_STEPS}"
        return f"{self.page_url(path, transaction)}&{_STEP}={number}"

    def refuse(self, error: ServiceError) -> None:
        """Redirect the error; show an error page if the transaction ended, whose response may have been sent."""
        if isinstance(error, TransactionEndedError):
            PageHandler.refuse(self, error)
        else:
            super().refuse(error)


class CompleteRegistrationHandler(AuthenticatedLoginHandler):
    """The page of a login transaction."""

    page_name = just_in_time_registration.PAGE

    @page_endpoint(query="oauth2/consent.request.json")
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the missing fields, or continue if none is missing."""
        transaction = await self.find_transaction(call, self.parameters(), tenant_id)
        return await self.fields_page(call, transaction, {})

    @page_endpoint(form="oauth2/complete-registration.form.json")
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Handle the form; without a valid CSRF token show the page again."""
        transaction = await self.find_transaction(call, form, tenant_id)
        if not csrf.has_valid_token(self, form):
            return await self.fields_page(call, transaction, form, message=csrf.INVALID_TOKEN)
        step = await complete_registration_page.answer(self.services, call, transaction, self.browser(), form)
        # Only now: of two concurrent forms one gets a response for the application, the other an error page.
        self.verified_client = transaction.verified_client
        if isinstance(step, FormRejected):
            return await self.fields_page(call, transaction, form, refused=step)
        return await self.continue_login(transaction, step)

    async def fields_page(
        self,
        call: Call,
        transaction: AuthenticatedTransaction,
        answers: Document,
        *,
        refused: FormRejected = NOT_REJECTED,
        message: str = "",
    ) -> Reply:
        """Return the page with rejected values, or the next step; `message` is the key of a page text."""
        self.verified_client = transaction.verified_client
        step = await complete_registration_page.show(self.services, call, transaction, self.browser())
        given = transaction.verified_client.given
        if not isinstance(step, MissingFields):
            return await self.render_step(step, given)
        theme, name = await self.load_theme(transaction, step.user), step.client.application["name"]
        missing = [profile_field(field, answers.get(field.name, ""), theme) for field in step.missing.fields]
        form_fields = step.missing.form_fields
        form = Form(
            hidden=list(self.transaction_parameters(transaction).items()),
            title=theme.fill("completeRegistration.title", name),
            heading=theme["completeRegistration.heading"],
            lead=theme.fill("completeRegistration.lead", name, strong=True),
            submit=theme["completeRegistration.submit"],
            fields=[*missing, *inputs(form_fields, field_values.read(form_fields, answers), theme)],
            notes=[theme.fill("device.signedIn", users.primary_login_id(step.user), strong=True)],
        )
        form = fields.with_refusal(form, localized(refused.fields, theme), theme, refused.general)
        return fields.page(self, form, theme, message=message, redirect_uri=given["redirect_uri"])


def _form(client: Client, shown: Sequence[Field], theme: PageTheme, number: int = 1, total: int = 1) -> Form:
    """Return the form of the page, or of one of several steps."""
    name = client.application["name"]
    return Form(
        title=theme.fill("register.title", name),
        heading=theme["register.heading"],
        lead=theme.fill("register.lead", name, strong=True),
        submit=theme["register.submit"] if number == total else theme["login.next"],
        fields=shown,
        progress=theme.fill("form.step", f"{number} / {total}", number, total) if total > 1 else "",
    )


def _fields(client: Client, given: Mapping[str, str], theme: PageTheme) -> list[Field]:
    """Return all fields of the registration page with their values; passwords are never returned to the browser."""
    application = client.application
    first, *others = self_registration.page_fields(client.tenant, application)
    hint = given.get("login_hint", "") if first.member == "email" else ""
    hints = fields.password_hints(client.tenant, theme)
    found = [
        fields.profile_field(first, given.get(first.name, hint), theme),
        Field(self_registration.PASSWORD, theme["register.password"], "password", "new-password", hints=hints),
    ]
    if application["registrationConfiguration"]["confirmPassword"]:
        found.append(Field(self_registration.CONFIRM, theme["register.confirm"], "password", "new-password"))
    return [*found, *(fields.profile_field(field, given.get(field.name, ""), theme) for field in others)]


def _number(given: Document) -> int:
    """Return the number of the requested step; the last one that can be reached if there is none."""
    text = given.get(_STEP, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 4 else _LAST


def _with_verification(form: Form, pending: LoginIdVerification, theme: PageTheme, *, is_sent: bool) -> Form:
    """Return the form of a step with the field for the code that was sent; without it once the login id is verified."""
    login_id = pending.login_id
    heading = theme["emailVerificationRequired.heading" if pending.is_email else "form.verifyPhone"]
    if pending.is_verified:
        return dataclasses.replace(form, heading=heading, lead=theme.fill("form.verified", login_id, strong=True))
    message = form.message or ("" if is_sent else theme[page_messages.CANNOT_SEND])
    is_new = is_sent and message in {"", theme[page_messages.CODE_SENT]}
    return dataclasses.replace(
        form,
        heading=heading,
        lead=theme.fill("accountPhone.code", login_id, strong=True) if is_sent else login_id,
        submit=theme["verificationRequired.submit"],
        fields=[Field("oneTimeCode", theme["verificationRequired.code"], "text", "one-time-code", is_focused=True)],
        message=message,
        buttons=[(theme["verificationRequired.resend"], "action", registration_verification.RESEND)],
        wait_seconds=_RESEND_SECONDS if is_new else 0,
    )


ROUTES = tenant_routes(
    [
        ("/oauth2/register", RegisterHandler),
        (f"/oauth2/{login_transactions.REGISTRATION_STEPS}", RegisterStepsHandler),
        (f"/oauth2/{just_in_time_registration.PAGE}", CompleteRegistrationHandler),
    ]
)
