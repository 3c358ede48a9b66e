"""Validation lambdas: they can reject a login that is otherwise complete, and a self-service registration."""

from __future__ import annotations

from collections.abc import Sequence

from identity.call import Call, Document
from identity.domain.lambdas import lambdas as lambda_rules
from identity.domain.objects import event_info
from identity.domain.users import registrations, users
from identity.errors import FieldError, GeneralError, LoginPrevented
from identity.operations.lambdas import lambdas
from identity.services import Services

Errors = tuple[Sequence[FieldError], Sequence[GeneralError]]


async def require_login(
    services: Services,
    call: Call,
    tenant: Document,
    user: Document,
    application: Document | None,
    authentication_type: str,
    provider: Document | None = None,
) -> None:
    """Run the tenant's login validation. Raises LoginPrevented with its errors, and LambdaFailed.

    `provider` is the identity provider of the login.
    """
    lambda_id = tenant["lambdaConfiguration"].get("loginValidationId")
    if lambda_id is None:
        return
    registration = None if application is None else users.find_registration(user, application["id"])
    context = _context(call, application, authenticationType=authentication_type)
    if provider is not None:
        name = provider.get("name", provider["type"])
        context["identityProvider"] = {"id": provider["id"], "name": name, "identityProviderType": provider["type"]}
    fields, general = await _errors(services, call, lambda_id, "LoginValidation", user, registration, context=context)
    if fields or general:
        raise LoginPrevented(lambda_id, fields, general)


def validates_registrations(application: Document) -> bool:
    """Return whether the application has a lambda that validates registrations."""
    return application["lambdaConfiguration"].get("selfServiceRegistrationValidationId") is not None


async def registration_errors(
    services: Services,
    call: Call,
    application: Document,
    user: Document,
    registration: Document,
    form_context: Document,
) -> Errors:
    """The errors of the application's lambda about a step of a self-service registration. Raises LambdaFailed."""
    lambda_id = application["lambdaConfiguration"].get("selfServiceRegistrationValidationId")
    if lambda_id is None:
        return (), ()
    kind, context = "SelfServiceRegistrationValidation", _context(call, application)
    # Before 1.64, the form context was the only one: it keeps the members of the other.
    given = (user, registration, {**context, **form_context})
    return await _errors(services, call, lambda_id, kind, *given, context=context)


async def _errors(
    services: Services,
    call: Call,
    lambda_id: str,
    kind: str,
    user: Document,
    registration: Document | None,
    *others: Document,
    context: Document,
) -> Errors:
    registration_argument = None if registration is None else registrations.without_secrets(registration)
    result, *_ = await lambdas.invoke(
        services,
        call,
        lambda_id,
        kind,
        lambda_rules.fresh_result(),
        users.without_secrets(user),
        registration_argument,
        *others,
        context=context,
    )
    try:
        return lambda_rules.errors_of(result)
    except lambda_rules.ReturnedError as error:
        raise await lambdas.log_failure(services, call, lambda_id, str(error)) from error


def _context(call: Call, application: Document | None, **more: object) -> Document:
    """The context argument of a validation."""
    return {
        "applicationId": None if application is None else application["id"],
        "eventInfo": event_info.build(call),
        **more,
    }
