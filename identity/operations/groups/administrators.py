"""Protection of administrators: no API key and no role of the console acts on a user with more permissions.

Otherwise a caller who may manage users could set the password of an administrator, or appoint one. Callers without an
API key, such as users who change their own account, are not concerned.
"""

from __future__ import annotations

from identity.call import ApiKeyCaller, Call, Document
from identity.domain.configuration import administrator_roles
from identity.domain.configuration.administrator_roles import Authority
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID
from identity.errors import Unauthorized
from identity.ids import TenantId
from identity.operations.groups import group_roles
from identity.services import Services

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


def grants_administration(group: Document) -> bool:
    """Return whether a group grants roles of the administrators' application."""
    return any(grant["applicationId"] == ADMINISTRATOR_APPLICATION_ID for grant in group["private"]["grants"])


async def require_authority(services: Services, call: Call, *users: Document) -> None:
    """Raise Unauthorized unless the caller has the permissions of each user who is an administrator."""
    for user in users:
        if not await has_authority(services, call, user):
            raise Unauthorized(log_detail="the user is an administrator with more permissions than the caller")


async def has_authority(services: Services, call: Call, user: Document) -> bool:
    """Return whether the caller has the permissions of a user, if that is an administrator."""
    if not isinstance(call.caller, ApiKeyCaller) or administrator_roles.registration_of(user) is None:
        return True
    authority = administrator_roles.of_user(await group_roles.with_group_roles(services, user))
    return authority is None or administrator_roles.of_caller(call.caller).covers(authority)


def require_all_permissions(call: Call, application_id: str) -> None:
    """Raise Unauthorized for a change of the administrators' application by a caller without all permissions.

    Its roles, and the providers and groups that refer to it, decide who becomes an administrator.
    """
    if application_id != ADMINISTRATOR_APPLICATION_ID or not isinstance(call.caller, ApiKeyCaller):
        return
    if not administrator_roles.of_caller(call.caller).covers(_EVERYTHING):
        raise Unauthorized(log_detail="the administrators' application requires all permissions")
