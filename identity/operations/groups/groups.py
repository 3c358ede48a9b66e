"""Groups and the roles that they grant to their members: create, update, patch, delete."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import Any

from identity.call import AnonymousCaller, Call, Caller, Document, Origin
from identity.domain.groups import groups as group_rules
from identity.domain.objects import patch as patches
from identity.domain.objects.resource_definition import Resource, SearchRules, Unique
from identity.errors import Invalid, NotFound
from identity.events.changes import Change, Event
from identity.ids import TenantId, new_id, parse_id
from identity.operations.groups import administrators
from identity.operations.objects import crud, object_events
from identity.services import Services
from identity.store.mongo import Session

_DELETING = "private.deleting"


async def prepare(services: Services, call: Call, document: Document, _stored: Document | None) -> Document:
    """Resolve the requested role ids to grants. Raises Invalid for a role that no application of the tenant has."""
    role_ids = document["private"].pop("requestedRoleIds")
    where = {"roles.id": {"$in": role_ids}}
    applications = await services.configuration.applications.find_all(document["tenantId"], where) if role_ids else []
    grants = group_rules.grants_of(role_ids, applications)
    unknown = sorted(set(role_ids) - {grant["roleId"] for grant in grants})
    if unknown:
        message = f"There is no role [{'], ['.join(unknown)[:200]}] in any application of the tenant."
        raise Invalid.field("invalid", "roleIds", message)
    document["private"]["grants"] = grants
    require_authority(call, document)
    return group_rules.without_outdated_name(document)


async def create(
    services: Services, call: Call, body: Document, group_id: str | None, private: Document | None = None
) -> Document:
    """Create a group, with further private members if given. Raises Invalid and WebhookTransactionFailed."""
    tenant_id = crud.require_tenant(call)
    own = {"id": group_id or new_id(), "tenantId": tenant_id, **crud.creation_instants(call.now)}
    group = await _validate(services, call, body, {**own, "private": private or {}}, None)
    await crud.require_unique(services, RESOURCE, group, None)
    insert = functools.partial(services.directory.groups.insert, tenant_id, group)
    change = object_events.change_of("group", await to_response(services, group), None, [insert])
    with crud.report_duplicates(RESOURCE, group):
        await services.bus.commit(call.within(tenant_id), change)
    return group


async def update(services: Services, call: Call, body: Document, group_id: str) -> Document:
    """Replace a group; omitted roles are removed. Raises NotFound and Invalid."""
    return await _change(services, call, group_id, body)


async def patch(services: Services, call: Call, kind: str, body: Any, group_id: str) -> Document:
    """Apply one of the three kinds of patch to a group and its `roleIds`. Raises NotFound and Invalid."""
    return await _change(services, call, group_id, body, patch_kind=kind)


async def update_version(
    services: Services, call: Call, stored: Document, body: Document, private: Document
) -> Document:
    """Replace a group that was read, with its private members; one without a change is not written.

    Raises Conflict if the group changed since, and Invalid.
    """
    group = await _replacement(services, call, stored, body, private)
    if crud.is_unchanged(stored, group):
        return stored
    require_authority(call, stored)
    await _replace(services, call, stored, group)
    return group


async def delete(services: Services, call: Call, group_id: str) -> None:
    """Delete a group and all memberships in it. Raises NotFound and WebhookTransactionFailed.

    A group may have very many members: the approved deletion marks the group, and `finish_deletion` then removes
    members and group in steps that can be repeated.
    """
    stored = await crud.retrieve(services, call, RESOURCE, group_id)
    require_authority(call, stored)
    call = call.within(TenantId(stored["tenantId"]))
    change = Change(
        writes=[functools.partial(_mark_deleting, services, stored)],
        before_commit=[Event("group.delete", {"group": await to_response(services, stored)})],
    )
    await services.bus.commit(call, change)
    await finish_deletion(services, call, stored)


async def finish_deletion(services: Services, call: Call, group: Document) -> None:
    """Remove the memberships and, last, the group, so that an interrupted deletion can be repeated."""
    tenant_id, group_id = TenantId(group["tenantId"]), group["id"]
    await remove_members(services, tenant_id, group_id)
    complete = Event("group.delete.complete", {"group": await to_response(services, group)})
    change = Change(
        writes=[functools.partial(services.directory.groups.delete, tenant_id, group_id)],
        after_commit=functools.partial(_if_deleted, complete),
    )
    await services.bus.commit(call, change)


async def remove_members(services: Services, tenant_id: TenantId, group_id: str) -> None:
    """Remove all memberships in a group that is deleted or being deleted."""
    await services.directory.users.remove_all_memberships(tenant_id, group_id)
    await services.directory.group_members.delete_in_chunks(tenant_id, {"groupId": group_id})


async def finish_deletions(services: Services) -> None:
    """Finish interrupted deletions."""
    for group in await services.directory.groups.find_all_across_tenants({_DELETING: True}):
        origin = Origin("127.0.0.1", "", new_id(), "")
        call = Call(TenantId(group["tenantId"]), AnonymousCaller(), services.clock.now(), origin)
        await finish_deletion(services, call, group)


async def forget_application(services: Services, tenant_id: TenantId, application_id: str) -> None:
    """Remove the roles of a deleted application from all groups."""
    await _remove_grants(services, tenant_id, {"applicationId": application_id})


async def forget_role(services: Services, application: Document, role: Document, after: Document | None) -> None:
    """Remove a deleted role from all groups, so that no group grants a later role with the same id."""
    if after is None:
        grant = {"applicationId": application["id"], "roleId": role["id"]}
        await _remove_grants(services, TenantId(application["tenantId"]), grant)


def require_authority(call: Call, *changed: Document) -> None:
    """Raise Unauthorized if groups grant roles of administrators and the caller may not appoint them."""
    for group in changed:
        for grant in group["private"]["grants"]:
            administrators.require_all_permissions(call, grant["applicationId"])


async def to_response(services: Services, group: Document) -> Document:
    """Return the group in API form, with its roles by application."""
    roles = {}
    for application_id in sorted({grant["applicationId"] for grant in group["private"]["grants"]}):
        application = await services.configuration.applications.find_cached(TenantId(group["tenantId"]), application_id)
        if application is not None and (granted := group_rules.granted_roles([group], application)):
            roles[application_id] = granted
    return crud.to_response(services, RESOURCE, {**group, "roles": roles})


async def _to_response(services: Services, _caller: Caller, group: Document) -> Document:
    return await to_response(services, group)


RESOURCE = Resource(
    "group",
    unique=(Unique("name", ("tenantId", "name"), "group.name"),),
    search_rules=SearchRules(
        {"name": "text", "tenantId": "exact"},
        {"id": "_id", "insertInstant": "insertInstant", "name": "name", "tenant": "tenantId"},
    ),
    prepare=prepare,
    create=create,
    update=update,
    patch=patch,
    delete=delete,
    to_response=_to_response,
)


async def find_live(
    services: Services, tenant_id: TenantId, group_id: str, session: Session | None = None
) -> Document | None:
    """Return a group that is not being deleted, or None."""
    group = await services.directory.groups.find(tenant_id, group_id, session)
    return None if group is None or group["private"].get("deleting") else group


async def find_all_live(services: Services, tenant_id: TenantId, group_ids: Collection[str]) -> dict[str, Document]:
    """Return the groups that exist and are not being deleted, by id in the order given."""
    found = await services.directory.groups.find_all(tenant_id, {"_id": {"$in": list(group_ids)}})
    by_id = {group["id"]: group for group in found if not group["private"].get("deleting")}
    return {group_id: by_id[group_id] for group_id in group_ids if group_id in by_id}


async def _mark_deleting(services: Services, group: Document, session: Session | None) -> None:
    # The version increases so that a concurrent update cannot restore the group.
    change = {"$set": {_DELETING: True}, "$inc": {"lastUpdateInstant": 1}}
    if not await services.directory.groups.update(TenantId(group["tenantId"]), {"_id": group["id"]}, change, session):
        raise NotFound


def _if_deleted(complete: Event, results: Sequence[bool]) -> list[Event]:
    """Only the process that deleted the group announces it."""
    return [complete] if results[0] else []


@crud.retry_on_conflict
async def _change(
    services: Services, call: Call, group_id: str, body: Any, *, patch_kind: str | None = None
) -> Document:
    """Replace a group by the body of a PUT, or by the result of a patch of the given kind."""
    tenant_id = await crud.get_tenant_id(services, call, RESOURCE, group_id)
    assert tenant_id is not None, "a group belongs to a tenant"
    call = call.within(tenant_id)
    stored = await services.directory.groups.get(tenant_id, group_id)
    if patch_kind is not None:
        body = patches.apply(patch_kind, patch_form(services, stored), body)
    require_authority(call, stored)
    group = await _replacement(services, call, stored, body, stored["private"])
    await _replace(services, call, stored, group)
    return group


async def _replacement(services: Services, call: Call, stored: Document, body: Document, private: Document) -> Document:
    """Return the next version of a group. Raises Invalid."""
    own = {**crud.update_instants(stored, call.now), "tenantId": stored["tenantId"], "private": private}
    group = await _validate(services, call, body, own, stored)
    await crud.require_unique(services, RESOURCE, group, stored)
    return group


async def _replace(services: Services, call: Call, stored: Document, group: Document) -> None:
    """Commit a changed group. Raises Conflict and Invalid."""
    tenant_id = TenantId(stored["tenantId"])
    replace = functools.partial(services.directory.groups.replace, tenant_id, group, stored["lastUpdateInstant"])
    after, before = await to_response(services, group), await to_response(services, stored)
    with crud.report_duplicates(RESOURCE, group):
        await services.bus.commit(call, object_events.change_of("group", after, before, [replace]))


async def _validate(services: Services, call: Call, body: Document, own: Document, stored: Document | None) -> Document:
    """Return the group to store. Raises Invalid with all errors of the group and its roles."""
    private = {**own["private"], "requestedRoleIds": _role_ids(services, body)}
    return await crud.validate(services, call, RESOURCE, body, {**own, "private": private}, stored)


def _role_ids(services: Services, body: Document) -> list[str]:
    """Return the requested `roleIds` without those that the schema rejects."""
    tidy, _ = services.schemas[RESOURCE.schema].examine(body)
    role_ids = tidy.get("roleIds")
    return [role_id for role_id in role_ids if parse_id(role_id)] if isinstance(role_ids, list) else []


def patch_form(services: Services, stored: Document) -> Document:
    """Return a stored group as a PUT sends it, to which patches are applied."""
    role_ids = list(dict.fromkeys(grant["roleId"] for grant in stored["private"]["grants"]))
    return {"group": crud.to_patch_target(services, RESOURCE, stored), "roleIds": role_ids}


async def _remove_grants(services: Services, tenant_id: TenantId, grant: Document) -> None:
    await services.directory.groups.update(
        tenant_id,
        {"private.grants": {"$elemMatch": grant}},
        # The version increases so that a concurrent update cannot restore the roles.
        {"$pull": {"private.grants": grant}, "$inc": {"lastUpdateInstant": 1}},
    )
