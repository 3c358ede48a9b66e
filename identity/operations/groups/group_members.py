"""Members of groups: add, replace, remove. One request may change several groups of one tenant.

A membership is stored in its own collection and on its user; both change in one transaction. Adding members does not
lock the group, so that many can join at once; `remove_orphans` then cleans up after a concurrent deletion of the group.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from identity.call import Call, Document
from identity.domain.groups import groups as group_rules
from identity.domain.groups.groups import ByGroup
from identity.domain.objects.resource_definition import Resource, SearchRules, Unique
from identity.errors import Conflict, Duplicate, FieldError, Invalid, NotFound
from identity.events.changes import Change, Event
from identity.ids import TenantId, parse_id
from identity.operations.groups import administrators, groups
from identity.operations.objects import crud
from identity.services import Services
from identity.store.groups import USER_INDEX
from identity.store.mongo import Session, Write

REQUEST = "api/group-members.json"
REMOVAL = "api/group-members-removal.json"

RESOURCE = Resource(
    "member",
    path="/api/group/member",
    schema="api/group-member.json",
    collection="group_members",
    label="Group Member",
    verbs=frozenset({"search"}),
    unique=(Unique(USER_INDEX, ("tenantId", "groupId", "userId"), "member.userId"),),
    search_rules=SearchRules(
        {"groupId": "exact", "userId": "exact", "tenantId": "exact"},
        {
            "groupId": "groupId",
            "id": "_id",
            "insertInstant": "insertInstant",
            "tenantId": "tenantId",
            "userId": "userId",
        },
        default="insertInstant ASC",
    ),
)


_MAXIMUM_ERRORS = 100

_MESSAGES = {
    "duplicate": "The [{}] names a membership that exists already.",
    "empty": "You must specify the [{}] property.",
    "invalid": "The [{}] does not exist in this tenant.",
    "missing": "You must specify the [{}] property.",
}


@dataclasses.dataclass(frozen=True, slots=True)
class _GroupChange:
    """The memberships that change in one group, and those that its event reports.

    `before` are all memberships as read, if the change depends on them.
    """

    group: Document
    reported: Sequence[Document]
    removed: Sequence[Document] = ()
    added: Sequence[Document] = ()
    before: Sequence[Document] | None = None


@crud.retry_on_conflict
async def add(services: Services, call: Call, body: Document) -> Document:
    """Add users to groups; return the new memberships by group. Raises Invalid."""
    requested = _by_group(services.schemas[REQUEST].read(body)["members"])
    crud.require_no_errors(_empty_problems(requested))
    tenant_id, found = await _validate(services, call, requested)
    crud.require_no_errors(await _duplicate_problems(services, tenant_id, "add", requested))
    added = {group["id"]: _build_memberships(requested[group["id"]], group, call) for group in found}
    changes = [_GroupChange(group, added[group["id"]], added=added[group["id"]]) for group in found]
    await _commit(services, call.within(tenant_id), "add", changes, requested)
    return added


@crud.retry_on_conflict
async def replace(services: Services, call: Call, body: Document) -> Document:
    """Replace all members of groups; return all memberships by group. Raises Invalid."""
    requested = _by_group(services.schemas[REQUEST].read(body)["members"])
    tenant_id, found = await _validate(services, call, requested)
    crud.require_no_errors(await _duplicate_problems(services, tenant_id, "update", requested))
    changes = [await _replacement(services, call, group, requested[group["id"]]) for group in found]
    await _commit(services, call.within(tenant_id), "update", changes, requested)
    return {change.group["id"]: list(change.reported) for change in changes}


@crud.retry_on_conflict
async def remove(services: Services, call: Call, body: Document) -> None:
    """Remove users from groups, by `memberIds` and by `members`. Raises Invalid for a user who is not a member."""
    request = services.schemas[REMOVAL].read(body)
    user_ids_by_group, member_ids = _by_group(request.get("members", {})), request.get("memberIds", [])
    if not user_ids_by_group and not member_ids:
        raise Invalid([_error("missing", "memberIds")])
    crud.require_no_errors(_empty_problems(user_ids_by_group))
    tenant_id = await _tenant_of(services, call, user_ids_by_group, member_ids)
    by_id = await _find_by_id(services, tenant_id, member_ids)
    by_user = await _find_by_user(services, tenant_id, user_ids_by_group)
    errors = [
        *(_error("invalid", f"memberIds[{index}]") for index, one in enumerate(member_ids) if one not in by_id),
        *(
            _error("invalid", f"members.{group_id}[{index}]")
            for group_id, user_ids in user_ids_by_group.items()
            for index, user_id in enumerate(user_ids)
            if (group_id, user_id) not in by_user
        ),
    ]
    crud.require_no_errors(errors[:_MAXIMUM_ERRORS])
    members = {member["id"]: member for member in (*by_id.values(), *by_user.values())}
    await _remove(services, call, tenant_id, list(members.values()))


@crud.retry_on_conflict
async def remove_by_id(services: Services, call: Call, member_id: str) -> None:
    """Remove one membership. Raises NotFound."""
    tenant_id = await crud.get_tenant_id(services, call, RESOURCE, member_id)
    assert tenant_id is not None, "a membership belongs to a tenant"
    found = await _find_by_id(services, tenant_id, [member_id])
    if not found:
        raise NotFound(log_detail=f"group_members {member_id}")
    await _remove(services, call, tenant_id, list(found.values()))


@crud.retry_on_conflict
async def remove_from(services: Services, call: Call, group_id: str, user_id: str | None) -> None:
    """Remove one user, or all members, from a group. Raises NotFound for a missing group or member."""
    group = await crud.retrieve(services, call, groups.RESOURCE, group_id)
    tenant_id = TenantId(group["tenantId"])
    where = {"groupId": group_id} if user_id is None else {"groupId": group_id, "userId": user_id}
    found = await _find_members(services, tenant_id, where, group_rules.MAXIMUM_CHANGES)
    if user_id is not None and not found:
        raise NotFound(log_detail=f"{user_id} is no member of {group_id}")
    await _remove(services, call, tenant_id, found)


async def insert_memberships(
    services: Services, tenant_id: TenantId, members: Sequence[Document], session: Session
) -> None:
    """Insert memberships that their users already hold. Call `remove_orphans` after the commit.

    Raises Conflict for a deleted group, and Duplicate.
    """
    for group_id in {member["groupId"] for member in members}:
        _require(await groups.find_live(services, tenant_id, group_id, session) is not None)
    await services.directory.group_members.insert_members(tenant_id, members, session)


async def remove_orphans(services: Services, tenant_id: TenantId, members: Iterable[Document]) -> None:
    """After the commit: remove new memberships in groups that were deleted concurrently."""
    group_ids = {member["groupId"] for member in members}
    for group_id in group_ids - set(await groups.find_all_live(services, tenant_id, group_ids)):
        await groups.remove_members(services, tenant_id, group_id)


def to_response(services: Services, members: Mapping[str, Sequence[Document]]) -> Document:
    """Return memberships by group in API form."""
    response: Document = services.schemas[REQUEST].show({"members": members})
    return response


async def _remove(services: Services, call: Call, tenant_id: TenantId, members: Sequence[Document]) -> None:
    group_ids = sorted({member["groupId"] for member in members})
    found = {
        group["id"]: group for group in await services.directory.groups.find_all(tenant_id, {"_id": {"$in": group_ids}})
    }
    by_group = {group_id: [one for one in members if one["groupId"] == group_id] for group_id in found}
    changes = [_GroupChange(found[group_id], removed, removed=removed) for group_id, removed in by_group.items()]
    await _commit(services, call.within(tenant_id), "remove", changes, {})


async def _validate(services: Services, call: Call, requested: ByGroup) -> tuple[TenantId, list[Document]]:
    """Return the tenant and its groups. Raises Invalid with all errors of the request."""
    if not requested:
        raise Invalid([_error("empty", "members")])
    tenant_id = await _tenant_of(services, call, requested, ())
    found = await groups.find_all_live(services, tenant_id, requested)
    user_ids = {one["userId"] for members in requested.values() for one in members}
    existing_ids = await services.directory.users.existing_ids(tenant_id, user_ids)
    errors = [_error("invalid", f"members.{group_id}") for group_id in requested if group_id not in found]
    errors += [
        _error("invalid", f"{path}.userId")
        for path, one in group_rules.each_member(requested)
        if one["userId"] not in existing_ids
    ]
    errors += [_error("duplicate", path) for path in group_rules.duplicate_paths(requested)]
    crud.require_no_errors(errors[:_MAXIMUM_ERRORS])
    return tenant_id, list(found.values())


async def _replacement(services: Services, call: Call, group: Document, requested: Sequence[Document]) -> _GroupChange:
    """Return the change that leaves exactly the requested members; remaining members keep their memberships."""
    limit = group_rules.MAXIMUM_CHANGES + len(requested)
    before = await _find_members(services, TenantId(group["tenantId"]), {"groupId": group["id"]}, limit)
    known = {member["userId"]: member for member in before}
    after = [
        {**known.get(fresh["userId"], fresh), "data": fresh["data"], **({"id": fresh["id"]} if "id" in one else {})}
        for one, fresh in zip(requested, _build_memberships(requested, group, call), strict=True)
    ]
    removed, added = group_rules.difference(before, after)
    return _GroupChange(group, after, removed, added, before)


async def _commit(
    services: Services, call: Call, operation: str, changes: Sequence[_GroupChange], requested: ByGroup
) -> None:
    """Commit the changes of all groups in one transaction, with one event per group.

    Raises Conflict when memberships changed since they were read, and Unauthorized for members who are administrators
    with more permissions than the caller.
    """
    if sum(len(change.removed) + len(change.added) for change in changes) > group_rules.MAXIMUM_CHANGES:
        raise _too_many()
    groups.require_authority(call, *(change.group for change in changes))
    tenant_id = crud.require_tenant(call)
    changed = {member["userId"] for change in changes for member in (*change.added, *change.removed)}
    await administrators.require_authority_over(services, call, tenant_id, changed)
    payloads = [
        {"group": await groups.to_response(services, change.group), "members": change.reported} for change in changes
    ]
    commit = Change(
        writes=[write for change in changes for write in _writes(services, tenant_id, change)],
        before_commit=[Event(f"group.member.{operation}", payload) for payload in payloads],
        after_commit=[Event(f"group.member.{operation}.complete", payload) for payload in payloads],
    )
    try:
        await services.bus.commit(call, commit)
    except Duplicate as duplicate:
        crud.require_no_errors(await _duplicate_problems(services, tenant_id, operation, requested))
        raise Conflict from duplicate  # the duplicate has been removed in the meantime
    await remove_orphans(services, tenant_id, [member for change in changes for member in change.added])


def _writes(services: Services, tenant_id: TenantId, change: _GroupChange) -> list[Write]:
    """Return the writes of one group's change. There are at least two, so that they share a transaction."""
    writes: list[Write] = []
    if change.before is not None:
        writes.append(functools.partial(_require_unchanged, services, tenant_id, change))
    if change.removed:
        writes.append(functools.partial(_delete_memberships, services, tenant_id, change))
    writes.append(functools.partial(insert_memberships, services, tenant_id, change.added))
    writes.append(functools.partial(_add_to_users, services, tenant_id, change))
    return writes


