"""Making users: everything that is judged and derived before the first write, whoever asks for it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Literal

from identity.call import Call, Document
from identity.domain.groups import groups as group_rules
from identity.domain.objects import rejected_members
from identity.domain.users import users as rules
from identity.errors import Duplicate, FieldError, Invalid
from identity.ids import ApplicationId, TenantId, UserId, new_id, new_secret
from identity.operations.groups import groups
from identity.operations.messaging import user_notifications
from identity.operations.objects import crud, features
from identity.operations.password_changes import password_changes
from identity.operations.passwords import breach_detection, user_passwords
from identity.operations.passwords.user_passwords import NewPassword
from identity.operations.verification import email_verifications, verified_login_ids
from identity.schemas import fill
from identity.services import Services
from identity.store import group_members
from identity.store.one_time_tokens import OneTimeTokenUse

_ATTEMPTS_AT_A_SUFFIX = 20
_LOGIN_IDS = frozenset({"user.email", "user.phoneNumber", "user.username"})


@dataclasses.dataclass(frozen=True, slots=True)
class Draft:
    """A user who is asked for, with everything that stands in the way.

    `is_set_up`: the user is to set the first password by a mail, and has a random one until then.
    """

    tenant: Document
    user: Document
    password: NewPassword | None
    others: list[Document]
    errors: list[FieldError]
    is_set_up: bool = False
    uses: Sequence[OneTimeTokenUse] = ()
    """What proves something of the user, and is used up by its creation."""


async def resolve_tenant_id(services: Services, call: Call, application_id: str | None) -> TenantId:
    """The tenant that a new user belongs to: the call's, else that of the application. Raises Invalid."""
    if call.tenant_id is None and application_id is not None:
        application = await services.applications.find_cached_across_tenants(application_id)
        if application is not None:
            return TenantId(application["tenantId"])
    return crud.require_tenant(call)


async def draft_user(
    services: Services, call: Call, tenant_id: TenantId, request: Document, user_id: str | None
) -> Draft:
    """The user that a request asks for, judged against everything but the unique indexes.

    `sendSetPasswordEmail` takes the place of a password where there is a template and an address to send it to; else
    it is ignored, as the contract has it, and a password is asked for.
    """
    tenant = await services.tenants.get_cached(None, tenant_id)
    wanted = request["user"]
    user = rules.normalize_phone_number(rules.build_user(wanted, UserId(user_id or new_id()), tenant_id, call.now))
    user["memberships"] = _memberships(wanted, user, call)
    user = await assign_unique_username(services, tenant, user)
    user = rules.with_verified_reason(user, _verified_reason(tenant, user, request), call.now)
    proven = await verified_login_ids.apply_verifications(
        services, tenant_id, user, request.get("verificationIds", []), call.now
    )
    user = proven.user
    is_set_up = await _is_set_up(services, tenant, user, request)
    password = None if is_set_up else user_passwords.requested_password(tenant, wanted)
    others = await services.users.find_duplicates(tenant_id, user)
    errors = rules.problems(user) + await shared_problems(services, tenant_id, request)
    errors += [] if request["disableDomainBlock"] else rules.blocked_domain_problems(user, _blocked_domains(tenant))
    errors += [] if is_set_up else await _password_problems(services, tenant, user, password)
    errors += await _membership_problems(services, tenant_id, wanted["memberships"])
    errors += [*proven.errors, *rules.duplicate_problems(user, others)]
    if user_id is not None and await services.users.find_cached_across_tenants(user_id) is not None:
        errors.append(duplicate_id(user))
    password = user_passwords.under_tenant_scheme(tenant, new_secret()) if is_set_up else password
    return Draft(tenant, user, password, others, errors, is_set_up, proven.uses)


async def read_request(services: Services, call: Call, schema: str, body: Document, user_id: str | None) -> Document:
    """The request for a new user. Raises Invalid with everything that is wrong with it."""
    tidy, errors = services.schemas[schema].examine(body)
    if errors:
        raise Invalid(await request_problems(services, call, schema, body, user_id))
    request: Document = tidy
    return request


async def request_problems(
    services: Services, call: Call, schema: str, body: Document, user_id: str | None
) -> list[FieldError]:
    """The errors in the shape of a request for a new user, and those of the user that the rest of it describes."""
    shape = services.schemas[schema]
    tidy, errors = shape.examine(body)
    if not isinstance(tidy, dict):
        return errors
    rest, rejected = rejected_members.remainder(tidy, errors, functools.partial(fill, shape.schema), shape.errors)
    if not isinstance(rest.get("user"), dict):
        return errors
    named = rest["registration"].get("applicationId") if "registration" in rest else rest.get("applicationId")
    try:
        further = (
            await draft_user(services, call, await resolve_tenant_id(services, call, named), rest, user_id)
        ).errors
    except Invalid as error:
        further = list(error.fields)
    # A login id that was given and rejected is not missing, and stands in for the others.
    blank = {f"[blank]{path}" for path in _LOGIN_IDS} if rejected & _LOGIN_IDS else set()
    return [*errors, *(error for error in rejected_members.beside(further, rejected) if error.code not in blank)]


async def finish_draft(services: Services, call: Call, made: Draft, more: list[FieldError]) -> Document:
    """The user of a draft, with its password hashed. Raises Invalid with the draft's errors and `more`."""
    errors = [*made.errors, *more]
    if made.others:
        await user_notifications.tell_in_use(services, call, made.tenant, made.user, made.others, "create")
    crud.gather(errors, features.problems(services, "user", made.user, None))
    assert made.password is not None
    return await user_passwords.with_password(services, made.tenant, made.user, made.password, call.now)


