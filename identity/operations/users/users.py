"""Users: create, retrieve, update, patch, deactivate, reactivate, delete, search."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable, Sequence
from typing import Any

from identity.call import Call, Document
from identity.domain.objects import patch as patches
from identity.domain.objects.owner_settings import EmailVerification, RevocationPolicy
from identity.domain.two_factor import two_factor
from identity.domain.users import users as user_rules
from identity.errors import Duplicate, FieldError, Invalid, NotFound
from identity.events.changes import Change, Event
from identity.ids import TenantId, UserId
from identity.operations.clients import bearer_tokens
from identity.operations.groups import administrators, group_members
from identity.operations.issuance import user_tokens
from identity.operations.messaging import user_events, user_notifications, user_views
from identity.operations.objects import application_lookup, crud, features, index_search, user_lookup
from identity.operations.password_changes import password_changes
from identity.operations.passwords import password_cost, user_passwords
from identity.operations.sessions import session_termination, sso_sessions
from identity.operations.two_factor import two_factor_trust
from identity.operations.users import erasure, new_users
from identity.operations.verification import email_verifications, verification_codes
from identity.services import Services
from identity.store.mongo import Session, Write
from identity.store.one_time_tokens import OneTimeTokenUse

SCHEMA = user_views.SCHEMA


@dataclasses.dataclass(frozen=True, slots=True)
class CreatedUser:
    """A new user, and the response members that hold its token."""

    user: Document
    token: Document = dataclasses.field(repr=False)


async def create(services: Services, call: Call, body: Document, user_id: str | None) -> CreatedUser:
    """Create a user under the given or a random id, with an access token unless the first password is set by mail.

    Raises Invalid and WebhookTransactionFailed.
    """
    request = await new_users.read_request(services, call, SCHEMA, body, user_id)
    tenant_id = await new_users.resolve_tenant_id(services, call, request.get("applicationId"))
    draft = await new_users.draft_user(services, call, tenant_id, request, user_id)
    user, application = await _create(services, call, draft, request)
    if draft.sets_password_by_mail:
        return CreatedUser(user, {})
    return CreatedUser(user, await user_tokens.issue_tokens(services, call, user, application, "USER_CREATE"))


async def provision(services: Services, call: Call, body: Document, private: Document) -> Document:
    """Create a user of the call's tenant with further private members, and without a token.

    The user has a random password unless the request has one. Raises Invalid and WebhookTransactionFailed.
    """
    request = await new_users.read_request(services, call, SCHEMA, body, None)
    tenant_id = crud.require_tenant(call)
    draft = await new_users.draft_user(services, call, tenant_id, request, None, provisioned=private)
    return (await _create(services, call, draft, request))[0]


async def insert(
    services: Services,
    call: Call,
    user: Document,
    *,
    before_commit: Iterable[Event] = (),
    after_commit: Iterable[Event] = (),
    uses: Sequence[OneTimeTokenUse] = (),
) -> None:
    """Commit a new user with its memberships and its events, followed by the events given.

    `uses` are one-time tokens that verify login ids of the user; the commit consumes them.

    Raises Invalid for duplicates, NotFound for a consumed token, and WebhookTransactionFailed.
    """
    tenant_id = TenantId(user["tenantId"])
    change = Change(
        writes=[functools.partial(_insert, services, tenant_id, user, uses)],
        before_commit=[user_events.user_event("user.create", user), *before_commit],
        after_commit=[
            user_events.user_event("user.create.complete", user),
            *after_commit,
            *user_events.two_factor_changes(None, user),
        ],
    )
    try:
        await services.bus.commit(call.within(tenant_id), change)
    except Duplicate as duplicate:
        raise await new_users.duplicate_error(services, call, user, duplicate, "create") from duplicate
    if user["memberships"]:
        await group_members.remove_orphans(services, tenant_id, user["memberships"])


async def retrieve_by_token(services: Services, call: Call, token: str | None) -> Document:
    """Return the user that an access token was issued to, in API form. Raises InvalidToken."""
    bearer = await bearer_tokens.verify(services, call, token)
    bearer.require_usable_for()
    return await user_views.to_response(services, bearer.user)


async def update(services: Services, call: Call, body: Document, user_id: str) -> Document:
    """Replace a user except for password, registrations, verification and state. Raises NotFound and Invalid."""
    return await _change(services, call, user_id, body)


async def update_version(
    services: Services, call: Call, stored: Document, body: Document, private: Document
) -> Document:
    """As `update` for a user that was read, with its private members; a user without a change is not written.

    Raises Conflict if the user changed since.
    """
    request = services.schemas[SCHEMA].read(body)
    return await _update(services, call, stored, {**stored, "private": private}, request)


async def patch(services: Services, call: Call, kind: str, body: Any, user_id: str) -> Document:
    """Apply one of the three kinds of patch to a user. Raises NotFound and Invalid."""
    return await _change(services, call, user_id, body, patch_kind=kind)


async def deactivate(services: Services, call: Call, user_id: str) -> None:
    """Deactivate a user, revoke the user's tokens and end the sessions. Raises NotFound."""
    tenant_id = await user_lookup.get_tenant_id(services, call, user_id)
    await _deactivate(services, call, tenant_id, user_id)
    # Ends the session of a login that was in progress during the deactivation.
    await sso_sessions.end_all(services, call, tenant_id, UserId(user_id))


