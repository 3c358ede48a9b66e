"""New users: validate a request and derive the stored document, before the first write."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Literal

from identity.call import Call, Document
from identity.domain.groups import groups as group_rules
from identity.domain.objects import request_members
from identity.domain.objects.owner_settings import EmailVerification
from identity.domain.users import users as user_rules
from identity.errors import Duplicate, FieldError, Invalid
from identity.ids import TenantId, UserId, new_id, new_secret
from identity.operations.groups import groups
from identity.operations.messaging import user_notifications
from identity.operations.objects import application_lookup, crud, features
from identity.operations.password_changes import password_changes
from identity.operations.passwords import breach_detection, password_cost, user_passwords
from identity.operations.passwords.user_passwords import NewPassword
from identity.operations.verification import email_verifications, verified_login_ids
from identity.schemas import fill
from identity.services import Services
from identity.store.groups import ID_INDEX
from identity.store.one_time_tokens import OneTimeTokenUse

_ATTEMPTS_AT_A_SUFFIX = 20
_LOGIN_IDS = frozenset({"user.email", "user.phoneNumber", "user.username"})


@dataclasses.dataclass(frozen=True, slots=True)
class NewUserDraft:
    """A requested user with its validation errors.

    `others` are users that have one of its login ids. `uses` are the one-time tokens that verify its login ids; its
    creation consumes them. With `sets_password_by_mail` it has a random password until the user sets one by a mail.
    """

    tenant: Document
    user: Document
    password: NewPassword | None
    others: list[Document]
    errors: list[FieldError]
    sets_password_by_mail: bool = False
    uses: Sequence[OneTimeTokenUse] = ()


async def resolve_tenant_id(services: Services, call: Call, application_id: str | None) -> TenantId:
    """Return the tenant of a new user: the call's, else that of the application. Raises Invalid."""
    if call.tenant_id is None and application_id is not None:
        application = await services.configuration.applications.find_cached_across_tenants(application_id)
        if application is not None:
            return TenantId(application["tenantId"])
    return crud.require_tenant(call)


async def draft_user(
    services: Services,
    call: Call,
    tenant_id: TenantId,
    request: Document,
    user_id: str | None,
    *,
    provisioned: Document | None = None,
) -> NewUserDraft:
    """Build the user that a request describes and check everything but the unique indexes.

    With `sendSetPasswordEmail` no password is required if there is a template and an address; otherwise the member is
    ignored, as the published API does. `provisioned` are private members of a user who is created by a provisioning
    protocol and needs no password.
    """
    tenant = await services.configuration.tenants.get_cached(None, tenant_id)
    requested = request["user"]
    user = user_rules.build_user(requested, UserId(user_id or new_id()), tenant_id, call.now)
    user = user_rules.normalize_phone_number({**user, "private": {**(provisioned or {})}})
    user["memberships"] = [
        group_rules.membership(one, one["groupId"], user["id"], call.now) for one in requested["memberships"]
    ]
    user = await assign_unique_username(services, tenant, user)
    user = user_rules.with_verified_reason(user, _verified_reason(tenant, user, request), call.now)
    verified = await verified_login_ids.apply_verifications(
        services, tenant_id, user, request.get("verificationIds", []), call.now
    )
    user = verified.user
    by_mail = await _sets_password_by_mail(services, tenant, user, request)
    is_random = by_mail or (provisioned is not None and "password" not in requested)
    password = None if is_random else user_passwords.requested_password(tenant, requested)
    others = await services.directory.users.find_duplicates(tenant_id, user)
    errors = user_rules.problems(user) + await application_problems(services, tenant_id, request)
    if not request["disableDomainBlock"]:
        blocked_domains = tenant["registrationConfiguration"]["blockedDomains"]
        errors += user_rules.blocked_domain_problems(user, blocked_domains)
    errors += [] if is_random else await _password_problems(services, call, tenant, user, password)
    errors += await _membership_problems(services, tenant_id, requested["memberships"])
    errors += [*verified.errors, *user_rules.duplicate_problems(user, others)]
    if user_id is not None and await services.directory.users.find_cached_across_tenants(user_id) is not None:
        errors.append(duplicate_id(user))
    password = user_passwords.under_tenant_scheme(tenant, new_secret()) if is_random else password
    return NewUserDraft(tenant, user, password, others, errors, by_mail, verified.uses)


async def read_request(services: Services, call: Call, schema: str, body: Document, user_id: str | None) -> Document:
    """Parse a request for a new user. Raises Invalid with the errors of its shape and of its state."""
    tidy, errors = services.schemas[schema].examine(body)
    if errors:
        raise Invalid(await request_problems(services, call, schema, body, user_id))
    request: Document = tidy
    return request


async def request_problems(
    services: Services, call: Call, schema: str, body: Document, user_id: str | None
) -> list[FieldError]:
    """Return the schema errors of a request for a new user, and the errors of its valid part."""
    shape = services.schemas[schema]
    tidy, errors = shape.examine(body)
    if not isinstance(tidy, dict):
        return errors
    rest, rejected = request_members.remove_rejected(tidy, errors, functools.partial(fill, shape.schema), shape.errors)
    if not isinstance(rest.get("user"), dict):
        return errors
    named = rest["registration"].get("applicationId") if "registration" in rest else rest.get("applicationId")
    try:
        further = (
            await draft_user(services, call, await resolve_tenant_id(services, call, named), rest, user_id)
        ).errors
    except Invalid as error:
        further = list(error.fields)
    # A rejected login id is not a missing one: do not require another in its place.
    blank = {f"[blank]{path}" for path in _LOGIN_IDS} if rejected & _LOGIN_IDS else set()
    return [*errors, *(error for error in request_members.unrelated_to(further, rejected) if error.code not in blank)]


