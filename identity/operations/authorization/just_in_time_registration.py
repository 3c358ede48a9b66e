"""Just-in-time registration: a login registers its user for the application, if self-service registration is enabled.

Required fields that the user lacks are collected first, on the page `/oauth2/complete-registration`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from identity.call import Call, Document
from identity.domain.authorization.authorization_request import AuthorizationRequest
from identity.domain.users import registrations as registration_rules
from identity.domain.users import self_registration
from identity.domain.users import users as user_rules
from identity.domain.users.self_registration import RegistrationField
from identity.errors import (
    InteractionRequired,
    Invalid,
    LoginPrevented,
    WebhookTransactionFailed,
)
from identity.events.changes import Change
from identity.operations.clients.clients import Client
from identity.operations.lambdas import login_validation_lambdas
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import (
    CurrentLogin,
    IntermediatePage,
    Problem,
    RejectedByLambda,
    RejectedByWebhook,
    VerifiedClient,
)
from identity.operations.messaging import user_events
from identity.operations.objects import crud
from identity.operations.users import registrations
from identity.services import Services

PAGE = "complete-registration"
"""The last path segment of the page that collects missing fields."""

_USER = "api/user.json"


def is_due(client: Client, user: Document) -> bool:
    """Whether a login has to register the user, or to collect missing fields. Decided from memory."""
    if not self_registration.is_basic(client.application):
        return False
    if user_rules.find_registration(user, client.client_id) is None:
        return True
    return bool(missing_fields(client, user))


def missing_fields(client: Client, user: Document) -> tuple[RegistrationField, ...]:
    """Return the fields to collect; for a registered user only if the application sets `completeRegistration`."""
    is_registered = user_rules.find_registration(user, client.client_id) is not None
    if is_registered and not client.application["registrationConfiguration"]["completeRegistration"]:
        return ()
    return self_registration.missing_fields(client.application, user)


async def register_at_login(
    services: Services,
    call: Call,
    verified_client: VerifiedClient,
    request: AuthorizationRequest,
    current: CurrentLogin,
) -> CurrentLogin | Problem | IntermediatePage:
    """Register the user of a login; or return the page that collects missing fields, or what rejected the registration.

    Under `prompt=none` no user is registered. Raises InteractionRequired if fields are missing then.
    """
    client, user = verified_client.client, current.user
    missing = missing_fields(client, user)
    if request.forbids_pages:
        if missing:
            raise InteractionRequired("registration_missing_requirement", "The user has to complete the registration.")
        return current
    if missing:
        return await login_transactions.store_authenticated(services, verified_client, current, PAGE)
    try:
        return dataclasses.replace(current, user=await register(services, call, client, user["id"], {}))
    except LoginPrevented as error:
        return RejectedByLambda(tuple(error.messages))
    except WebhookTransactionFailed:
        return RejectedByWebhook()


async def register(services: Services, call: Call, client: Client, user_id: str, form: Mapping[str, str]) -> Document:
    """Register a user with the missing fields from a form, and return the stored user.

    A concurrent registration is kept. Raises Invalid for missing or invalid fields, LoginPrevented if the validation
    lambda rejects the registration, LambdaFailed, and WebhookTransactionFailed.
    """
    call = call.within(client.tenant_id)
    user, is_new = await _attempt(services, call, client, user_id, form)
    if is_new:
        await registrations.start_verification(services, call, user, client.client_id)
    return user


@crud.retry_on_conflict
async def _attempt(
    services: Services, call: Call, client: Client, user_id: str, form: Mapping[str, str]
) -> tuple[Document, bool]:
    """Return the stored user and whether the registration is new. Raises Conflict for a concurrent change."""
    stored = await services.directory.users.get(client.tenant_id, user_id)
    changed = {**stored, **_read_fields(services, missing_fields(client, stored), form)}
    is_new = user_rules.find_registration(stored, client.client_id) is None
    return await _write(services, call, client, stored, changed), is_new


def _read_fields(services: Services, missing: tuple[RegistrationField, ...], form: Mapping[str, str]) -> Document:
    """Return the user members of a form. Raises Invalid."""
    errors = self_registration.problems(missing, form)
    members = self_registration.read_values(missing, form)
    names = {question.name for question in missing}
    try:
        user: Document = services.schemas[_USER].read({"user": members})["user"]
        errors += [error for error in user_rules.problems(user) if error.path in names]
    except Invalid as error:
        reported = {field_error.path for field_error in errors}
        errors += [each for each in error.fields if each.path in names and each.path not in reported]
    crud.require_no_errors(errors)
    return members


async def _write(services: Services, call: Call, client: Client, stored: Document, changed: Document) -> Document:
    """Write the changed user and a missing registration in one transaction, with the events of both."""
    before_commit, after_commit = [], []
    update_instant = max(call.now, int(stored["lastUpdateInstant"]) + 1)
    user = user_rules.with_derived_members({**changed, "lastUpdateInstant": update_instant})
    if changed != stored:
        before_commit += user_events.before_update(stored, user)
        after_commit += user_events.after_update(stored, user, new_password=False)
    if user_rules.find_registration(stored, client.client_id) is None:
        registration = registrations.default_registration(services, call, client.application)
        await _require_approved(services, call, client, user, registration)
        user = user_rules.with_derived_members(registration_rules.with_registration(user, registration))
        before_commit.append(user_events.registration_event("user.registration.create", user, registration))
        after_commit.append(user_events.registration_event("user.registration.create.complete", user, registration))
    if before_commit:
        write = functools.partial(services.directory.users.replace, client.tenant_id, user, stored["lastUpdateInstant"])
        await services.bus.commit(call, Change([write], before_commit, after_commit))
        return user
    return stored


async def _require_approved(
    services: Services, call: Call, client: Client, user: Document, registration: Document
) -> None:
    """Run the validation lambda of self-service registration, which a login must not bypass. Raises LoginPrevented."""
    fields, general = await login_validation_lambdas.registration_errors(
        services, call, client.application, user, registration
    )
    if fields or general:
        raise LoginPrevented("", fields, general)