@crud.retry_on_conflict
async def reactivate(services: Services, call: Call, user_id: str) -> Document:
    """Reactivate a deactivated user; an active one stays unchanged. Raises NotFound."""
    tenant_id = await user_lookup.get_tenant_id(services, call, user_id)
    stored = await services.directory.users.get(tenant_id, user_id)
    if stored["active"]:
        return stored
    await administrators.require_authority(services, call, stored)
    user = user_rules.next_version({**stored, "active": True}, call.now)
    change = Change(
        writes=[functools.partial(services.directory.users.replace, tenant_id, user, stored["lastUpdateInstant"])],
        before_commit=[user_events.user_event("user.reactivate", user)],
    )
    await services.bus.commit(call.within(tenant_id), change)
    return user


async def delete(services: Services, call: Call, user_id: str, *, expected: Document | None = None) -> None:
    """Delete a user with registrations, memberships, grants, links and tokens.

    With `expected`, delete the user only if it has not changed since. Raises NotFound.
    """
    tenant_id = await user_lookup.get_tenant_id(services, call, user_id)
    stored = expected or await services.directory.users.get(tenant_id, user_id)
    await administrators.require_authority(services, call, stored)
    termination = await session_termination.prepare(services, call, stored)
    version = None if expected is None else expected["lastUpdateInstant"]
    deletions = [*_deletions(services, tenant_id, user_id, version), await erasure.prepare(services, call, stored)]
    change = Change(
        writes=[*deletions, *session_termination.writes(services, call, termination)],
        before_commit=[user_events.user_event("user.delete", stored), *termination.events],
        after_commit=[user_events.user_event("user.delete.complete", stored)],
    )
    await services.bus.commit(call.within(tenant_id), change)
    await session_termination.finish(services, call, termination)
    await erasure.remove_belongings(services, tenant_id, UserId(user_id))


async def search(services: Services, call: Call, criteria: Document, prefix: str) -> Document:
    """Return `users`, `total`, and `nextResults` when there are more. Raises Invalid."""
    total, found, more = await index_search.run(services.directory.users, call, criteria, prefix)
    return {"total": total, "users": [await user_views.to_response(services, user) for user in found], **more}


def missing_id_error(verb: str) -> Invalid:
    """Return the error of a verb that needs a user id in the path."""
    return Invalid.field("missing", "userId", f"You must specify the [userId] in the path to {verb} a user.")


async def _create(
    services: Services, call: Call, draft: new_users.NewUserDraft, request: Document
) -> tuple[Document, Document | None]:
    """Store the user of a draft and send the first mail; return the user, and the application of the request."""
    user = user_rules.with_derived_members(await new_users.finish_draft(services, call, draft, []))
    await insert(services, call, user, uses=draft.uses)
    application = await application_lookup.find(services, TenantId(user["tenantId"]), request.get("applicationId"))
    await new_users.send_first_mail(services, call, draft, user, application)
    return user, application


