"""What groups add to a user: the roles of the groups, in the applications that the user is registered for.

Everything that is asked for here is read through caches: this stands in the way of every token.
"""

from __future__ import annotations

from collections.abc import Mapping

from identity.call import Document
from identity.domain.groups import groups as rules
from identity.ids import TenantId
from identity.store.documents import Documents


async def with_group_roles(documents: Mapping[str, Documents], user: Document) -> Document:
    """The user as it is to be shown and told of: each registration with the roles of the user's groups too.

    What is stored keeps the user's own roles alone, so that leaving a group takes its roles away.
    """
    if not user.get("memberships") or not user["registrations"]:
        return user
    tenant_id = TenantId(user["tenantId"])
    groups = [
        group
        for membership in user["memberships"]
        if (group := await documents["groups"].find_cached(tenant_id, membership["groupId"])) is not None
    ]
    granted = {grant["applicationId"] for group in groups for grant in group["private"]["grants"]}
    wanted = granted & {registration["applicationId"] for registration in user["registrations"]}
    applications = {
        application_id: application
        for application_id in wanted
        if (application := await documents["applications"].find_cached(tenant_id, application_id)) is not None
    }
    return rules.with_roles(user, groups, applications) if applications else user
