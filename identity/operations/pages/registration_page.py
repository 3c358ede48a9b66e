"""The registration page, on which users create their own account and continue with the authorization request."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from identity.call import Call, Document
from identity.domain.authorization.authorization_request import AuthorizationRequest
from identity.domain.objects import ip_addresses
from identity.domain.users import families as family_rules
from identity.domain.users import self_registration
from identity.domain.users.self_registration import RegistrationField
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
    """Create the user of a form, log the user in and continue with the authorization request.

    If the email address has to be verified before the first login, no login follows, and an address in use gets the
    same response as a new one: only the owner of its mailbox learns the difference.

    Raises OAuth2Error, InvalidRequest if registration is disabled, and LambdaFailed.
    """
    step = await step_before_page(services, call, verified_client, browser)
    if step is not None:
        return step
    client, request = verified_client.client, authorization.validate(call, verified_client)
    login_id = self_registration.login_id(client.application, form)
    provider_redirect = await authorization_redirect.redirect_by_domain(
        services, call, verified_client, browser, login_id, is_persistent=is_persistent
    )
    if provider_redirect is not None:
        return provider_redirect
    try:
        user = await _create_user(services, call.within(client.tenant_id), client, request, form)
    except Invalid as error:
        if _hides_existing_users(client):
            return await _reject_without_email_in_use(services, client, form, error)
        return FormRejected(error.fields, error.general)
    except WebhookTransactionFailed:
        return FormRejected(general=[GeneralError(REJECTED, "")])
    except Unavailable:
        return FormRejected(general=[GeneralError(page_messages.SERVICE_BUSY, "")])
    if _hides_existing_users(client):
        return EmailSent(await registration_code.issue(services, client, user))
    new_login = NewLogin(user, AUTHENTICATION_TYPE, is_persistent)
    return await authorization.continue_with_login(services, call, verified_client, request, browser, new_login)


def require_enabled(client: Client) -> None:
    """Raise InvalidRequest unless users may register themselves at the application."""
    if self_registration.is_enabled(client.application):
        return
    if client.application["registrationConfiguration"]["enabled"]:
        raise InvalidRequest(
            "unknown", "The application uses advanced registration forms, which this service does not support."
        )
    raise InvalidRequest("unknown", "Self-service registration is not enabled for the application.")


def _hides_existing_users(client: Client) -> bool:
    """Whether new users log in with an email address that they have to verify first."""
    email = client.tenant["emailConfiguration"]
    is_gated = email["verifyEmail"] and email["unverified"]["behavior"] == "Gated"
    return bool(is_gated) and self_registration.login_id_field(client.application).member == "email"


async def _reject_without_email_in_use(
    services: Services, client: Client, form: Mapping[str, str], error: Invalid
) -> FormRejected | EmailSent:
    """Return all errors but an email address in use; without others, respond as for a new address, and as slowly."""
    others = [field for field in error.fields if field.code not in _EMAIL_IN_USE]
    if others or error.general:
        return FormRejected(others, error.general)
    await user_passwords.is_correct(services, client.tenant, None, form.get(self_registration.PASSWORD, ""))
    return EmailSent(await registration_code.issue(services, client, None))


async def _create_user(
    services: Services, call: Call, client: Client, request: AuthorizationRequest, form: Mapping[str, str]
) -> Document:
    """Create the user. Raises Invalid, WebhookTransactionFailed, Unavailable and LambdaFailed."""
    application = client.application
    fields = self_registration.page_fields(client.tenant, application)
    errors = self_registration.problems(fields, form) + self_registration.password_problems(application, form)
    body = self_registration.to_registration_request(application, fields, form)
    if errors or services.schemas[registrations.SCHEMA].examine(body)[1]:
        await _count_attempt(services, call, client)
        known = {error.path for error in errors}
        raise Invalid([*errors, *await _further_problems(services, call, fields, body, known)])
    _require_parent(client.tenant["familyConfiguration"], body["user"], call.now)
    await _count_attempt(services, call, client)
    user_id = new_id()
    await current_logins.require_expected(services, request, user_id)
    check = functools.partial(_require_lambda_approval, services, call, application)
    user, _ = await registrations.create_with_user(services, call, body, user_id, check)
    if "parentEmail" in user:
        await families.send_parent_mail(services, call, client.tenant, user["parentEmail"], [user])
    return user


async def _require_lambda_approval(
    services: Services, call: Call, application: Document, user: Document, registration: Document
) -> None:
    """Raise Invalid with the errors of the application's registration validation lambda."""
    field_errors, general = await login_validation_lambdas.registration_errors(
        services, call, application, user, registration
    )
    if field_errors or general:
        raise Invalid(field_errors, general)


async def _further_problems(
    services: Services, call: Call, fields: Sequence[RegistrationField], body: Document, known: Collection[str]
) -> list[FieldError]:
    """Return the other errors of a form that has errors in the `known` fields."""
    shown = {self_registration.PASSWORD, *(field.name for field in fields)}
    found = await new_users.request_problems(services, call, registrations.SCHEMA, body, None)
    return [error for error in found if error.path in shown and error.path not in known]


def _require_parent(configuration: Document, user: Document, now: Instant) -> None:
    """Raise Invalid for a child who may not register, or does not name a required parent."""
    if not family_rules.is_child(configuration, user, now):
        return
    if not configuration["allowChildRegistrations"]:
        raise Invalid.whole("[childRegistrationNotAllowed]", "Children must be registered by a parent.")
    if configuration["parentEmailRequired"] and "parentEmail" not in user:
        raise Invalid.field("blank", self_registration.PARENT_EMAIL.name, "Children must name a parent.")


async def _count_attempt(services: Services, call: Call, client: Client) -> None:
    """Count a registration attempt. Raises Invalid when the address exceeds the limit."""
    limit = Limit("register-address", ip_addresses.network(call.origin.ip_address), REGISTRATIONS, WINDOW_SECONDS)
    if await services.limits.rate_limits.consume(client.tenant_id, [limit]) is not None:
        raise Invalid.whole(page_messages.TOO_MANY_ATTEMPTS, "Too many registrations.")
