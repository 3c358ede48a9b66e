"""Groups: create, change, delete, and the roles that they give to their members."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from typing import Any

from identity.call import AnonymousCaller, Call, Document, Origin
from identity.domain.groups import groups as rules
from identity.domain.objects import patch as patches
from identity.domain.objects.resource_definition import Resource, SearchRules, Unique
from identity.errors import Invalid, NotFound
from identity.events.changes import Event
from identity.ids import TenantId, new_id, parse_id
from identity.operations.objects import crud
from identity.services import Services
from identity.store.mongo import Session

_DELETING = "private.deleting"


async def prepare(services: Services, _call: Call, document: Document, _stored: Document | None) -> Document:
    """Find the roles that are asked for. Raises Invalid for one that no application of the tenant has."""
    wanted = document["private"].pop("wanted")
    where = {"roles.id": {"$in": wanted}}
    applications = await services.applications.find_all(document["tenantId"], where) if wanted else []
    grants = rules.grants_of(wanted, applications)
    unknown = sorted(set(wanted) - {grant["roleId"] for grant in grants})
    if unknown:
        message = f"There is no role [{'], ['.join(unknown)[:200]}] in any application of the tenant."
        raise Invalid.field("invalid", "roleIds", message)
    document["private"]["grants"] = grants
    return document


RESOURCE = Resource(
    "group",
    "/api/group",
    "api/group.json",
    "groups",
    "groups",
    "Group",
    unique=(Unique("name", ("tenantId", "name"), "group.name"),),
    search=SearchRules(
        {"name": "text", "tenantId": "exact"},
        {"id": "_id", "insertInstant": "insertInstant", "name": "name", "tenant": "tenantId"},
    ),
    prepare=prepare,
)


async def create(services: Services, call: Call, body: Document, group_id: str | None) -> Document:
    """A new group. Raises Invalid and WebhookTransactionFailed."""
    tenant_id = crud.require_tenant(call)
    own = {"id": group_id or new_id(), "tenantId": tenant_id, **crud.creation_instants(call.now)}
    group = await _judged(services, call, body, own, None)
    await crud.require_unique(services, RESOURCE, group, None)

    async def insert(session: Session | None) -> None:
        await services.groups.insert(tenant_id, group, session)

    about = {"group": await to_response(services, group)}
    with crud.report_duplicates(RESOURCE, group):
        await services.bus.perform(
            call.within(tenant_id), insert, [Event("group.create", about)], [Event("group.create.complete", about)]
        )
    return group


async def retrieve_each(services: Services, call: Call) -> AsyncIterator[Document]:
    """Every group that the caller can see, as the API shows it."""
    async for group in crud.retrieve_each(services, call, RESOURCE):
        yield await to_response(services, group)


async def update(services: Services, call: Call, body: Document, group_id: str) -> Document:
    """Replace a group; roles that are left out go. Raises NotFound and Invalid."""
    return await _change(services, call, group_id, lambda _stored: body)


async def patch(services: Services, call: Call, kind: str, body: Any, group_id: str) -> Document:
    """Change parts of a group; `roleIds` stands beside it. Raises NotFound and Invalid."""
    return await _change(
        services, call, group_id, lambda stored: patches.apply(kind, _patch_form(services, stored), body)
    )


async def delete(services: Services, call: Call, group_id: str) -> None:
    """Remove a group and all memberships in it. Raises NotFound.

    A group may have very many members: it is marked when nobody vetoes, and `finish_deletion` goes on from there until
    it is through.
    """
    stored = await crud.retrieve(services, call, RESOURCE, group_id)
    tenant_id = TenantId(stored["tenantId"])

    async def mark(session: Session | None) -> None:
        # The version moves too: an update that read the group before must not bring it back.
        change = {"$set": {_DELETING: True}, "$inc": {"lastUpdateInstant": 1}}
        if not await services.groups.update(tenant_id, {"_id": group_id}, change, session):
            raise NotFound

    call = call.within(tenant_id)
    await services.bus.perform(call, mark, [Event("group.delete", {"group": await to_response(services, stored)})])
    await finish_deletion(services, call, stored)


async def finish_deletion(services: Services, call: Call, group: Document) -> None:
    """Remove the memberships, and the group last, so that an interruption is only a delay."""
    tenant_id, group_id = TenantId(group["tenantId"]), group["id"]
    await remove_members(services, tenant_id, group_id)
    about = {"group": await to_response(services, group)}

    async def remove(session: Session | None) -> bool:
        return await services.groups.delete(tenant_id, group_id, session)

    def told(is_removed: bool) -> list[Event]:
        return [Event("group.delete.complete", about)] if is_removed else []

    await services.bus.perform(call, remove, announced=told)


async def remove_members(services: Services, tenant_id: TenantId, group_id: str) -> None:
    """Take everybody out of a group that is no more, or is about to be."""
    await services.users.remove_all_memberships(tenant_id, group_id)
    await services.group_members.delete_in_chunks(tenant_id, {"groupId": group_id})


async def finish_deletions(services: Services) -> None:
    """Go on with the deletions that were interrupted."""
    for group in await services.groups.find_all_across_tenants({_DELETING: True}):
        origin = Origin("127.0.0.1", "", new_id(), "")
        call = Call(TenantId(group["tenantId"]), AnonymousCaller(), services.clock.now(), origin)
        await finish_deletion(services, call, group)


async def forget_application(services: Services, tenant_id: TenantId, application_id: str) -> None:
    """Take the roles of an application from all groups, because it is deleted."""
    await _forget_grants(services, tenant_id, {"applicationId": application_id})


async def forget_role(services: Services, application: Document, role: Document, after: Document | None) -> None:
    """Take a role that was removed from all groups, so that another one under its id is nobody's."""
    if after is None:
        gone = {"applicationId": application["id"], "roleId": role["id"]}
        await _forget_grants(services, TenantId(application["tenantId"]), gone)


