"""Users: create, retrieve, update, patch, deactivate, reactivate, delete, search."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from identity.call import Call, Document
from identity.domain.objects import patch as patches
from identity.domain.two_factor import two_factor
from identity.domain.users import users as rules
from identity.errors import Duplicate, FieldError, Invalid, NotFound
from identity.events.changes import Event
from identity.ids import TenantId, UserId
from identity.operations.clients import bearer_tokens
from identity.operations.groups import group_members
from identity.operations.issuance import user_tokens
from identity.operations.messaging import user_events, user_notifications, user_views
from identity.operations.objects import crud, features, index_search, user_lookup
from identity.operations.password_changes import password_changes
from identity.operations.passwords import user_passwords
from identity.operations.sessions import session_termination, sso_sessions
from identity.operations.two_factor import two_factor_trust
from identity.operations.users import new_users
from identity.operations.verification import email_verifications, verification_codes
from identity.services import Services
from identity.store.mongo import Session
from identity.store.one_time_tokens import OneTimeTokenUse

SCHEMA = user_views.SCHEMA


@dataclasses.dataclass(frozen=True, slots=True)
class CreatedUser:
    """A new user, and the members of the answer that hold a token."""

    user: Document
    token: Document = dataclasses.field(repr=False)


async def create(services: Services, call: Call, body: Document, user_id: str | None) -> CreatedUser:
    """Add a user under the given id, or a random one. Raises Invalid and WebhookTransactionFailed."""
    request = await new_users.read_request(services, call, SCHEMA, body, user_id)
    tenant_id = await new_users.resolve_tenant_id(services, call, request.get("applicationId"))
    made = await new_users.draft_user(services, call, tenant_id, request, user_id)
    user = rules.with_derived_members(await new_users.finish_draft(services, call, made, []))
    await insert(services, call, user, uses=made.uses)
    application = await new_users.find_application(services, tenant_id, request.get("applicationId"))
    await new_users.send_first_mail(services, call, made, user, application)
    # Whoever has yet to set a password is not logged in by being made.
    token = {} if made.is_set_up else await user_tokens.issue(services, call, user, application, "USER_CREATE")
    return CreatedUser(user, token)


async def insert(
    services: Services,
    call: Call,
    user: Document,
    *,
    offered: Iterable[Event] = (),
    announced: Iterable[Event] = (),
    uses: Sequence[OneTimeTokenUse] = (),
) -> None:
    """Write a new user and tell of it, `offered` and `announced` after its own events. Raises Invalid.

    `uses` prove something of the user: whoever comes second with one of them is told NotFound.
    """
    before = [user_events.about("user.create", user), *offered]
    after = [user_events.about("user.create.complete", user), *announced, *user_events.two_factor_changes(None, user)]
    tenant_id = TenantId(user["tenantId"])

    async def insert_all(session: Session) -> None:
        await services.users.insert(tenant_id, user, session)
        await group_members.insert_memberships(services, tenant_id, user["memberships"], session)

    async def write(session: Session | None) -> None:
        for use in uses:
            await verification_codes.consume(use)
        if not user["memberships"]:
            await services.users.insert(tenant_id, user, session)
        else:
            await (services.database.in_transaction(insert_all) if session is None else insert_all(session))

    try:
        await services.bus.perform(call.within(tenant_id), write, before, after)
    except Duplicate as duplicate:
        raise await new_users.duplicate_error(services, call, user, duplicate, "create") from duplicate
    if user["memberships"]:
        await group_members.remove_orphans(services, tenant_id, user["memberships"])


async def retrieve_by_token(services: Services, call: Call, token: str | None) -> Document:
    """The bearer of an access token, as callers see a user. Raises InvalidToken."""
    shown = await bearer_tokens.verify(services, call, token)
    shown.require_reach()
    return await user_views.answer(services, shown.user)


async def update(services: Services, call: Call, body: Document, user_id: str) -> Document:
    """Replace a user; password, registrations, verification and state stay. Raises NotFound and Invalid."""

    def replacement(_stored: Document) -> Document:
        return body

    return await _change(services, call, user_id, replacement)


async def patch(services: Services, call: Call, kind: str, body: Any, user_id: str) -> Document:
    """Change parts of a user by one of the three kinds of patch. Raises NotFound and Invalid."""
    is_silent = "passwordChangeRequired" not in json.dumps(body)

    def patched(stored: Document) -> Document:
        request = patches.apply(kind, {"user": rules.request_form(stored)}, body)
        if "password" in request["user"] and is_silent:
            # The change that was required has come with this very patch.
            del request["user"]["passwordChangeRequired"]
        return request

    return await _change(services, call, user_id, patched)


async def deactivate(services: Services, call: Call, user_id: str) -> None:
    """Lock a user out: tokens are revoked and sessions end. Raises NotFound."""
    tenant_id = await user_lookup.tenant_of(services, call, user_id)

    async def attempt() -> Document:
        stored = await services.users.get(tenant_id, user_id)
        if not stored["active"]:
            return stored
        user = rules.with_derived_members({**stored, "active": False, "lastUpdateInstant": _moved(stored, call)})
        sign_out = await session_termination.prepare(services, call, stored)
        offered = [user_events.about("user.deactivate", stored), *sign_out.events]

        async def write(session: Session | None) -> None:
            await services.users.replace(tenant_id, user, stored["lastUpdateInstant"], session)

        change = session_termination.together(services, call, sign_out, write)
        await services.bus.perform(call.within(tenant_id), change, offered)
        await session_termination.finish(services, call, sign_out)
        return user

    await crud.retried(attempt)
    # For a login that was under way all the time.
    await sso_sessions.end_all(services, call, tenant_id, UserId(user_id))


async def reactivate(services: Services, call: Call, user_id: str) -> Document:
    """Let a deactivated user in again; an active one stays as it is. Raises NotFound."""
    tenant_id = await user_lookup.tenant_of(services, call, user_id)

    async def attempt() -> Document:
        stored = await services.users.get(tenant_id, user_id)
        if stored["active"]:
            return stored
        user = rules.with_derived_members({**stored, "active": True, "lastUpdateInstant": _moved(stored, call)})

        async def write(session: Session | None) -> None:
            await services.users.replace(tenant_id, user, stored["lastUpdateInstant"], session)

        offered = [user_events.about("user.reactivate", user)]
        await services.bus.perform(call.within(tenant_id), write, offered)
        return user

    return await crud.retried(attempt)


async def delete(services: Services, call: Call, user_id: str, *, expected: Document | None = None) -> None:
    """Remove a user with registrations, memberships, grants and tokens, for good. Raises NotFound.

    With `expected` only a user who is still as told there.
    """
    tenant_id = await user_lookup.tenant_of(services, call, user_id)
    stored = expected or await services.users.get(tenant_id, user_id)
    sign_out = await session_termination.prepare(services, call, stored)
    offered = [user_events.about("user.delete", stored), *sign_out.events]

    async def write(session: Session | None) -> None:
        if expected is None:
            is_gone = await services.users.delete(tenant_id, user_id, session)
        else:
            is_gone = await services.users.delete_version(tenant_id, user_id, stored["lastUpdateInstant"], session)
        if not is_gone:
            raise NotFound
        await services.entity_grants.delete_of_user(tenant_id, user_id, session)
        await services.group_members.delete_all(tenant_id, {"userId": user_id}, session)
        await services.identity_provider_links.delete_all(tenant_id, {"userId": user_id}, session)
        await services.scope_consents.delete_all(tenant_id, {"userId": user_id}, session)
        await services.documents["user_consents"].delete_all(tenant_id, {"userId": user_id}, session)
        await services.families.remove_user(tenant_id, user_id, services.clock.now(), session)
        await services.two_factor_trusts.delete_all(tenant_id, {"userId": user_id}, session)
        await services.login_records.mark_for_erasure(tenant_id, UserId(user_id), session)
        await services.action_logs.delete_all(tenant_id, {"actioneeUserId": user_id}, session)
        await services.documents["user_comments"].delete_all(tenant_id, {"userId": user_id}, session)

    announced = [user_events.about("user.delete.complete", stored)]
    change = session_termination.together(services, call, sign_out, write, as_one=True)
    await services.bus.perform(call.within(tenant_id), change, offered, announced)
    await session_termination.finish(services, call, sign_out)
    # For an answer that was under way all the time, and a login that made a device a trusted one.
    await services.scope_consents.delete_all(tenant_id, {"userId": user_id})
    await services.two_factor_trusts.delete_all(tenant_id, {"userId": user_id})
    await crud.retried(lambda: services.families.remove_user(tenant_id, user_id, services.clock.now()))
    await services.login_records.erase(tenant_id, UserId(user_id))


async def search(services: Services, call: Call, criteria: Document, prefix: str) -> Document:
    """`users`, `total`, and `nextResults` when there are more. Raises Invalid."""
    total, found, more = await index_search.run(services.users, call, criteria, prefix)
    return {"total": total, "users": [await user_views.answer(services, user) for user in found], **more}


async def _change(services: Services, call: Call, user_id: str, wanted_of: Callable[[Document], Document]) -> Document:
    tenant_id = await user_lookup.tenant_of(services, call, user_id)
    tenant = await services.tenants.get(None, tenant_id)

    async def attempt() -> Document:
        stored = await services.users.get(tenant_id, user_id)
        request = services.schemas[SCHEMA].read(wanted_of(stored))
        user = await _replacement(services, call, tenant, stored, request)
        await _replace(services, call, tenant, stored, user)
        application = await new_users.find_application(services, tenant_id, request.get("applicationId"))
        await email_verifications.start_for_change(services, call.within(tenant_id), tenant, stored, user, application)
        return user

    return await crud.retried(attempt)


async def _replacement(
    services: Services, call: Call, tenant: Document, stored: Document, request: Document
) -> Document:
    """The user that is to take the stored one's place. Raises Invalid."""
    user = rules.normalize_phone_number(rules.apply_update(stored, request["user"], call.now))
    if user.get("username") != stored.get("username"):
        user = await new_users.assign_unique_username(services, tenant, user)
    errors = rules.problems(user) + await new_users.shared_problems(services, tenant["id"], request)
    if user.get("email") != stored.get("email"):
        user = _with_changed_email(tenant, stored, user, call, is_skipped=request["skipVerification"])
        if not request["disableDomainBlock"]:
            errors += rules.blocked_domain_problems(user, tenant["registrationConfiguration"]["blockedDomains"])
    errors += await _current_password_problems(services, tenant, stored, request)
    others = await services.users.find_duplicates(tenant["id"], user)
    errors += rules.duplicate_problems(user, others)
    password = user_passwords.requested_password(tenant, request["user"])
    if password is not None:
        errors += user_passwords.policy_problems(tenant, user, password)
        errors += [] if errors else await user_passwords.change_problems(services, tenant, stored, password, call.now)
    if others:
        await user_notifications.tell_in_use(services, call, tenant, user, others, "update")
    crud.gather(errors, features.problems(services, "user", user, stored))
    if password is not None:
        user = await user_passwords.with_password(services, tenant, user, password, call.now)
    return rules.with_derived_members(user)


