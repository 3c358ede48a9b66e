"""Registrations that come about at a login, where people may register themselves (spec: hosted login, step 4).

Who logs in to an application that they are not registered for is registered by that; what the application has to know
of them, and does not, is asked for first, on a page of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from identity.call import Call, Document
from identity.domain.authorization.authorization_request import AuthorizationRequest
from identity.domain.users import registrations as registration_rules
from identity.domain.users import self_registration as rules
from identity.domain.users import users as user_rules
from identity.domain.users.self_registration import Question
from identity.errors import (
    InteractionRequired,
    Invalid,
    LoginPrevented,
    WebhookTransactionFailed,
)
from identity.operations.clients.clients import Client
from identity.operations.lambdas import login_validation_lambdas
from identity.operations.login_transactions import login_intents
from identity.operations.login_transactions.authorization_steps import (
    Current,
    Interlude,
    Prevented,
    Problem,
    SsoCookie,
    VerifiedClient,
    Vetoed,
)
from identity.operations.messaging import user_events
from identity.operations.objects import crud
from identity.operations.users import registrations
from identity.services import Services
from identity.store.mongo import Session

PAGE = "complete-registration"
"""The last part of the path of the page that asks for what is missing."""

_USER = "api/user.json"


def is_due(client: Client, user: Document) -> bool:
    """Whether a user has to be registered for an application, or asked for more. Costs nothing."""
    if not rules.is_offered(client.application):
        return False
    if user_rules.find_registration(user, client.client_id) is None:
        return True
    return bool(questions(client, user))


def questions(client: Client, user: Document) -> tuple[Question, ...]:
    """What has to be asked first. Who is registered is asked only where the application says so."""
    is_registered = user_rules.find_registration(user, client.client_id) is not None
    if is_registered and not client.application["registrationConfiguration"]["completeRegistration"]:
        return ()
    return rules.lacking(client.application, user)


async def settle(
    services: Services, call: Call, proven: VerifiedClient, request: AuthorizationRequest, current: Current
) -> Current | Problem | Interlude:
    """Register the user of a login; or the way to the page that asks for more; or what is in the way.

    Raises InteractionRequired where no page may be shown: nobody is registered who sees nothing of it.
    """
    client, user = proven.client, current.user
    wanted = questions(client, user)
    if request.forbids_pages:
        return _unseen(current, wanted)
    if wanted:
        intent = await login_intents.remember(services, proven, current, PAGE)
        return Interlude(client, PAGE, intent, SsoCookie.of(client, current))
    try:
        return dataclasses.replace(current, user=await join(services, call, client, user["id"], {}))
    except LoginPrevented as error:
        return Prevented(tuple(error.messages))
    except WebhookTransactionFailed:
        return Vetoed()


async def join(services: Services, call: Call, client: Client, user_id: str, form: Mapping[str, str]) -> Document:
    """Register a user with the answers of a form to what was missing; answers the user as stored.

    Who was registered meanwhile stays so. Raises Invalid for answers that are missing or wrong, LoginPrevented for what
    the application's lambda has against it, LambdaFailed, and WebhookTransactionFailed.
    """
    call = call.within(client.tenant_id)

    async def attempt() -> tuple[Document, bool]:
        stored = await services.users.get(client.tenant_id, user_id)
        asked = questions(client, stored)
        changed = {**stored, **_answers(services, asked, form)}
        is_new = user_rules.find_registration(stored, client.client_id) is None
        return await _written(services, call, client, stored, changed), is_new

    user, is_new = await crud.retried(attempt)
    if is_new:
        await registrations.start_verification(services, call, user, client.client_id)
    return user


def _unseen(current: Current, wanted: tuple[Question, ...]) -> Current:
    if wanted:
        raise InteractionRequired("registration_missing_requirement", "The user has to say more before.")
    return current


def _answers(services: Services, asked: tuple[Question, ...], form: Mapping[str, str]) -> Document:
    """The members that a form fills. Raises Invalid."""
    errors = rules.problems(asked, form)
    found = rules.answers(asked, form)
    names = {question.name for question in asked}
    try:
        user: Document = services.schemas[_USER].read({"user": found})["user"]
        errors += [error for error in user_rules.problems(user) if error.path in names]
    except Invalid as error:
        known = {one.path for one in errors}
        errors += [one for one in error.fields if one.path in names and one.path not in known]
    crud.gather(errors)
    return found


async def _written(services: Services, call: Call, client: Client, stored: Document, changed: Document) -> Document:
    """Write the changed user with a registration, if there is none; one transaction, with the events of both."""
    offered, announced = [], []
    moved = max(call.now, int(stored["lastUpdateInstant"]) + 1)
    user = user_rules.with_derived_members({**changed, "lastUpdateInstant": moved})
    if changed != stored:
        offered += user_events.of_update(stored, user)
        announced += user_events.after_update(stored, user, new_password=False)
    if user_rules.find_registration(stored, client.client_id) is None:
        registration = registrations.default_registration(services, call, client.application)
        await _require_approved(services, call, client, user, registration)
        user = user_rules.with_derived_members(registration_rules.with_registration(user, registration))
        offered.append(user_events.about_registration("user.registration.create", user, registration))
        announced.append(user_events.about_registration("user.registration.create.complete", user, registration))
    if not offered:
        return stored

    async def write(session: Session | None) -> None:
        await services.users.replace(client.tenant_id, user, stored["lastUpdateInstant"], session)

    await services.bus.perform(call, write, offered, announced)
    return user


async def _require_approved(
    services: Services, call: Call, client: Client, user: Document, registration: Document
) -> None:
    """Ask the application's lambda, as at the registration page: a login is no way around it."""
    fields, general = await login_validation_lambdas.registration_errors(
        services, call, client.application, user, registration
    )
    if fields or general:
        raise LoginPrevented("", fields, general)
