"""Registrations: create (with or without the user), retrieve, update, patch, delete."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from identity.call import Call, Document
from identity.domain.objects import patch as patches
from identity.domain.users import registrations as registration_rules
from identity.domain.users import users as user_rules
from identity.errors import FieldError, Invalid, NotFound
from identity.events.changes import Change
from identity.ids import ApplicationId, TenantId, new_secret
from identity.operations.groups import administrators, group_roles
from identity.operations.issuance import user_tokens
from identity.operations.login import login_records
from identity.operations.messaging import user_events
from identity.operations.objects import application_lookup, crud, user_lookup
from identity.operations.sessions import session_termination
from identity.operations.users import new_users, users
from identity.operations.verification import registration_verifications
from identity.services import Services

SCHEMA = "api/registration.json"

Check = Callable[[Document, Document], Awaitable[None]]
"""(user, registration): a further check of a new user and registration that are otherwise valid. Raises Invalid."""


@dataclasses.dataclass(frozen=True, slots=True)
class Registered:
    """A user with a new registration, and the response members that hold a token."""

    user: Document
    registration: Document
    is_new_user: bool
    token: Document = dataclasses.field(repr=False)


async def create(
    services: Services, call: Call, body: Document, user_id: str | None, application_id: str | None = None
) -> Registered:
    """Register an existing user or, with `user` in the body, a new one. Raises NotFound and Invalid.

    The application in the path takes precedence over the one in the body.
    """
    body = registration_rules.creation_request(body, application_id)
    request = await new_users.read_request(services, call, SCHEMA, body, user_id)
    sets_password_by_mail, is_new_user = False, "user" in request
    if is_new_user:
        user, registration, sets_password_by_mail = await _create_with_user(services, call, request, user_id)
    elif user_id is None:
        raise Invalid.field("missing", "userId", "You must specify the [userId] in the path, or the [user] property.")
    else:
        user, registration = await _register(services, call, request, user_id)
    application_id = registration["applicationId"]
    application = await application_lookup.find(services, TenantId(user["tenantId"]), application_id)
    await start_verification(services, call, user, registration["applicationId"])
    token: Document = {}
    if not sets_password_by_mail:
        token = await user_tokens.issue_tokens(services, call, user, application, "REGISTRATION")
    if token:
        await login_records.add(services, call, user, registration["applicationId"])
    effective = await _with_group_roles(services, user, registration["applicationId"])
    return Registered(user, effective, is_new_user, token)


async def create_with_user(
    services: Services, call: Call, body: Document, user_id: str, check: Check
) -> tuple[Document, Document]:
    """Create a user with a registration for a page, which logs the user in; no token is issued. Raises Invalid."""
    request = await new_users.read_request(services, call, SCHEMA, body, user_id)
    user, registration, _ = await _create_with_user(services, call, request, user_id, check)
    await start_verification(services, call, user, registration["applicationId"])
    return user, registration


async def start_verification(services: Services, call: Call, user: Document, application_id: str) -> None:
    """Start verifying a new registration if its application requires it."""
    tenant_id = TenantId(user["tenantId"])
    application = await services.configuration.applications.get(tenant_id, ApplicationId(application_id))
    await registration_verifications.start_for_new(services, call.within(tenant_id), user, application)


def default_registration(services: Services, call: Call, application: Document) -> Document:
    """Return a registration for an application with the defaults of the API."""
    body = {"registration": {"applicationId": application["id"]}}
    return _build(call, services.schemas[SCHEMA].read(body), application)


async def retrieve(services: Services, call: Call, user_id: str, application_id: str) -> Document:
    """Return the registration, with the roles of the user's groups. Raises NotFound."""
    return await _with_group_roles(services, await user_lookup.retrieve(services, call, user_id), application_id)


async def update(services: Services, call: Call, body: Document, user_id: str, application_id: str | None) -> Document:
    """Replace a registration; the application in the path takes precedence over the one in the body.

    Raises NotFound and Invalid.
    """
    return await _change(services, call, user_id, application_id, body)


async def patch(
    services: Services, call: Call, kind: str, body: Any, user_id: str, application_id: str | None
) -> Document:
    """Apply one of the three kinds of patch to a registration. Raises NotFound and Invalid."""
    return await _change(services, call, user_id, application_id, body, patch_kind=kind)


@crud.retry_on_conflict
async def delete(
    services: Services, call: Call, user_id: str, application_id: str, *, only_unverified: bool = False
) -> None:
    """Delete a registration and revoke its refresh tokens. Raises NotFound.

    With `only_unverified`, also raises NotFound for a verified registration.
    """
    tenant_id = await user_lookup.get_tenant_id(services, call, user_id)
    user = await services.directory.users.get(tenant_id, user_id)
    registration = _get(user, application_id)
    if only_unverified and registration["verified"]:
        raise NotFound(log_detail="the registration was verified in the meantime")
    changed = registration_rules.without_registration(user, application_id)
    await _commit(services, call, user, changed, registration, "delete")


def to_response(services: Services, registration: Document) -> Document:
    """Return the registration in API form."""
    response: Document = services.schemas[SCHEMA].show({"registration": registration})["registration"]
    return response


@crud.retry_on_conflict
async def _register(services: Services, call: Call, request: Document, user_id: str) -> tuple[Document, Document]:
    """Register an existing user; return the user and the registration."""
    tenant_id = await user_lookup.get_tenant_id(services, call, user_id)
    user = await services.directory.users.get(tenant_id, user_id)
    errors, application = await _problems(services, tenant_id, request["registration"])
    if application is not None and user_rules.find_registration(user, application["id"]) is not None:
        message = f"A Registration for the application [{application['id']}] already exists."
        errors.append(FieldError.of("duplicate", "registration", message))
    crud.require_no_errors(errors)
    assert application is not None
    registration = _build(call, request, application)
    changed = registration_rules.with_registration(user, registration)
    user = await _commit(services, call, user, changed, registration, "create")
    return user, _get(user, application["id"])


