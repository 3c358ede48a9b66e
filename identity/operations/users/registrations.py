"""Registrations: create (with or without the user), retrieve, update, patch, delete."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from identity.call import Call, Document
from identity.domain.objects import patch as patches
from identity.domain.users import registrations as rules
from identity.domain.users import users as user_rules
from identity.errors import FieldError, Invalid, NotFound
from identity.ids import ApplicationId, TenantId, new_secret
from identity.operations.groups import group_roles
from identity.operations.issuance import user_tokens
from identity.operations.login import login_records
from identity.operations.messaging import user_events
from identity.operations.objects import crud, user_lookup
from identity.operations.sessions import session_termination
from identity.operations.users import new_users, users
from identity.operations.verification import registration_verifications
from identity.services import Services
from identity.store.mongo import Session

SCHEMA = "api/registration.json"

Approve = Callable[[Document, Document], Awaitable[None]]
"""Judges a user and a registration that are about to be made, to which nothing else objects. Raises Invalid."""


@dataclasses.dataclass(frozen=True, slots=True)
class Registered:
    """A user with a new registration, and the members of the answer that hold a token."""

    user: Document
    registration: Document
    is_new_user: bool
    token: Document = dataclasses.field(repr=False)


async def create(
    services: Services, call: Call, body: Document, user_id: str | None, application_id: str | None = None
) -> Registered:
    """Register an existing user, or with `user` in the body a new one. Raises NotFound and Invalid.

    The application in the path takes precedence over the one in the body.
    """
    request = await new_users.read_request(
        services, call, SCHEMA, rules.creation_request(body, application_id), user_id
    )
    is_set_up, is_new_user = False, "user" in request
    if is_new_user:
        user, registration, is_set_up = await _create_both(services, call, request, user_id)
    elif user_id is None:
        raise Invalid.field("missing", "userId", "You must specify the [userId] in the path, or the [user] property.")
    else:
        user, registration = await _register(services, call, request, user_id)
    application = await new_users.find_application(services, TenantId(user["tenantId"]), registration["applicationId"])
    await start_verification(services, call, user, registration["applicationId"])
    # Whoever has yet to set a password is not logged in by being made.
    token = {} if is_set_up else await user_tokens.issue(services, call, user, application, "REGISTRATION")
    if token:
        await login_records.add(services, call, user, registration["applicationId"])
    effective = await _effective(services, user, registration["applicationId"])
    return Registered(user, effective, is_new_user, token)


async def create_with_user(
    services: Services, call: Call, body: Document, user_id: str, approve: Approve
) -> tuple[Document, Document]:
    """A new user with a registration, without a token: for a page, which logs the user in. Raises Invalid."""
    request = await new_users.read_request(services, call, SCHEMA, body, user_id)
    user, registration, _ = await _create_both(services, call, request, user_id, approve)
    await start_verification(services, call, user, registration["applicationId"])
    return user, registration


async def start_verification(services: Services, call: Call, user: Document, application_id: str) -> None:
    """Begin to verify a new registration, if its application wants that."""
    tenant_id = TenantId(user["tenantId"])
    application = await services.applications.get(tenant_id, ApplicationId(application_id))
    await registration_verifications.start_for_new(services, call.within(tenant_id), user, application)


def default_registration(services: Services, call: Call, application: Document) -> Document:
    """The registration that nobody says more of than its application."""
    body = {"registration": {"applicationId": application["id"]}}
    return _built(call, services.schemas[SCHEMA].read(body), application)


async def retrieve(services: Services, call: Call, user_id: str, application_id: str) -> Document:
    """The registration, with the roles of the user's groups. Raises NotFound."""
    return await _effective(services, await user_lookup.retrieve(services, call, user_id), application_id)


async def update(services: Services, call: Call, body: Document, user_id: str, application_id: str | None) -> Document:
    """Replace a registration; the application in the path wins over the one in the body."""

    def replacement(_stored: Document) -> Document:
        return body

    named = application_id or _named(body)
    return await _change(services, call, user_id, named, replacement)


async def patch(
    services: Services, call: Call, kind: str, body: Any, user_id: str, application_id: str | None
) -> Document:
    """Change parts of a registration by one of the three kinds of patch. Raises NotFound and Invalid."""

    def patched(stored: Document) -> Document:
        return patches.apply(kind, {"registration": rules.request_form(stored)}, body)

    named = application_id or _named(body)
    return await _change(services, call, user_id, named, patched)


async def delete(
    services: Services, call: Call, user_id: str, application_id: str, *, only_unverified: bool = False
) -> None:
    """Remove a registration, and the refresh tokens that it gave. Raises NotFound.

    With `only_unverified` one that is verified by now is not found.
    """
    tenant_id = await user_lookup.tenant_of(services, call, user_id)

    async def attempt() -> Document:
        user = await services.users.get(tenant_id, user_id)
        registration = _existing(user, application_id)
        if only_unverified and registration["verified"]:
            raise NotFound(log_detail="the registration was verified meanwhile")
        return await _write(
            services, call, user, rules.without_registration(user, application_id), registration, "delete"
        )

    await crud.retried(attempt)


def to_response(services: Services, registration: Document) -> Document:
    """The registration as the API shows it."""
    answer: Document = services.schemas[SCHEMA].show({"registration": registration})["registration"]
    return answer


async def _register(services: Services, call: Call, request: Document, user_id: str) -> tuple[Document, Document]:
    tenant_id = await user_lookup.tenant_of(services, call, user_id)

    async def attempt() -> Document:
        user = await services.users.get(tenant_id, user_id)
        registration = await _new_registration(services, call, tenant_id, request, user)
        return await _write(services, call, user, rules.with_registration(user, registration), registration, "create")

    user = await crud.retried(attempt)
    return user, _existing(user, request["registration"]["applicationId"])