async def finish_draft(
    services: Services, call: Call, draft: NewUserDraft, further_errors: Sequence[FieldError]
) -> Document:
    """Return the user of a draft with its password hashed. Raises Invalid with the draft's and `further_errors`."""
    if draft.others:
        await user_notifications.notify_duplicate(services, call, draft.tenant, draft.user, draft.others, "create")
    crud.require_no_errors([*draft.errors, *further_errors], features.problems(services, "user", draft.user, None))
    assert draft.password is not None
    return await user_passwords.with_password(services, draft.tenant, draft.user, draft.password, call.now)


async def send_first_mail(
    services: Services, call: Call, draft: NewUserDraft, user: Document, application: Document | None
) -> None:
    """Send a stored user the mail to set the first password, or else to verify the email."""
    call = call.within(TenantId(draft.tenant["id"]))
    if draft.sets_password_by_mail:
        await password_changes.send_setup_mail(services, call, draft.tenant, user, application)
    else:
        await email_verifications.start_for_change(services, call, draft.tenant, None, user, application)


async def application_problems(services: Services, tenant_id: TenantId, request: Document) -> list[FieldError]:
    """Return an error if the request names an application that does not exist in the tenant."""
    application_id = request.get("applicationId")
    if application_id is None or await application_lookup.find(services, tenant_id, application_id) is not None:
        return []
    return [FieldError.invalid("applicationId", "must name an existing application")]


async def assign_unique_username(services: Services, tenant: Document, user: Document) -> Document:
    """Return the user with the unique username of the tenant's rules; the unique index makes the final decision."""
    unique = tenant["usernameConfiguration"]["unique"]
    plain = user_rules.with_unique_username(user)
    if "username" not in user or not unique["enabled"]:
        return plain
    if unique["strategy"] == "OnCollision" and await _is_free(services, plain):
        return plain
    suffixed = plain
    for _ in range(_ATTEMPTS_AT_A_SUFFIX):
        suffixed = user_rules.with_unique_username(
            user, user_rules.username_suffix(unique["separator"], unique["numberOfDigits"])
        )
        if await _is_free(services, suffixed):
            break
    return suffixed


async def duplicate_error(
    services: Services, call: Call, user: Document, duplicate: Duplicate, operation: Literal["create", "update"]
) -> Invalid:
    """Return the error of a write that a unique index rejected, and notify the owner as for an earlier check."""
    if duplicate.index == "_id_":
        return Invalid([duplicate_id(user)])
    if duplicate.index == ID_INDEX:
        path = "user.memberships"
        return Invalid.field("duplicate", path, f"The [{path}] name the id of a membership that exists already.")
    others = await services.directory.users.find_duplicates(user["tenantId"], user)
    if others:
        tenant = await services.configuration.tenants.get(None, TenantId(user["tenantId"]))
        await user_notifications.notify_duplicate(services, call, tenant, user, others, operation)
    errors = user_rules.duplicate_problems(user, others)
    field = f"user.{duplicate.index}"
    return Invalid(errors or [FieldError.of("duplicate", field, f"A User with this {duplicate.index} already exists.")])


def duplicate_id(user: Document) -> FieldError:
    """Return the error of an id that exists, in any tenant."""
    return FieldError.of("duplicate", "userId", f"A User with id = [{user['id']}] already exists.")


async def _sets_password_by_mail(services: Services, tenant: Document, user: Document, request: Document) -> bool:
    """Whether the request asks for a mail to set the first password, and the mail can be sent."""
    kind = request.get("sendSetPasswordIdentityType", "email" if request["sendSetPasswordEmail"] else "doNotSend")
    if kind != "email" or user_rules.email_address(user) is None:
        return False
    application_id = request.get("applicationId") or request.get("registration", {}).get("applicationId")
    application = await application_lookup.find(services, TenantId(tenant["id"]), application_id)
    return user_notifications.configured_template(tenant, application, password_changes.SETUP_TEMPLATE) is not None


async def _membership_problems(services: Services, tenant_id: TenantId, requested: list[Document]) -> list[FieldError]:
    """Each membership must name an existing group of the tenant, and each group once."""
    found = await groups.find_all_live(services, tenant_id, {one["groupId"] for one in requested}) if requested else {}
    errors, seen = [], set()
    for index, one in enumerate(requested):
        path = f"user.memberships[{index}].groupId"
        if one["groupId"] not in found:
            errors.append(FieldError.invalid(path, "must name an existing group"))
        if one["groupId"] in seen:
            errors.append(FieldError.of("duplicate", path, f"The [{path}] names a group for the second time."))
        seen.add(one["groupId"])
    return errors


async def _is_free(services: Services, user: Document) -> bool:
    found = await services.directory.users.find_by_username(user["tenantId"], user["uniqueUsername"])
    return found is None or found["id"] == user["id"]


def _verified_reason(tenant: Document, user: Document, request: Document) -> str:
    if request["skipVerification"]:
        return "Skipped"
    return "Pending" if EmailVerification.of(tenant).verify_email and "email" in user else "Disabled"


async def _password_problems(
    services: Services, call: Call, tenant: Document, user: Document, password: NewPassword | None
) -> list[FieldError]:
    path = user_passwords.PATH
    if password is None:
        return [FieldError.missing(path, "blank")]
    errors = user_passwords.policy_problems(tenant, user, password)
    errors += password_cost.factor_problems(services, call, tenant, password.scheme, password.factor)
    return errors or await breach_detection.problems(services, tenant, user, password.password, path)
