"""Entities that reach users: the SCIM clients and servers of tenants, whose tokens create, change and delete users.

Whoever changes such an entity, its type or a grant on it, or reads its secret, could manage users through it. That
requires the permissions for users.
"""

from __future__ import annotations

from typing import Final

from identity import permissions
from identity.call import ApiKeyCaller, Call, Caller
from identity.errors import Unauthorized
from identity.services import Services

_CLIENT: Final = "clientEntityTypeId"
_SERVER: Final = "serverEntityTypeId"
_MEMBERS: Final = (f"scimServerConfiguration.{_CLIENT}", f"scimServerConfiguration.{_SERVER}")
_USERS: Final = {"/api/user": permissions.ENDPOINTS["/api/user"]}


def may_manage_users(caller: Caller) -> bool:
    """Return whether a caller has all permissions for users."""
    if not isinstance(caller, ApiKeyCaller):
        return True
    return permissions.covers(caller.api_key["permissions"]["endpoints"], _USERS)


async def is_reached(services: Services, type_id: str | None) -> bool:
    """Return whether entities of a type are SCIM clients or servers of any tenant."""
    found = await services.configuration.tenants.distinct_cached(None, "SCIM entity types", {}, _MEMBERS)
    settings = [tenant.get("scimServerConfiguration", {}) for tenant in found]
    return type_id is not None and any(type_id in (one.get(_CLIENT), one.get(_SERVER)) for one in settings)


async def require_authority(services: Services, call: Call, *type_ids: str | None) -> None:
    """Raise Unauthorized if entities of one of the types reach users, whom the caller may not manage."""
    if may_manage_users(call.caller):
        return
    for type_id in type_ids:
        if await is_reached(services, type_id):
            raise Unauthorized(log_detail="the entity is a SCIM client or server, which requires the user permissions")