async def _create_both(
    services: Services, call: Call, request: Document, user_id: str | None, approve: Approve | None = None
) -> tuple[Document, Document, bool]:
    """The user and the registration, and whether the user has yet to set a password."""
    wanted = request["registration"]
    tenant_id = await new_users.resolve_tenant_id(services, call, wanted.get("applicationId"))
    made = await new_users.draft_user(services, call, tenant_id, request, user_id)
    errors, application = await _judged(services, tenant_id, wanted)
    registration = {} if application is None else _built(call, request, application)
    if approve is not None and not made.errors and not errors:
        await approve(made.user, registration)
    user = await new_users.finish_draft(services, call, made, errors)
    user = user_rules.with_derived_members(rules.with_registration(user, registration))
    offered = [user_events.about_registration("user.registration.create", user, registration)]
    announced = [user_events.about_registration("user.registration.create.complete", user, registration)]
    await users.insert(services, call, user, offered=offered, announced=announced, uses=made.uses)
    await new_users.send_first_mail(services, call, made, user, application)
    return user, registration, made.is_set_up


async def _new_registration(
    services: Services, call: Call, tenant_id: TenantId, request: Document, user: Document
) -> Document:
    errors, application = await _judged(services, tenant_id, request["registration"])
    if application is not None and user_rules.find_registration(user, application["id"]) is not None:
        message = f"A Registration for the application [{application['id']}] already exists."
        errors.append(FieldError.of("duplicate", "registration", message))
    crud.gather(errors)
    assert application is not None
    return _built(call, request, application)


def _built(call: Call, request: Document, application: Document) -> Document:
    wanted = dict(request["registration"])
    if request["generateAuthenticationToken"]:
        wanted["authenticationToken"] = str(new_secret())
    is_verified = request["skipRegistrationVerification"] or not application["verifyRegistration"]
    return rules.build_registration(wanted, application, call.now, is_verified=is_verified)


async def _judged(
    services: Services, tenant_id: TenantId, wanted: Document
) -> tuple[list[FieldError], Document | None]:
    """What is wrong with a registration that is asked for, and its application."""
    application_id = wanted.get("applicationId")
    path = "registration.applicationId"
    if application_id is None:
        return [FieldError.of("missing", path, f"You must specify the [{path}] property.")], None
    application = await services.applications.find_cached(tenant_id, application_id)
    if application is None:
        return [FieldError.of("invalid", path, f"The [{path}] must name an existing application.")], None
    return rules.role_problems(wanted["roles"], application), application


async def _change(
    services: Services,
    call: Call,
    user_id: str,
    application_id: str | None,
    wanted_of: Callable[[Document], Document],
) -> Document:
    tenant_id = await user_lookup.tenant_of(services, call, user_id)
    if application_id is None:
        path = "registration.applicationId"
        raise Invalid.field("missing", path, f"You must specify the [{path}] property.")

    async def attempt() -> Document:
        user = await services.users.get(tenant_id, user_id)
        stored = _existing(user, application_id)
        request = services.schemas[SCHEMA].read(wanted_of(stored))
        errors, _ = await _judged(services, tenant_id, {**request["registration"], "applicationId": application_id})
        crud.gather(errors)
        registration = rules.apply_update(stored, request["registration"], call.now)
        changed = rules.with_registration(user, registration)
        return await _write(services, call, user, changed, registration, "update", stored)

    return await _effective(services, await crud.retried(attempt), application_id)


async def _effective(services: Services, user: Document, application_id: str) -> Document:
    """A user's registration as callers see it. Raises NotFound."""
    return _existing(await group_roles.with_group_roles(services.documents, user), application_id)


async def _write(
    services: Services,
    call: Call,
    stored: Document,
    changed: Document,
    registration: Document,
    deed: str,
    original: Document | None = None,
) -> Document:
    """Put the changed user in place of the stored one, with the events of the deed. Raises Conflict."""
    tenant_id = TenantId(stored["tenantId"])
    user = user_rules.with_derived_members(
        {**changed, "lastUpdateInstant": max(call.now, stored["lastUpdateInstant"] + 1)}
    )
    event = f"user.registration.{deed}"
    sign_out = None
    if deed == "delete":
        sign_out = await session_termination.prepare(services, call, user, ApplicationId(registration["applicationId"]))
    asked = user_events.about_registration(event, user, registration, original)
    told = user_events.about_registration(f"{event}.complete", user, registration, original)

    async def write(session: Session | None) -> None:
        await services.users.replace(tenant_id, user, stored["lastUpdateInstant"], session)

    offered = [asked, *(sign_out.events if sign_out else ())]
    change = session_termination.together(services, call, sign_out, write)
    await services.bus.perform(call.within(tenant_id), change, offered, [told])
    await session_termination.finish(services, call, sign_out)
    return user


def _existing(user: Document, application_id: str) -> Document:
    registration = user_rules.find_registration(user, application_id)
    if registration is None:
        raise NotFound(log_detail=f"no registration of {user['id']} for {application_id}")
    return registration


def _named(body: Any) -> str | None:
    """The application that a body names, for the path form without one; a list of patch operations names none."""
    registration = body.get("registration") if isinstance(body, Mapping) else None
    named = registration.get("applicationId") if isinstance(registration, Mapping) else None
    return named.strip().lower() if isinstance(named, str) else None