async def _create_with_user(
    services: Services, call: Call, request: Document, user_id: str | None, check: Check | None = None
) -> tuple[Document, Document, bool]:
    """Create a user with a registration; the third value is whether the user sets the first password by mail."""
    requested = request["registration"]
    tenant_id = await new_users.resolve_tenant_id(services, call, requested.get("applicationId"))
    draft = await new_users.draft_user(services, call, tenant_id, request, user_id)
    errors, application = await _problems(services, tenant_id, requested)
    registration = {} if application is None else _build(call, request, application)
    if check is not None and not draft.errors and not errors:
        await check(draft.user, registration)
    user = await new_users.finish_draft(services, call, draft, errors)
    user = user_rules.with_derived_members(registration_rules.with_registration(user, registration))
    await administrators.require_authority(services, call, user)
    await users.insert(
        services,
        call,
        user,
        before_commit=[user_events.registration_event("user.registration.create", user, registration)],
        after_commit=[user_events.registration_event("user.registration.create.complete", user, registration)],
        uses=draft.uses,
    )
    await new_users.send_first_mail(services, call, draft, user, application)
    return user, registration, draft.sets_password_by_mail


def _build(call: Call, request: Document, application: Document) -> Document:
    """Return the new registration that a request describes."""
    requested = dict(request["registration"])
    if request["generateAuthenticationToken"]:
        requested["authenticationToken"] = str(new_secret())
    is_verified = request["skipRegistrationVerification"] or not application["verifyRegistration"]
    return registration_rules.build_registration(requested, application, call.now, is_verified=is_verified)


async def _problems(
    services: Services, tenant_id: TenantId, requested: Document
) -> tuple[list[FieldError], Document | None]:
    """Return the errors of a requested registration, and its application."""
    application_id = requested.get("applicationId")
    path = "registration.applicationId"
    if application_id is None:
        return [FieldError.missing(path)], None
    application = await services.configuration.applications.find_cached(tenant_id, application_id)
    if application is None:
        return [FieldError.invalid(path, "must name an existing application")], None
    return registration_rules.role_problems(requested["roles"], application), application


@crud.retry_on_conflict
async def _change(
    services: Services,
    call: Call,
    user_id: str,
    application_id: str | None,
    body: Any,
    *,
    patch_kind: str | None = None,
) -> Document:
    """Replace a registration by the body of a PUT, or by the result of a patch of the given kind."""
    application_id = application_id or _application_id_in(body)
    tenant_id = await user_lookup.get_tenant_id(services, call, user_id)
    if application_id is None:
        path = "registration.applicationId"
        raise Invalid.field("missing", path, f"You must specify the [{path}] property.")
    user = await services.directory.users.get(tenant_id, user_id)
    stored = _get(user, application_id)
    if patch_kind is not None:
        body = patches.apply(patch_kind, {"registration": registration_rules.request_form(stored)}, body)
    requested = services.schemas[SCHEMA].read(body)["registration"]
    errors, _ = await _problems(services, tenant_id, {**requested, "applicationId": application_id})
    crud.require_no_errors(errors)
    registration = registration_rules.apply_update(stored, requested, call.now)
    changed = registration_rules.with_registration(user, registration)
    user = await _commit(services, call, user, changed, registration, "update", stored)
    return await _with_group_roles(services, user, application_id)


async def _with_group_roles(services: Services, user: Document, application_id: str) -> Document:
    """Return a user's registration with the roles of the user's groups. Raises NotFound."""
    return _get(await group_roles.with_group_roles(services, user), application_id)


async def _commit(
    services: Services,
    call: Call,
    stored: Document,
    changed: Document,
    registration: Document,
    operation: str,
    original: Document | None = None,
) -> Document:
    """Commit a user whose registration was created, updated or deleted, with its events. Raises Conflict."""
    tenant_id = TenantId(stored["tenantId"])
    await administrators.require_authority(services, call, stored, changed)
    user = user_rules.with_derived_members(
        {**changed, "lastUpdateInstant": max(call.now, stored["lastUpdateInstant"] + 1)}
    )
    termination = None
    if operation == "delete":
        application_id = ApplicationId(registration["applicationId"])
        termination = await session_termination.prepare(services, call, user, application_id)
    replace = functools.partial(services.directory.users.replace, tenant_id, user, stored["lastUpdateInstant"])
    event_type = f"user.registration.{operation}"
    event = user_events.registration_event(event_type, user, registration, original)
    complete = user_events.registration_event(f"{event_type}.complete", user, registration, original)
    change = Change(
        writes=[replace, *session_termination.writes(services, call, termination)],
        before_commit=[event, *(termination.events if termination else ())],
        after_commit=[complete],
    )
    await services.bus.commit(call.within(tenant_id), change)
    await session_termination.finish(services, call, termination)
    return user


def _get(user: Document, application_id: str) -> Document:
    registration = user_rules.find_registration(user, application_id)
    if registration is None:
        raise NotFound(log_detail=f"no registration of {user['id']} for {application_id}")
    return registration


def _application_id_in(body: Any) -> str | None:
    """Return the application that a body names, for paths without one; a JSON Patch names none."""
    registration = body.get("registration") if isinstance(body, Mapping) else None
    application_id = registration.get("applicationId") if isinstance(registration, Mapping) else None
    return application_id.strip().lower() if isinstance(application_id, str) else None