async def send_first_mail(
    services: Services, call: Call, made: Draft, user: Document, application: Document | None
) -> None:
    """Send a new user, who is stored, the one mail of the two that there may be: for a password, or to verify."""
    inside = call.within(TenantId(made.tenant["id"]))
    if made.is_set_up:
        await password_changes.send_setup_mail(services, inside, made.tenant, user, application)
    else:
        await email_verifications.start_for_change(services, inside, made.tenant, None, user, application)


async def shared_problems(services: Services, tenant_id: TenantId, request: Document) -> list[FieldError]:
    """What a create and an update may both name wrongly: an application."""
    errors = []
    application_id = request.get("applicationId")
    if application_id is not None and await find_application(services, tenant_id, application_id) is None:
        message = "The [applicationId] must name an existing application."
        errors.append(FieldError.of("invalid", "applicationId", message))
    return errors


async def assign_unique_username(services: Services, tenant: Document, user: Document) -> Document:
    """The user with the unique username that the tenant's rules give it; the unique index still has the last word."""
    unique = tenant["usernameConfiguration"]["unique"]
    plain = rules.with_unique_username(user)
    if "username" not in user or not unique["enabled"]:
        return plain
    if unique["strategy"] == "OnCollision" and await _is_free(services, plain):
        return plain
    suffixed = plain
    for _ in range(_ATTEMPTS_AT_A_SUFFIX):
        suffixed = rules.with_unique_username(
            user, rules.username_suffix(unique["separator"], unique["numberOfDigits"])
        )
        if await _is_free(services, suffixed):
            break
    return suffixed


async def duplicate_error(
    services: Services, call: Call, user: Document, duplicate: Duplicate, deed: Literal["create", "update"]
) -> Invalid:
    """The error of a write that a unique index refused; it is told of like one that was seen before the write."""
    if duplicate.index == "_id_":
        return Invalid([duplicate_id(user)])
    if duplicate.index == group_members.ID_INDEX:
        path = "user.memberships"
        return Invalid.field("duplicate", path, f"The [{path}] name the id of a membership that exists already.")
    others = await services.users.find_duplicates(user["tenantId"], user)
    if others:
        tenant = await services.tenants.get(None, TenantId(user["tenantId"]))
        await user_notifications.tell_in_use(services, call, tenant, user, others, deed)
    errors = rules.duplicate_problems(user, others)
    field = f"user.{duplicate.index}"
    return Invalid(errors or [FieldError.of("duplicate", field, f"A User with this {duplicate.index} already exists.")])


def duplicate_id(user: Document) -> FieldError:
    """The error of an id that is taken, in whatever tenant."""
    return FieldError.of("duplicate", "userId", f"A User with id = [{user['id']}] already exists.")


async def find_application(services: Services, tenant_id: TenantId, application_id: str | None) -> Document | None:
    """The application with this id in the tenant."""
    return (
        None
        if application_id is None
        else await services.applications.find_cached(tenant_id, ApplicationId(application_id))
    )


async def _is_set_up(services: Services, tenant: Document, user: Document, request: Document) -> bool:
    """Whether the user is to be mailed an id for the first password, and can be."""
    kind = request.get("sendSetPasswordIdentityType", "email" if request["sendSetPasswordEmail"] else "doNotSend")
    if kind != "email" or rules.email_address(user) is None:
        return False
    application_id = request.get("applicationId") or request.get("registration", {}).get("applicationId")
    application = await find_application(services, TenantId(tenant["id"]), application_id)
    return user_notifications.template_of(tenant, application, password_changes.SETUP_TEMPLATE) is not None


def _memberships(wanted: Document, user: Document, call: Call) -> list[Document]:
    """The memberships that a new user comes with."""
    return [group_rules.membership(one, one["groupId"], user["id"], call.now) for one in wanted["memberships"]]


async def _membership_problems(services: Services, tenant_id: TenantId, wanted: list[Document]) -> list[FieldError]:
    """Each membership names another group of the tenant, and no id that another membership has."""
    found = await groups.find_all_live(services, tenant_id, {one["groupId"] for one in wanted}) if wanted else {}
    errors, seen = [], set()
    for index, one in enumerate(wanted):
        path = f"user.memberships[{index}].groupId"
        if one["groupId"] not in found:
            errors.append(FieldError.of("invalid", path, f"The [{path}] must name an existing group."))
        if one["groupId"] in seen:
            errors.append(FieldError.of("duplicate", path, f"The [{path}] names a group for the second time."))
        seen.add(one["groupId"])
    return errors


async def _is_free(services: Services, user: Document) -> bool:
    found = await services.users.find_by_username(user["tenantId"], user["uniqueUsername"])
    return found is None or found["id"] == user["id"]


def _verified_reason(tenant: Document, user: Document, request: Document) -> str:
    if request["skipVerification"]:
        return "Skipped"
    return "Pending" if tenant["emailConfiguration"]["verifyEmail"] and "email" in user else "Disabled"


def _blocked_domains(tenant: Document) -> list[str]:
    return list(tenant["registrationConfiguration"]["blockedDomains"])


async def _password_problems(
    services: Services, tenant: Document, user: Document, password: NewPassword | None
) -> list[FieldError]:
    path = user_passwords.PATH
    if password is None:
        return [FieldError.of("blank", path, f"You must specify the [{path}] property.")]
    errors = user_passwords.policy_problems(tenant, user, password)
    return errors or await breach_detection.problems(services, tenant, user, password.password, path)