async def _insert(
    services: Services, tenant_id: TenantId, user: Document, uses: Sequence[OneTimeTokenUse], session: Session | None
) -> None:
    """Consume the one-time tokens and store the user; user and memberships share one transaction."""
    for use in uses:
        await verification_codes.consume(use)
    writes: list[Write] = [functools.partial(services.directory.users.insert, tenant_id, user)]
    if user["memberships"]:
        writes.append(functools.partial(group_members.insert_memberships, services, tenant_id, user["memberships"]))
    await services.runtime.database.execute(writes, session)


def _deletions(services: Services, tenant_id: TenantId, user_id: str, version: int | None) -> list[Write]:
    """Return the writes that delete a user, at one version or at any, with all that belongs to the user."""
    of_user = {"userId": user_id}
    partial = functools.partial
    return [
        partial(_delete_document, services, tenant_id, user_id, version),
        partial(services.directory.entity_grants.delete_of_user, tenant_id, user_id),
        partial(services.directory.group_members.delete_all, tenant_id, of_user),
        partial(services.directory.identity_provider_links.delete_all, tenant_id, of_user),
        partial(services.tokens.scope_consents.delete_all, tenant_id, of_user),
        partial(services.directory.user_consents.delete_all, tenant_id, of_user),
        partial(services.directory.families.remove_user, tenant_id, user_id, services.clock.now()),
        partial(services.sessions.two_factor_trusts.delete_all, tenant_id, of_user),
        partial(services.directory.webauthn_credentials.delete_all, tenant_id, of_user),
        partial(services.logs.action_logs.delete_all, tenant_id, {"actioneeUserId": user_id}),
        partial(services.directory.user_comments.delete_all, tenant_id, of_user),
    ]


async def _delete_document(
    services: Services, tenant_id: TenantId, user_id: str, version: int | None, session: Session | None
) -> None:
    if version is None:
        is_deleted = await services.directory.users.delete(tenant_id, user_id, session)
    else:
        is_deleted = await services.directory.users.delete_version(tenant_id, user_id, version, session)
    if not is_deleted:
        raise NotFound


@crud.retry_on_conflict
async def _deactivate(services: Services, call: Call, tenant_id: TenantId, user_id: str) -> None:
    stored = await services.directory.users.get(tenant_id, user_id)
    if not stored["active"]:
        return
    await administrators.require_authority(services, call, stored)
    user = user_rules.next_version({**stored, "active": False}, call.now)
    termination = await session_termination.prepare(services, call, stored)
    replace = functools.partial(services.directory.users.replace, tenant_id, user, stored["lastUpdateInstant"])
    change = Change(
        writes=[replace, *session_termination.writes(services, call, termination)],
        before_commit=[user_events.user_event("user.deactivate", stored), *termination.events],
    )
    await services.bus.commit(call.within(tenant_id), change)
    await session_termination.finish(services, call, termination)


@crud.retry_on_conflict
async def _change(
    services: Services, call: Call, user_id: str, body: Any, *, patch_kind: str | None = None
) -> Document:
    """Replace a user by the body of a PUT, or by the result of a patch of the given kind."""
    tenant_id = await user_lookup.get_tenant_id(services, call, user_id)
    stored = await services.directory.users.get(tenant_id, user_id)
    request = services.schemas[SCHEMA].read(body if patch_kind is None else _patched(stored, patch_kind, body))
    return await _update(services, call, stored, None, request)


async def _update(
    services: Services, call: Call, stored: Document, base: Document | None, request: Document
) -> Document:
    """Replace a stored user by a request; with `base`, which replaces its private members, only if that changes it."""
    tenant_id = TenantId(stored["tenantId"])
    tenant = await services.configuration.tenants.get(None, tenant_id)
    user = await _replacement(services, call, tenant, base or stored, request)
    if base is not None and crud.is_unchanged(stored, user):
        return stored
    await administrators.require_authority(services, call, stored, user)
    await _replace(services, call, tenant, stored, user)
    application = await application_lookup.find(services, tenant_id, request.get("applicationId"))
    await email_verifications.start_for_change(services, call.within(tenant_id), tenant, stored, user, application)
    return user


def _patched(stored: Document, patch_kind: str, body: Any) -> Document:
    """Return the request that a patch makes of a stored user."""
    request = patches.apply(patch_kind, {"user": user_rules.request_form(stored)}, body)
    if "password" in request["user"] and "passwordChangeRequired" not in json.dumps(body):
        # The patch itself makes the required password change.
        del request["user"]["passwordChangeRequired"]
    return request


