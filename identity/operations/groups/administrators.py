"""Protection of administrators: no caller acts on a user with more permissions, and none appoints one.

Otherwise a caller who may manage users could set the password of an administrator, or make one of itself. The stores
present every write of a user to the guard of the request (write_guard.py); the checks here are for what belongs to
users, and answer before anything else is validated.
"""

from __future__ import annotations

import functools
from collections.abc import Collection

from identity.call import ApiKeyCaller, Call, Caller, Document
from identity.domain.configuration import administrator_roles
from identity.domain.configuration.administrator_roles import Authority
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID
from identity.errors import Unauthorized
from identity.ids import TenantId
from identity.operations.groups import group_roles
from identity.services import Services
from identity.write_guard import FindBefore, Guard

_EVERYTHING = Authority({})


async def is_administrator(services: Services, user: Document) -> bool:
    """Return whether a user is registered for the administrators' application, or has a role there through a group.

    Reads nothing for a user without memberships, and otherwise only cached groups.
    """
    if administrator_roles.registration_of(user) is not None:
        return True
    tenant_id = TenantId(user["tenantId"])
    for membership in user.get("memberships", ()):
        group = await services.directory.groups.find_cached(tenant_id, membership["groupId"])
        if group is not None and grants_administration(group):
            return True
    return False


async def authority_of(services: Services, user: Document) -> Authority | None:
    """Return the authority of a user by its roles and those of its groups; None for a user without any.

    A group may grant its roles before the user is registered: the registration alone would put them into effect.
    """
    if not await is_administrator(services, user):
        return None
    if administrator_roles.registration_of(user) is None:
        registration: Document = {"applicationId": ADMINISTRATOR_APPLICATION_ID, "roles": []}
        user = {**user, "registrations": [*user["registrations"], registration]}
    return administrator_roles.of_user(await group_roles.with_group_roles(services, user))


def guard_of(services: Services, caller: Caller) -> Guard | None:
    """Return the guard of the writes of a caller; None for one with all permissions."""
    if not isinstance(caller, ApiKeyCaller):
        return functools.partial(_require_no_gain, services)
    authority = administrator_roles.of_caller(caller)
    return None if authority.covers(_EVERYTHING) else functools.partial(_require_covered, services, authority)


async def _require_covered(
    services: Services, authority: Authority, tenant_id: str | None, find_before: FindBefore, after: Document | None
) -> None:
    """Raise Unauthorized unless the authority includes that of the user, before and after the write."""
    if tenant_id != services.runtime.default_tenant_id:
        return  # the administrators' application belongs to the default tenant
    for user in (await find_before(), after):
        required = None if user is None else await authority_of(services, user)
        if required is not None and not authority.covers(required):
            raise Unauthorized(log_detail="the user is an administrator with more permissions than the caller")


async def _require_no_gain(
    services: Services, tenant_id: str | None, find_before: FindBefore, after: Document | None
) -> None:
    """Raise Unauthorized for a write without an API key, such as a registration, that makes an administrator."""
    if after is None or tenant_id != services.runtime.default_tenant_id:
        return
    required = await authority_of(services, after)
    if required is None:
        return
    before = await find_before()
    held = None if before is None else await authority_of(services, before)
    if held is None or not held.covers(required):
        raise Unauthorized(log_detail="only administrators appoint administrators")


def grants_administration(group: Document) -> bool:
    """Return whether a group grants roles of the administrators' application."""
    return any(grant["applicationId"] == ADMINISTRATOR_APPLICATION_ID for grant in group["private"]["grants"])


async def require_authority(services: Services, call: Call, *users: Document) -> None:
    """Raise Unauthorized unless the caller has the permissions of each user who is an administrator."""
    for user in users:
        if not await has_authority(services, call, user):
            raise Unauthorized(log_detail="the user is an administrator with more permissions than the caller")


async def require_authority_over(
    services: Services, call: Call, tenant_id: TenantId, user_ids: Collection[str]
) -> None:
    """As `require_authority`, for many users by their ids. Reads only the administrators among them."""
    if guard_of(services, call.caller) is None or tenant_id != services.runtime.default_tenant_id:
        return
    granting = await services.directory.groups.find_all(
        tenant_id, {"private.grants.applicationId": ADMINISTRATOR_APPLICATION_ID}
    )
    where = {
        "_id": {"$in": list(user_ids)},
        "$or": [
            {"registrations.applicationId": ADMINISTRATOR_APPLICATION_ID},
            {"memberships.groupId": {"$in": [group["id"] for group in granting]}},
        ],
    }
    await require_authority(services, call, *await services.directory.users.find_all(tenant_id, where))


async def has_authority(services: Services, call: Call, user: Document) -> bool:
    """Return whether the caller has the permissions of a user, if that is an administrator."""
    if not isinstance(call.caller, ApiKeyCaller):
        return True
    authority = await authority_of(services, user)
    return authority is None or administrator_roles.of_caller(call.caller).covers(authority)


def require_all_permissions(call: Call, application_id: str) -> None:
    """Raise Unauthorized for a change of the administrators' application by a caller without all permissions.

    Its roles, and the providers and groups that refer to it, decide who becomes an administrator.
    """
    if application_id != ADMINISTRATOR_APPLICATION_ID or not isinstance(call.caller, ApiKeyCaller):
        return
    if not administrator_roles.of_caller(call.caller).covers(_EVERYTHING):
        raise Unauthorized(log_detail="the administrators' application requires all permissions")