async def _require_unchanged(services: Services, tenant_id: TenantId, change: _GroupChange, session: Session) -> None:
    """Lock the group, so that of two concurrent replacements the second starts again from current memberships."""
    group_id = change.group["id"]
    _require(await services.directory.groups.lock(tenant_id, group_id, session))
    current = await services.directory.group_members.find_members(tenant_id, {"groupId": group_id}, session)
    _require(current == list(change.before or ()))


async def _delete_memberships(services: Services, tenant_id: TenantId, change: _GroupChange, session: Session) -> None:
    member_ids, user_ids = [one["id"] for one in change.removed], [one["userId"] for one in change.removed]
    deleted = await services.directory.group_members.delete_all(tenant_id, {"_id": {"$in": member_ids}}, session)
    _require(deleted == len(member_ids))
    await services.directory.users.remove_memberships(tenant_id, change.group["id"], user_ids, session)


async def _add_to_users(services: Services, tenant_id: TenantId, change: _GroupChange, session: Session) -> None:
    _require(await services.directory.users.add_memberships(tenant_id, change.added, session) == len(change.added))


def _require(is_unchanged: bool) -> None:
    if not is_unchanged:
        raise Conflict


async def _duplicate_problems(
    services: Services, tenant_id: TenantId, operation: str, requested: ByGroup
) -> list[FieldError]:
    """Return an error for each membership that exists already: by the requested id or, when adding, by the user."""
    ids = [member["id"] for _, member in group_rules.each_member(requested) if "id" in member]
    existing = {
        one["id"]: one for one in await services.directory.group_members.find_all_across_tenants({"_id": {"$in": ids}})
    }
    user_ids = {group_id: [one["userId"] for one in members] for group_id, members in requested.items()}
    by_user = await _find_by_user(services, tenant_id, user_ids) if operation == "add" else {}
    errors = []
    for group_id, members in requested.items():
        for index, member in enumerate(members):
            path, key = f"members.{group_id}[{index}]", (group_id, member["userId"])
            other = existing.get(member.get("id", ""))
            if other is not None and (other["groupId"], other["userId"]) != key:
                errors.append(_error("duplicate", f"{path}.id"))
            if key in by_user:
                errors.append(_error("duplicate", f"{path}.userId"))
    return errors[:_MAXIMUM_ERRORS]