async def _replacement(
    services: Services, call: Call, tenant: Document, stored: Document, request: Document
) -> Document:
    """Validate an update and return the next version of the user. Raises Invalid with all errors."""
    user = user_rules.normalize_phone_number(user_rules.apply_update(stored, request["user"], call.now))
    if user.get("username") != stored.get("username"):
        user = await new_users.assign_unique_username(services, tenant, user)
    errors = user_rules.problems(user) + await new_users.application_problems(services, tenant["id"], request)
    if user.get("email") != stored.get("email"):
        user = _with_changed_email(tenant, stored, user, call, is_skipped=request["skipVerification"])
        if not request["disableDomainBlock"]:
            blocked_domains = tenant["registrationConfiguration"]["blockedDomains"]
            errors += user_rules.blocked_domain_problems(user, blocked_domains)
    errors += await _current_password_problems(services, tenant, stored, request)
    others = await services.directory.users.find_duplicates(tenant["id"], user)
    errors += user_rules.duplicate_problems(user, others)
    password = user_passwords.requested_password(tenant, request["user"])
    if password is not None:
        errors += user_passwords.policy_problems(tenant, user, password)
        errors += password_cost.factor_problems(services, call, tenant, password.scheme, password.factor)
        if not errors:
            errors += await user_passwords.change_problems(services, tenant, stored, password, call.now)
    if others:
        await user_notifications.notify_duplicate(services, call, tenant, user, others, "update")
    crud.require_no_errors(errors, features.problems(services, "user", user, stored))
    if password is not None:
        user = await user_passwords.with_password(services, tenant, user, password, call.now)
    return user_rules.with_derived_members(user)


async def _replace(services: Services, call: Call, tenant: Document, stored: Document, user: Document) -> None:
    """Commit an updated user; revoke tokens and end sessions if the tenant requires it for a new password."""
    tenant_id = TenantId(tenant["id"])
    new_password = user["private"].get("password") != stored["private"].get("password")
    revokes = new_password and RevocationPolicy.of(tenant).on_password_changed
    termination = await session_termination.prepare(services, call, user) if revokes else None
    replace = functools.partial(_replace_document, services, tenant_id, stored, user)
    change = Change(
        writes=[replace, *session_termination.writes(services, call, termination)],
        before_commit=[*user_events.before_update(stored, user), *(termination.events if termination else ())],
        after_commit=user_events.after_update(stored, user, new_password=new_password),
    )
    try:
        await services.bus.commit(call.within(tenant_id), change)
    except Duplicate as duplicate:
        raise await new_users.duplicate_error(services, call, user, duplicate, "update") from duplicate
    await session_termination.finish(services, call, termination)
    if new_password:
        await password_changes.revoke_outstanding(services, user)
    await user_notifications.notify_update(services, call, tenant, stored, user, new_password=new_password)


async def _replace_document(
    services: Services, tenant_id: TenantId, stored: Document, user: Document, session: Session | None
) -> None:
    """Replace a user; revoke the trust in devices if the password changed or a two-factor method was removed."""
    await services.directory.users.replace(tenant_id, user, stored["lastUpdateInstant"], session)
    new_password = user["private"].get("password") != stored["private"].get("password")
    if new_password or two_factor.has_lost_methods(stored, user):
        await two_factor_trust.revoke_all(services, stored, session)


def _with_changed_email(
    tenant: Document, stored: Document, user: Document, call: Call, *, is_skipped: bool
) -> Document:
    """Return the user with the verification state of its new email; a first email is treated as that of a new user."""
    if is_skipped and "email" in user:
        return user_rules.with_verified_reason(user, "Skipped", call.now)
    settings = EmailVerification.of(tenant)
    is_due = settings.verify_email_when_changed or "email" not in stored
    if "email" in user and settings.verify_email and is_due:
        return user_rules.with_verified_reason(user, "Pending", call.now)
    return user


async def _current_password_problems(
    services: Services, tenant: Document, stored: Document, request: Document
) -> list[FieldError]:
    current = request.get("currentPassword")
    if current is None or await user_passwords.is_correct(services, tenant, stored, current):
        return []
    return [FieldError.invalid("currentPassword", "is not the user's password")]
