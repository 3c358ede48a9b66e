"""The pages of a registration form, one per step."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from identity.domain.captcha import captchas
from identity.domain.forms import field_values
from identity.operations.clients.clients import Client
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.login_transactions import RegistrationTransaction
from identity.operations.pages import page_messages, registration_steps, registration_verification
from identity.operations.pages.registration_page import FormRejected
from identity.operations.pages.registration_steps import FormStep, Steps
from identity.operations.pages.registration_verification import LoginIdVerification
from identity.services import Services
from identity.web.endpoint import Reply
from identity.web.hosted import fields, form_inputs, login, page_theme
from identity.web.hosted.fields import Field, Form
from identity.web.hosted.login_flow import TransactionPageHandler
from identity.web.hosted.page_theme import PageTheme
from identity.web.oauth2.oauth_handlers import PageHandler

STEP: Final = "step"
_RESEND_SECONDS: Final = 30
NOT_REJECTED: Final = FormRejected()


@dataclasses.dataclass(frozen=True, slots=True)
class PendingVerification:
    """What the page of a step that verifies a login id shows; `is_sent`: a code was sent and can be entered."""

    verification: LoginIdVerification
    is_sent: bool


@dataclasses.dataclass(frozen=True, slots=True)
class StepPage:
    """A step with its answers; `rejected` and `message` are the errors of the last attempt.

    `has_password`: an earlier answer has the password, which stays if its field is left blank.
    """

    client: Client
    steps: Steps
    number: int
    answers: Mapping[str, Any]
    rejected: FormRejected = NOT_REJECTED
    message: str = ""
    has_password: bool = False
    verification: PendingVerification | None = None


async def find_verification(
    services: Services, transaction: RegistrationTransaction, step: FormStep
) -> PendingVerification | None:
    """Return the state of a step that verifies a login id; None for a step with fields."""
    if not step.verifies:
        return None
    client, transaction_id = transaction.client, transaction.transaction_id
    verification = registration_verification.of(client, transaction_id, transaction.draft, step.verifies)
    return PendingVerification(verification, await registration_verification.is_sent(services, verification))


async def reply_first(
    handler: PageHandler, client: Client, given: Mapping[str, str], rejected: FormRejected, message: str
) -> Reply:
    """Return the first step, whose form has the authorization request; nothing is stored yet."""
    theme = await page_theme.load(handler, client.tenant, client.application, given)
    steps = await registration_steps.load(handler.services, client)
    answers = field_values.read(steps[0].fields, given)
    if "user.email" in answers:
        answers["user.email"] = answers["user.email"] or given.get("login_hint", "")
    page = StepPage(client, steps, 1, answers, rejected, message)
    form = dataclasses.replace(
        _form(page, theme),
        hidden=list(handler.request_parameters(given).items()),
        links=[(theme["register.login"], login.url_with_request(handler, "authorize", given))],
        remember=given.get("rememberDevice") == "true",
        captcha=captchas.find_widget(client.tenant),
    )
    return fields.page(handler, form, theme, message=message, redirect_uri=given["redirect_uri"])


async def reply_stored(handler: TransactionPageHandler, page: StepPage, transaction: RegistrationTransaction) -> Reply:
    """Return a step of a stored registration, with a link to the step before."""
    theme = await handler.load_theme(transaction)
    form = dataclasses.replace(
        _form(page, theme),
        hidden=[*handler.transaction_parameters(transaction).items(), (STEP, str(page.number))],
        links=[(theme["form.back"], url(handler, transaction, page.number - 1))] if page.number > 1 else [],
    )
    redirect_uri = transaction.verified_client.given["redirect_uri"]
    return fields.page(handler, form, theme, message=page.message, redirect_uri=redirect_uri)


def url(handler: TransactionPageHandler, transaction: RegistrationTransaction, number: int) -> str:
    """Return the URL of a step of a stored registration."""
    path = f"{login.base_path(handler)}/{login_transactions.REGISTRATION_STEPS}"
    return f"{handler.page_url(path, transaction)}&{STEP}={number}"


def _form(page: StepPage, theme: PageTheme) -> Form:
    """Return the form of a step."""
    name, total = page.client.application["name"], len(page.steps)
    hints = fields.password_hints(page.client.tenant, theme)
    shown = form_inputs.inputs(page.steps[page.number - 1].fields, page.answers, theme, hints)
    form = Form(
        title=theme.fill("register.title", name),
        heading=theme["register.heading"],
        lead=theme.fill("register.lead", name, strong=True),
        submit=theme["register.submit"] if page.number == total else theme["login.next"],
        fields=form_inputs.with_optional_password(shown) if page.has_password else shown,
        progress=theme.fill("form.step", f"{page.number} / {total}") if total > 1 else "",
    )
    form = fields.with_refusal(form, form_inputs.localized(page.rejected.fields, theme), theme, page.rejected.general)
    return form if page.verification is None else _with_verification(form, page.verification, theme)


def _with_verification(form: Form, pending: PendingVerification, theme: PageTheme) -> Form:
    """Return the form of a step with the field for its code; without it once the login id is verified."""
    login_id = pending.verification.login_id
    heading = theme["emailVerificationRequired.heading" if pending.verification.is_email else "form.verifyPhone"]
    if pending.verification.is_verified:
        return dataclasses.replace(form, heading=heading, lead=theme.fill("form.verified", login_id, strong=True))
    message = form.message or ("" if pending.is_sent else theme[page_messages.CANNOT_SEND])
    is_new = pending.is_sent and message in {"", theme[page_messages.CODE_SENT]}
    return dataclasses.replace(
        form,
        heading=heading,
        lead=theme.fill("accountPhone.code", login_id, strong=True) if pending.is_sent else login_id,
        submit=theme["verificationRequired.submit"],
        fields=[Field("oneTimeCode", theme["verificationRequired.code"], "text", "one-time-code", is_focused=True)],
        message=message,
        buttons=[(theme["verificationRequired.resend"], "action", registration_verification.RESEND)],
        wait_seconds=_RESEND_SECONDS if is_new else 0,
    )