async def _replace(services: Services, call: Call, tenant: Document, stored: Document, user: Document) -> None:
    tenant_id = TenantId(tenant["id"])
    new_password = user["private"].get("password") != stored["private"].get("password")
    ends = new_password and tenant["jwtConfiguration"]["refreshTokenRevocationPolicy"]["onPasswordChanged"]
    sign_out = await session_termination.prepare(services, call, user) if ends else None
    offered = [*user_events.of_update(stored, user), *(sign_out.events if sign_out else ())]

    async def write(session: Session | None) -> None:
        await services.users.replace(tenant_id, user, stored["lastUpdateInstant"], session)
        if two_factor.has_lost_methods(stored, user):
            await two_factor_trust.revoke_all(services, stored, session)

    announced = user_events.after_update(stored, user, new_password=new_password)
    try:
        change = session_termination.together(services, call, sign_out, write)
        await services.bus.perform(call.within(tenant_id), change, offered, announced)
    except Duplicate as duplicate:
        raise await new_users.duplicate_error(services, call, user, duplicate, "update") from duplicate
    await session_termination.finish(services, call, sign_out)
    if new_password:
        await password_changes.revoke_outstanding(services, user)
    await user_notifications.tell_changes(services, call, tenant, stored, user, new_password=new_password)


def _with_changed_email(
    tenant: Document, stored: Document, user: Document, call: Call, *, is_skipped: bool
) -> Document:
    """A new address has to be verified again where the tenant says so; otherwise what was verified stays so.

    A first address has to be verified as that of a new user. Where that `is_skipped` the new one counts as verified.
    """
    if is_skipped and "email" in user:
        return rules.with_verified_reason(user, "Skipped", call.now)
    configuration = tenant["emailConfiguration"]
    is_due = configuration["verifyEmailWhenChanged"] or "email" not in stored
    if "email" in user and configuration["verifyEmail"] and is_due:
        return rules.with_verified_reason(user, "Pending", call.now)
    return user


async def _current_password_problems(
    services: Services, tenant: Document, stored: Document, request: Document
) -> list[FieldError]:
    current = request.get("currentPassword")
    if current is None or await user_passwords.is_correct(services, tenant, stored, current):
        return []
    return [FieldError.of("invalid", "currentPassword", "The [currentPassword] is not the user's password.")]


def _moved(stored: Document, call: Call) -> int:
    return max(call.now, int(stored["lastUpdateInstant"]) + 1)


def missing_id_error(verb: str) -> Invalid:
    """The error of a verb that needs a user id in the path."""
    return Invalid.field("missing", "userId", f"You must specify the [userId] in the path to {verb} a user.")
