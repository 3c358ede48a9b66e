"""Self-service: what people do for themselves on our pages. Registering, first of all."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from identity.call import Call, Document
from identity.domain.authorization.authorization_request import AuthorizationRequest
from identity.domain.objects import ip_addresses
from identity.domain.users import families as family_rules
from identity.domain.users import self_registration as rules
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
from identity.operations.passwords import user_passwords
from identity.operations.providers import authorization_redirect
from identity.operations.users import families, new_users, registrations
from identity.services import Services
from identity.store.rate_limits import Limit

REGISTRATIONS: Final = 200
WINDOW_SECONDS: Final = 900
"""How many attempts to register one address (of IPv6, one network) may make at a tenant in so many seconds."""

_TAKEN: Final = frozenset({"[duplicate]user.email", "[inactive]user.email"})

AUTHENTICATION_TYPE: Final = "REGISTRATION"


@dataclasses.dataclass(frozen=True, slots=True)
class FormRejected:
    """A form that was not accepted, and why; nothing was changed."""

    fields: Sequence[FieldError] = ()
    general: Sequence[GeneralError] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class EmailSent:
    """A mail says what came of a form, to whoever reads it: the page tells nobody whether there was an account."""


async def step_before_page(
    services: Services, call: Call, verified_client: VerifiedClient, browser: Browser
) -> Step | None:
    """What comes in place of the registration page; None when that is to be shown. Raises OAuth2Error."""
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
    """Make the user whom a form asks for, log them in, and go on with the request; or say what is wrong.

    Where nobody goes on before the address is verified, nobody is logged in either, and an address that is taken is
    answered as a new one: only who reads its mail learns which it was.

    Raises OAuth2Error, InvalidRequest where nobody may register, and LambdaFailed.
    """
    step = await step_before_page(services, call, verified_client, browser)
    if step is not None:
        return step
    client, request = verified_client.client, authorization.validate(call, verified_client)
    login_id = rules.login_id(client.application, form)
    away = await authorization_redirect.redirect_by_domain(
        services, call, verified_client, browser, login_id, is_persistent=is_persistent
    )
    if away is not None:
        return away
    try:
        user = await _registered(services, call.within(client.tenant_id), client, request, form)
    except Invalid as error:
        if not _is_discreet(client):
            return FormRejected(error.fields, error.general)
        return await _discreet(services, client, form, error)
    except WebhookTransactionFailed:
        return FormRejected(general=[GeneralError("registration.vetoed", "")])
    except Unavailable:
        return FormRejected(general=[GeneralError("[ServiceBusy]", "")])
    if _is_discreet(client):
        return EmailSent()
    fresh = NewLogin(user, AUTHENTICATION_TYPE, is_persistent)
    return await authorization.continue_with_login(services, call, verified_client, request, browser, fresh)


def require_enabled(client: Client) -> None:
    """Raise InvalidRequest where people may not register themselves."""
    if rules.is_enabled(client.application):
        return
    configured = client.application["registrationConfiguration"]
    if configured["enabled"]:
        raise InvalidRequest(
            "unknown", "The application's registration is of the type advanced, which needs forms: there are none here."
        )
    raise InvalidRequest("unknown", "The application does not let people register themselves.")


def _is_discreet(client: Client) -> bool:
    """Whether a new user cannot go on before the address is verified, which is what the user logs in with."""
    email = client.tenant["emailConfiguration"]
    is_gated = email["verifyEmail"] and email["unverified"]["behavior"] == "Gated"
    return bool(is_gated) and rules.login_id_field(client.application).member == "email"


async def _discreet(
    services: Services, client: Client, form: Mapping[str, str], error: Invalid
) -> FormRejected | EmailSent:
    """What is wrong but that the address is taken; where that is all, what a new address is answered, at its cost."""
    others = [found for found in error.fields if found.code not in _TAKEN]
    if others or error.general:
        return FormRejected(others, error.general)
    await user_passwords.is_correct(services, client.tenant, None, form.get(rules.PASSWORD, ""))
    return EmailSent()


async def _registered(
    services: Services, call: Call, client: Client, request: AuthorizationRequest, form: Mapping[str, str]
) -> Document:
    """The new user. Raises Invalid, WebhookTransactionFailed, Unavailable and LambdaFailed."""
    application = client.application
    questions = rules.page_fields(client.tenant, application)
    errors = rules.problems(questions, form) + rules.password_problems(application, form)
    body = rules.to_registration_request(application, questions, form)
    if errors or services.schemas[registrations.SCHEMA].examine(body)[1]:
        await _take(services, call, client)
        raise Invalid([*errors, *await _further(services, call, questions, body, {error.path for error in errors})])
    _require_parent(client.tenant["familyConfiguration"], body["user"], call.now)
    await _take(services, call, client)
    user_id = new_id()
    await current_logins.require_expected(services, request, user_id)

    async def approve(user: Document, registration: Document) -> None:
        fields, general = await login_validation_lambdas.registration_errors(
            services, call, application, user, registration
        )
        if fields or general:
            raise Invalid(fields, general)

    user, _ = await registrations.create_with_user(services, call, body, user_id, approve)
    if "parentEmail" in user:
        await families.send_parent_mail(services, call, client.tenant, user["parentEmail"], [user])
    return user


async def _further(
    services: Services, call: Call, questions: Sequence[RegistrationField], body: Document, known: Collection[str]
) -> list[FieldError]:
    """What else is wrong with the fields of a form that has errors already."""
    shown = {rules.PASSWORD, *(question.name for question in questions)}
    found = await new_users.request_problems(services, call, registrations.SCHEMA, body, None)
    return [error for error in found if error.path in shown and error.path not in known]


def _require_parent(configuration: Document, user: Document, now: Instant) -> None:
    """Raise Invalid for a child who may not register alone, or does not name a parent where that has to be."""
    if not family_rules.is_child(configuration, user, now):
        return
    if not configuration["allowChildRegistrations"]:
        raise Invalid.whole("[childRegistrationNotAllowed]", "Children are registered by their parents.")
    if configuration["parentEmailRequired"] and "parentEmail" not in user:
        raise Invalid.field("blank", rules.PARENT_EMAIL.name, "Children have to name a parent.")


async def _take(services: Services, call: Call, client: Client) -> None:
    """Count an attempt. Raises Invalid when the address made too many."""
    limit = Limit("register-address", ip_addresses.network(call.origin.ip_address), REGISTRATIONS, WINDOW_SECONDS)
    if await services.rate_limits.consume(client.tenant_id, [limit]) is not None:
        raise Invalid.whole("[RateLimitedException]", "Too many registrations.")