async def to_response(services: Services, group: Document) -> Document:
    """The group as the API shows it, with its roles by application."""
    roles = {}
    for application_id in sorted({grant["applicationId"] for grant in group["private"]["grants"]}):
        application = await services.applications.find_cached(TenantId(group["tenantId"]), application_id)
        if application is not None and (granted := rules.granted_roles([group], application)):
            roles[application_id] = granted
    return crud.to_response(services, RESOURCE, {**group, "roles": roles})


async def find_live(
    services: Services, tenant_id: TenantId, group_id: str, session: Session | None = None
) -> Document | None:
    """The group, unless it is about to be deleted."""
    group = await services.groups.find(tenant_id, group_id, session)
    return None if group is None or group["private"].get("deleting") else group


async def find_all_live(services: Services, tenant_id: TenantId, group_ids: Collection[str]) -> dict[str, Document]:
    """Those of the groups that are there, by id, in the order that they are asked for."""
    found = await services.groups.find_all(tenant_id, {"_id": {"$in": list(group_ids)}})
    by_id = {group["id"]: group for group in found if not group["private"].get("deleting")}
    return {group_id: by_id[group_id] for group_id in group_ids if group_id in by_id}


async def _change(services: Services, call: Call, group_id: str, wanted_of: Callable[[Document], Document]) -> Document:
    tenant_id = await crud.get_tenant_id(services, call, RESOURCE, group_id)
    assert tenant_id is not None, "a group belongs to a tenant"
    call = call.within(tenant_id)

    async def attempt() -> Document:
        stored = await services.groups.get(tenant_id, group_id)
        own = {**crud.update_instants(stored, call.now), "tenantId": tenant_id}
        group = await _judged(services, call, wanted_of(stored), own, stored)
        await crud.require_unique(services, RESOURCE, group, stored)

        async def replace(session: Session | None) -> None:
            await services.groups.replace(tenant_id, group, stored["lastUpdateInstant"], session)

        about = {"group": await to_response(services, group), "original": await to_response(services, stored)}
        with crud.report_duplicates(RESOURCE, group):
            await services.bus.perform(
                call, replace, [Event("group.update", about)], [Event("group.update.complete", about)]
            )
        return group

    return await crud.retry_on_conflict(attempt)


async def _judged(services: Services, call: Call, body: Document, own: Document, stored: Document | None) -> Document:
    """The group to store. Raises Invalid with everything that is wrong with it and its roles."""
    private = {**({} if stored is None else stored["private"]), "wanted": _role_ids(services, body)}
    return await crud.validate(services, call, RESOURCE, body, {**own, "private": private}, stored)


def _role_ids(services: Services, body: Document) -> list[str]:
    """The `roleIds` beside the group, without those that the schema refuses anyway."""
    tidy, _ = services.schemas[RESOURCE.schema].examine(body)
    given = tidy.get("roleIds")
    return [role_id for role_id in given if parse_id(role_id)] if isinstance(given, list) else []


def _patch_form(services: Services, stored: Document) -> Document:
    """A stored group as a PUT would send it: what a patch is applied to."""
    role_ids = list(dict.fromkeys(grant["roleId"] for grant in stored["private"]["grants"]))
    return {"group": crud.to_patch_target(services, RESOURCE, stored), "roleIds": role_ids}


async def _forget_grants(services: Services, tenant_id: TenantId, gone: Document) -> None:
    await services.groups.update(
        tenant_id,
        {"private.grants": {"$elemMatch": gone}},
        # The version moves too: an update that read the group before must not bring the roles back.
        {"$pull": {"private.grants": gone}, "$inc": {"lastUpdateInstant": 1}},
    )
