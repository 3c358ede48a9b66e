"""The registration page, on which users create their own account and continue with the authorization request."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from identity.call import Call, Document
from identity.domain.authorization.authorization_request import AuthorizationRequest
from identity.domain.lambdas import lambdas as lambda_rules
from identity.domain.objects import ip_addresses
from identity.domain.objects.owner_settings import EmailVerification
from identity.domain.users import families as family_rules
from identity.domain.users import self_registration
from identity.domain.users import users as user_rules
from identity.errors import (
    FieldError,
    GeneralError,
    Invalid,
    InvalidRequest,
    Unavailable,
    WebhookTransactionFailed,
)
from identity.ids import new_id
from identity.instants import Instant
from identity.operations.authorization import authorization, current_logins
from identity.operations.clients.clients import Client
from identity.operations.forms import form_consents
from identity.operations.forms.form_consents import GivenConsent
from identity.operations.lambdas import login_validation_lambdas
from identity.operations.login_transactions.authorization_steps import Browser, NewLogin, Step, VerifiedClient
from identity.operations.pages import page_messages, registration_code
from identity.operations.passwords import user_passwords
from identity.operations.providers import authorization_redirect
from identity.operations.users import families, new_users, registrations
from identity.services import Services
from identity.store.rate_limits import Limit

REGISTRATIONS: Final = 200
WINDOW_SECONDS: Final = 900
"""The maximum number of registration attempts per window from one address (of IPv6, one network) at a tenant."""

AUTHENTICATION_TYPE: Final = "REGISTRATION"
REJECTED: Final = "registration.vetoed"
"""The page text for a registration that a webhook vetoed."""

_EMAIL_IN_USE: Final = frozenset({"[duplicate]user.email", "[inactive]user.email"})


@dataclasses.dataclass(frozen=True, slots=True)
class FormRejected:
    """The errors of a form; nothing was changed."""

    fields: Sequence[FieldError] = ()
    general: Sequence[GeneralError] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Submission:
    """A submitted registration: the request of the registration API that it makes.

    `shown` are the names of its fields, `errors` those of its values. `consents` are the consents that it gives.
    `has_verified_email`: the user has entered the code that was sent to the address. `form_context` is that of the
    validation lambda.
    """

    body: Document = dataclasses.field(repr=False)
    shown: frozenset[str]
    errors: Sequence[FieldError]
    consents: Sequence[GivenConsent] = ()
    has_verified_email: bool = False
    form_context: Document = dataclasses.field(
        default_factory=lambda: lambda_rules.form_context(None, [], 1, 1), repr=False
    )

    @property
    def has_email(self) -> bool:
        """Whether it has an email address."""
        return bool(self.body["user"].get("email"))

    @property
    def login_id(self) -> str:
        """The login id in the form in which login ids are compared."""
        user = self.body["user"]
        members = ("email", "username", "phoneNumber")
        return user_rules.login_key(next((user[name] for name in members if user.get(name)), ""))


@dataclasses.dataclass(frozen=True, slots=True)
class EmailSent:
    """The result is sent by email, so that the page does not reveal whether the account existed.

    `page_id` is that of the page for the code of the email; empty if the email contains a link.
    """

    page_id: str = ""


async def step_before_page(
    services: Services, call: Call, verified_client: VerifiedClient, browser: Browser
) -> Step | None:
    """Return the step that replaces the registration page; None if the page has to be shown. Raises OAuth2Error."""
    require_enabled(verified_client.client)
    return await authorization.step_without_page(services, call, verified_client, browser)


async def register(
    services: Services,
    call: Call,
    verified_client: VerifiedClient,
    browser: Browser,
    form: Mapping[str, str],
    *,
    is_persistent: bool,
) -> Step | FormRejected | EmailSent:
    """Register the user of a form with the configured fields: see `complete`."""
    client = verified_client.client
    application = client.application
    fields = self_registration.page_fields(client.tenant, application)
    submission = Submission(
        self_registration.to_registration_request(application, fields, form),
        frozenset({self_registration.PASSWORD, *(field.name for field in fields)}),
        [*self_registration.problems(fields, form), *self_registration.password_problems(application, form)],
    )
    return await complete(services, call, verified_client, browser, submission, is_persistent=is_persistent)


async def complete(
    services: Services,
    call: Call,
    verified_client: VerifiedClient,
    browser: Browser,
    submission: Submission,
    *,
    is_persistent: bool,
) -> Step | FormRejected | EmailSent:
    """Create the user of a submission, log the user in and continue with the authorization request.

    If the email address has to be verified before the first login, no login follows, and an address in use gets the
    same response as a new one: only the owner of its mailbox learns the difference.

    Raises OAuth2Error, InvalidRequest if registration is disabled, and LambdaFailed.
    """
    step = await step_before_page(services, call, verified_client, browser)
    if step is not None:
        return step
    client, request = verified_client.client, authorization.validate(call, verified_client)
    provider_redirect = await authorization_redirect.redirect_by_domain(
        services, call, verified_client, browser, submission.login_id, is_persistent=is_persistent
    )
    if provider_redirect is not None:
        return provider_redirect
    try:
        user = await _create_user(services, call.within(client.tenant_id), client, request, submission)
    except Invalid as error:
        if hides_existing_users(client, submission):
            return await _reject_without_email_in_use(services, client, submission, error)
        return FormRejected(error.fields, error.general)
    except WebhookTransactionFailed:
        return FormRejected(general=[GeneralError(REJECTED, "")])
    except Unavailable:
        return FormRejected(general=[GeneralError(page_messages.SERVICE_BUSY, "")])
    if hides_existing_users(client, submission):
        return EmailSent(await registration_code.issue(services, client, user))
    new_login = NewLogin(user, AUTHENTICATION_TYPE, is_persistent)
    return await authorization.continue_with_login(services, call, verified_client, request, browser, new_login)


def require_enabled(client: Client) -> None:
    """Raise InvalidRequest unless users may register themselves at the application."""
    if not self_registration.is_enabled(client.application):
        raise InvalidRequest("unknown", "Self-service registration is not enabled for the application.")


def hides_existing_users(client: Client, submission: Submission) -> bool:
    """Whether new users log in with an email address that they have to verify first."""
    is_gated = EmailVerification.of(client.tenant).is_gated
    return is_gated and submission.has_email and not submission.has_verified_email


def without_email_in_use(errors: Iterable[FieldError]) -> list[FieldError]:
    """Return the errors that do not reveal that an email address is in use."""
    return [error for error in errors if error.code not in _EMAIL_IN_USE]


async def _reject_without_email_in_use(
    services: Services, client: Client, submission: Submission, error: Invalid
) -> FormRejected | EmailSent:
    """Return all errors but an email address in use; without others, respond as for a new address, and as slowly."""
    others = without_email_in_use(error.fields)
    if others or error.general:
        return FormRejected(others, error.general)
    await user_passwords.is_correct(services, client.tenant, None, submission.body["user"].get("password", ""))
    return EmailSent(await registration_code.issue(services, client, None))


async def _create_user(
    services: Services, call: Call, client: Client, request: AuthorizationRequest, submission: Submission
) -> Document:
    """Create the user. Raises Invalid, WebhookTransactionFailed, Unavailable and LambdaFailed."""
    body = submission.body
    if submission.errors or services.schemas[registrations.SCHEMA].examine(body)[1]:
        await count_attempt(services, call, client)
        raise Invalid([*submission.errors, *await further_problems(services, call, submission)])
    _require_parent(client.tenant["familyConfiguration"], body["user"], call.now)
    await count_attempt(services, call, client)
    user_id = new_id()
    await current_logins.require_expected(services, request, user_id)
    check = functools.partial(_require_approval, services, call, client.application, submission)
    user, _ = await registrations.create_with_user(services, call, body, user_id, check)
    for consent in submission.consents:
        await form_consents.give(services, call, user, consent)
    if "parentEmail" in user:
        await families.send_parent_mail(services, call, client.tenant, user["parentEmail"], [user])
    return user


async def _require_approval(
    services: Services,
    call: Call,
    application: Document,
    submission: Submission,
    user: Document,
    registration: Document,
) -> None:
    """Raise Invalid for consents that the user is too young for, and with the errors of the validation lambda."""
    too_young = form_consents.age_problems(submission.consents, user, call.now)
    field_errors, general = await login_validation_lambdas.registration_errors(
        services, call, application, user, registration, submission.form_context
    )
    if too_young or field_errors or general:
        raise Invalid([*too_young, *field_errors], general)


async def further_problems(services: Services, call: Call, submission: Submission) -> list[FieldError]:
    """Return the errors of the fields of a submission that are not among its own ones."""
    known = {error.path for error in submission.errors}
    found = await new_users.request_problems(services, call, registrations.SCHEMA, submission.body, None)
    return [error for error in found if error.path in submission.shown and error.path not in known]


def _require_parent(configuration: Document, user: Document, now: Instant) -> None:
    """Raise Invalid for a child who may not register, or does not name a required parent."""
    if not family_rules.is_child(configuration, user, now):
        return
    if not configuration["allowChildRegistrations"]:
        raise Invalid.whole("[childRegistrationNotAllowed]", "Children must be registered by a parent.")
    if configuration["parentEmailRequired"] and "parentEmail" not in user:
        raise Invalid.field("blank", self_registration.PARENT_EMAIL.name, "Children must name a parent.")


async def count_attempt(services: Services, call: Call, client: Client) -> None:
    """Count a registration attempt. Raises Invalid when the address exceeds the limit."""
    limit = Limit("register-address", ip_addresses.network(call.origin.ip_address), REGISTRATIONS, WINDOW_SECONDS)
    if await services.limits.rate_limits.consume(client.tenant_id, [limit]) is not None:
        raise Invalid.whole(page_messages.TOO_MANY_ATTEMPTS, "Too many registrations.")