async def _find_members(services: Services, tenant_id: TenantId, where: Document, limit: int) -> list[Document]:
    """Return the matching memberships. Raises Invalid, before reading them, when there are more than `limit`."""
    if await services.directory.group_members.count(tenant_id, where) > limit:
        raise _too_many()
    return await services.directory.group_members.find_members(tenant_id, where)


async def _tenant_of(services: Services, call: Call, group_ids: Iterable[str], member_ids: Collection[str]) -> TenantId:
    """Return the tenant of the call, else that of the first existing group or membership. Raises Invalid."""
    if call.tenant_id is not None:
        return call.tenant_id
    for group_id in group_ids:
        group = await services.directory.groups.find_cached_across_tenants(group_id)
        if group is not None:
            return TenantId(group["tenantId"])
    for member in await services.directory.group_members.find_all_across_tenants({"_id": {"$in": list(member_ids)}}):
        return TenantId(member["tenantId"])
    return crud.require_tenant(call)


async def _find_by_id(services: Services, tenant_id: TenantId, ids: Sequence[str]) -> dict[str, Document]:
    found = await services.directory.group_members.find_members(tenant_id, {"_id": {"$in": list(ids)}}) if ids else []
    return {member["id"]: member for member in found}


async def _find_by_user(
    services: Services, tenant_id: TenantId, user_ids_by_group: ByGroup
) -> dict[tuple[str, str], Document]:
    """Return the memberships of these users by (group id, user id)."""
    found = [
        member
        for group_id, user_ids in user_ids_by_group.items()
        for member in await services.directory.group_members.find_members(
            tenant_id, {"groupId": group_id, "userId": {"$in": list(user_ids)}}
        )
    ]
    return {(member["groupId"], member["userId"]): member for member in found}


def _build_memberships(requested: Sequence[Document], group: Document, call: Call) -> list[Document]:
    return [group_rules.membership(one, group["id"], one["userId"], call.now) for one in requested]


def _by_group(requested: ByGroup) -> dict[str, Sequence[Any]]:
    """Return the requested items under the canonical forms of their group ids."""
    return {parse_id(group_id) or group_id: items for group_id, items in requested.items()}


def _empty_problems(requested: ByGroup) -> list[FieldError]:
    return [_error("empty", f"members.{group_id}") for group_id, items in requested.items() if not items]


def _too_many() -> Invalid:
    message = f"At most {group_rules.MAXIMUM_CHANGES} memberships can change in one request."
    return Invalid.field("tooMany", "members", message)


def _error(kind: str, path: str) -> FieldError:
    return FieldError.of(kind, path, _MESSAGES[kind].format(path))
