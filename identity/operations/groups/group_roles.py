"""Roles that users have through groups. Every token needs them, so all reads go through caches."""

from __future__ import annotations

from identity.call import Document
from identity.domain.groups import groups as group_rules
from identity.ids import TenantId
from identity.services import Services


async def with_group_roles(services: Services, user: Document) -> Document:
    """Return the user with the roles of the user's groups added to each registration.

    Stored registrations hold only the user's own roles, so that leaving a group removes its roles.
    """
    if not user.get("memberships") or not user["registrations"]:
        return user
    tenant_id = TenantId(user["tenantId"])
    groups = [
        group
        for membership in user["memberships"]
        if (group := await services.directory.groups.find_cached(tenant_id, membership["groupId"])) is not None
    ]
    granted_in = {grant["applicationId"] for group in groups for grant in group["private"]["grants"]}
    registered_in = {registration["applicationId"] for registration in user["registrations"]}
    applications = {
        application_id: application
        for application_id in granted_in & registered_in
        if (application := await services.configuration.applications.find_cached(tenant_id, application_id)) is not None
    }
    return group_rules.with_roles(user, groups, applications) if applications else user
