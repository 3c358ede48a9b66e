"""Just-in-time registration: a login registers its user for the application, if self-service registration is enabled.

Required fields that the user lacks are collected first, on the page `/oauth2/complete-registration`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

from identity import write_guard
from identity.call import Call, Document
from identity.domain.authorization.authorization_request import AuthorizationRequest
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID
from identity.domain.forms import field_values, form_requests
from identity.domain.lambdas import lambdas as lambda_rules
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
from identity.operations.forms import form_consents, forms, missing_answers
from identity.operations.forms.form_consents import GivenConsent
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


@dataclasses.dataclass(frozen=True, slots=True)
class Missing:
    """The fields to collect: configured ones, or those of the application's form."""

    fields: Sequence[RegistrationField] = ()
    form_fields: Sequence[Document] = ()

    def __bool__(self) -> bool:
        return bool(self.fields or self.form_fields)


def is_due(client: Client, user: Document) -> bool:
    """Whether a login has to register the user, or to look for missing fields. Decided from memory."""
    if not self_registration.is_enabled(client.application):
        return False
    if user_rules.find_registration(user, client.client_id) is None:
        return True
    if not client.application["registrationConfiguration"]["completeRegistration"]:
        return False
    return self_registration.uses_form(client.application) or bool(_missing_fields(client, user))


async def find_missing(services: Services, client: Client, user: Document) -> Missing:
    """Return the fields to collect; for a registered user only if the application sets `completeRegistration`."""
    is_registered = user_rules.find_registration(user, client.client_id) is not None
    if is_registered and not client.application["registrationConfiguration"]["completeRegistration"]:
        return Missing()
    if self_registration.uses_form(client.application):
        return Missing(form_fields=await missing_answers.find(services, client.application, user))
    return Missing(_missing_fields(client, user))


def _missing_fields(client: Client, user: Document) -> tuple[RegistrationField, ...]:
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
    missing = await find_missing(services, client, user)
    if request.forbids_pages:
        if missing:
            raise InteractionRequired("registration_missing_requirement", "The user has to complete the registration.")
        return current
    if missing:
        return await login_transactions.store_authenticated(services, verified_client, current, PAGE)
    try:
        return dataclasses.replace(current, user=await register(services, call, client, user["id"], {}))
    except LoginPrevented as error:
        return RejectedByLambda(error.texts)
    except WebhookTransactionFailed:
        return RejectedByWebhook()


async def register(services: Services, call: Call, client: Client, user_id: str, form: Mapping[str, str]) -> Document:
    """Register a user with the missing fields from a form, and return the stored user.

    A concurrent registration is kept. Raises Invalid for missing or invalid fields, LoginPrevented if the validation
    lambda rejects the registration, LambdaFailed, and WebhookTransactionFailed.
    """
    call = call.within(client.tenant_id)
    user, is_new, consents = await _attempt(services, call, client, user_id, form)
    if is_new:
        await registrations.start_verification(services, call, user, client.client_id)
    for consent in consents:
        await form_consents.replace(services, call, user, consent.consent["id"], consent)
    return user


@crud.retry_on_conflict
async def _attempt(
    services: Services, call: Call, client: Client, user_id: str, form: Mapping[str, str]
) -> tuple[Document, bool, Sequence[GivenConsent]]:
    """Return the stored user, whether the registration is new, and the consents to store.

    Raises Conflict for a concurrent change.
    """
    stored = await services.directory.users.get(client.tenant_id, user_id)
    found = user_rules.find_registration(stored, client.client_id)
    registration = found or registrations.default_registration(services, call, client.application)
    missing = await find_missing(services, client, stored)
    if missing.form_fields:
        changed, consents = await _read_form(services, call, stored, registration, missing.form_fields, form)
    else:
        user = {**stored, **_read_fields(services, missing.fields, form)}
        changed, consents = {"user": user, "registration": registration}, []
    if found is None:
        await _require_approved(services, call, client, changed, missing)
    user = await _write(services, call, client, stored, changed["user"], changed["registration"])
    return user, found is None, consents


async def _read_form(
    services: Services,
    call: Call,
    stored: Document,
    registration: Document,
    fields: Sequence[Document],
    form: Mapping[str, str],
) -> tuple[Document, Sequence[GivenConsent]]:
    """Return the user and the registration with the answers of a form, and the consents. Raises Invalid."""
    answers = field_values.read(fields, form)
    errors = form_requests.problems(fields, answers, form)
    rejected = {error.path for error in errors}
    valid = [field for field in fields if field["key"] not in rejected]
    start: Document = {"user": {}, "registration": {}}
    members = form_requests.members(valid, answers, start)
    _, found = services.schemas[registrations.SCHEMA].examine(members)
    keys = {field["key"] for field in valid}
    errors += [error for error in [*found, *user_rules.problems({**stored, **members["user"]})] if error.path in keys]
    wanted = form_requests.members(valid, answers, {"user": stored, "registration": registration})
    given = [await form_consents.read(services, field, answers[field["key"]]) for field in valid]
    consents = [consent for consent in given if consent is not None]
    errors += form_consents.age_problems(consents, wanted["user"], call.now)
    crud.require_no_errors(errors)
    return wanted, consents


def _read_fields(services: Services, missing: Sequence[RegistrationField], form: Mapping[str, str]) -> Document:
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


async def _write(
    services: Services, call: Call, client: Client, stored: Document, changed: Document, registration: Document
) -> Document:
    """Write the changed user and a new or changed registration in one transaction, with the events of both."""
    before_commit, after_commit = [], []
    update_instant = max(call.now, int(stored["lastUpdateInstant"]) + 1)
    user = user_rules.with_derived_members({**changed, "lastUpdateInstant": update_instant})
    if changed != stored:
        before_commit += user_events.before_update(stored, user)
        after_commit += user_events.after_update(stored, user, new_password=False)
    original = user_rules.find_registration(stored, client.client_id)
    if registration != original:
        if original is not None:
            registration = {**registration, "lastUpdateInstant": call.now}
        user = user_rules.with_derived_members(registration_rules.with_registration(user, registration))
        kind = "user.registration.create" if original is None else "user.registration.update"
        before_commit.append(user_events.registration_event(kind, user, registration, original))
        after_commit.append(user_events.registration_event(f"{kind}.complete", user, registration, original))
    if before_commit:
        write = functools.partial(services.directory.users.replace, client.tenant_id, user, stored["lastUpdateInstant"])
        change = Change([write], before_commit, after_commit)
        if client.client_id == ADMINISTRATOR_APPLICATION_ID:
            # Administrators chose the providers of the console and the roles of new registrations.
            with write_guard.lifted():
                await services.bus.commit(call, change)
        else:
            await services.bus.commit(call, change)
        return user
    return stored


async def _require_approved(
    services: Services, call: Call, client: Client, changed: Document, missing: Missing
) -> None:
    """Run the validation lambda of self-service registration, which a login must not bypass. Raises LoginPrevented."""
    application, user = client.application, user_rules.with_derived_members(changed["user"])
    form_id = application["registrationConfiguration"].get("formId")
    form = await forms.find(services, form_id) if self_registration.uses_form(application) else None
    context = lambda_rules.form_context(form, missing.form_fields, 1, 1)
    fields, general = await login_validation_lambdas.registration_errors(
        services, call, application, user, changed["registration"], context
    )
    if fields or general:
        raise LoginPrevented("", fields, general)
