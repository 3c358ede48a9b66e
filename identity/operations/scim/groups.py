"""SCIM groups and their members (RFC 7644 section 3).

A PATCH that adds or removes members reads and writes only those, however large the group is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from identity.background_tasks import CooperativeYield
from identity.call import Document
from identity.domain.groups import groups as group_rules
from identity.domain.scim import filters, group_mapping, messages, models, user_mapping
from identity.domain.scim.errors import invalid
from identity.domain.scim.filters import Scope
from identity.domain.scim.group_mapping import MemberPlan
from identity.errors import Invalid
from identity.ids import new_id, parse_id
from identity.operations.groups import group_members, groups
from identity.operations.objects import crud
from identity.operations.scim import converters, resources
from identity.operations.scim.clients import ScimCall
from identity.operations.scim.resources import Answer, Request
from identity.services import Services

MAXIMUM_MEMBERS: Final = 20_000
"""The maximum number of members in one response."""

_MEMBERS: Final = "members"
_TAKEN_NAME: Final = "[duplicate]group.name"


async def create(services: Services, scim: ScimCall, request: Request) -> Answer:
    """Create a group with its members. Raises ScimError, Invalid, LambdaFailed and WebhookTransactionFailed."""
    selection = messages.read_selection(scim.tenant, [models.GROUP], request.parameters)
    requested, rest = group_mapping.split_resource(request.body)
    resource = messages.read_resource(scim.tenant, models.GROUP, rest) | {_MEMBERS: list(requested.values())}
    body, members = await _convert(services, scim, resource, {"group": {"data": {}}, "roleIds": []})
    _require_few(len(members))
    await _require_users(services, scim, members)
    private = user_mapping.with_external_id({}, resource.get("externalId"))
    group = await _create(services, scim, body, private)
    await _remove_and_add(services, scim, group["id"], [], list(members.values()))
    return await _answer(services, scim, group, selection)


async def retrieve(services: Services, scim: ScimCall, request: Request) -> Answer:
    """Retrieve a group. Raises ScimError."""
    selection = messages.read_selection(scim.tenant, [models.GROUP], request.parameters)
    group = await _get(services, scim, request)
    version = (await _versions(services, scim, [group]))[group["id"]]
    if request.preconditions.is_unmodified(version):
        return Answer(None, version, resources.location(scim, models.GROUP, group["id"]))
    return await _answer(services, scim, group, selection)


@crud.retry_on_conflict
async def change(services: Services, scim: ScimCall, request: Request) -> Answer:
    """Replace a group by a PUT, or apply a PATCH. Raises as `create`, and ScimError 404 and 412."""
    selection = messages.read_selection(scim.tenant, [models.GROUP], request.parameters)
    stored = await _get(services, scim, request)
    if request.preconditions.if_match is not None:
        request.preconditions.require((await _versions(services, scim, [stored]))[stored["id"]])
    plan, resource = await _requested(services, scim, request, stored)
    form = groups.patch_form(services, stored)
    body, members = await _convert(services, scim, {**resource, _MEMBERS: plan.requested}, form)
    await _require_users(services, scim, members)
    added, removed = await _difference(services, scim, stored["id"], plan, members)
    private = user_mapping.with_external_id(stored["private"], resource.get("externalId"))
    group = await _update(services, scim, stored, body, private)
    if added and removed and plan.replaced is not None:
        await group_members.replace(services, scim.call, {"members": {group["id"]: list(members.values())}})
    else:
        await _remove_and_add(services, scim, group["id"], removed, added)
    return await _answer(services, scim, group, selection)


async def delete(services: Services, scim: ScimCall, request: Request) -> None:
    """Delete a group. Raises ScimError 404 and 412, and WebhookTransactionFailed."""
    group = await _get(services, scim, request)
    request.preconditions.require((await _versions(services, scim, [group]))[group["id"]])
    await groups.delete(services, scim.call, group["id"])


async def search(
    services: Services, scim: ScimCall, query: messages.Query, start_row: int, limit: int
) -> tuple[int, list[Document]]:
    """Return how many groups match, and one page of them. Raises ScimError."""
    model, where = models.model_of(scim.tenant, models.GROUP), [{"private.deleting": {"$exists": False}}]
    if query.request.filter is not None:
        scope = Scope(scim.tenant_id, await _groups_of(services, scim, filters.member_ids(query.request.filter)))
        where.append(filters.translate(query.request.filter, model, group_mapping.FIELDS, scope))
    order = filters.order_of(query, model, group_mapping.FIELDS)
    total, found = await services.directory.groups.page(scim.tenant_id, {"$and": where}, order, start_row, limit)
    return total, await _shown(services, scim, found, await _versions(services, scim, found), query.request)


async def _requested(
    services: Services, scim: ScimCall, request: Request, stored: Document
) -> tuple[MemberPlan, Document]:
    """Return what a request changes of the members, and the resource without members that it makes of a group."""
    if request.method != "PATCH":
        requested, attributes = group_mapping.split_resource(request.body)
        return MemberPlan(requested), messages.read_resource(scim.tenant, models.GROUP, attributes)
    plan, rest = group_mapping.split(request.body)
    current = await converters.from_group(
        services, scim, await _api_form(services, stored), [],
        resources.base_of(scim, models.GROUP, stored, resources.version_of(stored["lastUpdateInstant"])),
    )  # fmt: skip
    current.pop(_MEMBERS, None)
    return plan, current if rest is None else messages.apply_patch(scim.tenant, models.GROUP, current, rest)


async def _convert(
    services: Services, scim: ScimCall, resource: Document, form: Document
) -> tuple[Document, dict[str, Document]]:
    """Return the request of `/api/group` that a resource makes of a group, and its members by user id."""
    group, members, role_ids = await converters.to_group(services, scim, resource, form["group"])
    body = {"group": group, "roleIds": form["roleIds"] if role_ids is None else role_ids}
    return body, group_mapping.read_members(members)


async def _remove_and_add(
    services: Services, scim: ScimCall, group_id: str, removed: list[str], added: list[Document]
) -> None:
    if removed:
        await group_members.remove(services, scim.call, {"members": {group_id: removed}})
    if added:
        await group_members.add(services, scim.call, {"members": {group_id: added}})


async def _difference(
    services: Services, scim: ScimCall, group_id: str, plan: MemberPlan, members: Mapping[str, Document]
) -> tuple[list[Document], list[str]]:
    """Return the memberships to add, and the users to remove. Raises ScimError for too many."""
    gone = {user_id for value in plan.removed if (user_id := parse_id(value)) is not None} - members.keys()
    where: Document = {"groupId": group_id}
    if plan.replaced is None:
        where["userId"] = {"$in": [*members, *gone]}
    if plan.replaced is not None or members or gone:
        _require_few(await services.directory.group_members.count(scim.tenant_id, where) - len(members) - len(gone))
        found = await services.directory.group_members.find_members(scim.tenant_id, where)
    else:
        found = []
    current = {one["userId"] for one in found}
    removed = current - members.keys() if plan.replaced is not None else current & gone
    added = [one for user_id, one in members.items() if user_id not in current]
    _require_few(len(added) + len(removed))
    return added, sorted(removed)


def _require_few(number: int) -> None:
    """Raise ScimError for more changes of memberships than one request may make."""
    if number > group_rules.MAXIMUM_CHANGES:
        raise invalid("tooMany", f"At most {group_rules.MAXIMUM_CHANGES} memberships can change in one request.")


async def _require_users(services: Services, scim: ScimCall, members: Mapping[str, Document]) -> None:
    """Raise ScimError for a member that is no user of the tenant."""
    existing = await services.directory.users.existing_ids(scim.tenant_id, members) if members else set()
    if missing := sorted(members.keys() - existing):
        raise invalid("invalidValue", f"There is no user {missing[0]}.")


async def _get(services: Services, scim: ScimCall, request: Request) -> Document:
    group = await groups.find_live(services, scim.tenant_id, request.id)
    if group is None:
        raise resources.not_found(request.id)
    return group


async def _answer(services: Services, scim: ScimCall, group: Document, selection: Any) -> Answer:
    versions = await _versions(services, scim, [group])
    (shown,) = await _shown(services, scim, [group], versions, selection)
    return Answer(shown, versions[group["id"]], resources.location(scim, models.GROUP, group["id"]))


async def _shown(
    services: Services, scim: ScimCall, found: Sequence[Document], versions: Mapping[str, str], selection: Any
) -> list[Document]:
    """Return groups as responses contain them, with their members if those are selected.

    Raises LambdaFailed, and ScimError for too many members.
    """
    members: dict[str, list[str]] = {group["id"]: [] for group in found}
    if messages.selects(selection, _MEMBERS):
        where = {"groupId": {"$in": list(members)}}
        if await services.directory.group_members.count(scim.tenant_id, where) > MAXIMUM_MEMBERS:
            raise invalid("tooMany", "The groups have too many members: use excludedAttributes=members.")
        for one in await services.directory.group_members.find_members(scim.tenant_id, where):
            members[one["groupId"]].append(one["userId"])
    shown, cooperative = list[Document](), CooperativeYield()
    for group in found:
        resource = await _resource(services, scim, group, versions[group["id"]], members[group["id"]])
        # The members are the service's own: validating many thousands of them would take seconds.
        entries = resource.pop(_MEMBERS, [])
        rendered = messages.render(scim.tenant, models.GROUP, resource, selection)
        if entries:
            rendered[_MEMBERS] = messages.select_entries(entries, selection, _MEMBERS)
        shown.append(rendered)
        await cooperative.step()
    return shown


async def _resource(
    services: Services, scim: ScimCall, group: Document, version: str, user_ids: Sequence[str]
) -> Document:
    base = resources.base_of(scim, models.GROUP, group, version)
    if user_ids:
        base[_MEMBERS] = [
            {"value": user_id, "$ref": resources.location(scim, models.USER, user_id), "type": "User"}
            for user_id in user_ids
        ]
    users = [{"id": user_id} for user_id in user_ids]
    return await converters.from_group(services, scim, await _api_form(services, group), users, base)


async def _api_form(services: Services, group: Document) -> Document:
    """Return a group in API form with its name for SCIM clients."""
    return {**await groups.to_response(services, group), "name": group_rules.display_name(group)}


async def _create(services: Services, scim: ScimCall, body: Document, private: Document) -> Document:
    """Create a group; if another one of the tenant has its name, store it under a distinct one."""
    group_id = new_id()
    try:
        return await groups.create(services, scim.call, body, group_id, private)
    except Invalid as error:
        body, private = _with_distinct_name(error, body, group_id, private)
        return await groups.create(services, scim.call, body, group_id, private)


async def _update(services: Services, scim: ScimCall, stored: Document, body: Document, private: Document) -> Document:
    """Replace a group; a new name that another group has is stored as by `_create`, an unchanged one stays."""
    if body["group"].get("name") == group_rules.display_name(stored):
        body = _renamed(body, stored["name"])
    try:
        return await groups.update_version(services, scim.call, stored, body, private)
    except Invalid as error:
        body, private = _with_distinct_name(error, body, stored["id"], private)
        return await groups.update_version(services, scim.call, stored, body, private)


def _with_distinct_name(error: Invalid, body: Document, group_id: str, private: Document) -> tuple[Document, Document]:
    """Return the body and private members of a group whose only error is that its name is taken.

    Raises the error again if it is another one.
    """
    if [field.code for field in error.fields] != [_TAKEN_NAME] or error.general:
        raise error
    name = body["group"]["name"]
    distinct = _renamed(body, group_rules.distinct_name(name, group_id))
    return distinct, {**private, group_rules.SHARED_NAME: name}


def _renamed(body: Document, name: str) -> Document:
    return {**body, "group": {**body["group"], "name": name}}


async def _versions(services: Services, scim: ScimCall, found: Sequence[Document]) -> dict[str, str]:
    """Return the versions of groups: they change with the group and with its members."""
    summaries = await services.directory.group_members.summaries(scim.tenant_id, [group["id"] for group in found])
    return {
        group["id"]: resources.version_of(group["lastUpdateInstant"], *summaries.get(group["id"], (0, 0)))
        for group in found
    }


async def _groups_of(services: Services, scim: ScimCall, user_ids: set[str]) -> dict[str, list[str]]:
    """Return the groups of users by user id."""
    found: dict[str, list[str]] = {user_id: [] for user_id in user_ids}
    if user_ids:
        where = {"userId": {"$in": sorted(user_ids)}}
        for one in await services.directory.group_members.find_members(scim.tenant_id, where):
            found[one["userId"]].append(one["groupId"])
    return found
