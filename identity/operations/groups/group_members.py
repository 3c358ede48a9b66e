"""Members of groups: add, replace, remove. Several groups of one tenant may change in one request.

A membership stands in two places, its own collection and its user, which change in one transaction. Many may join a
group at once, so that joining does not hold it: who finds afterwards that the group went meanwhile, cleans up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from identity.call import Call, Document
from identity.domain.groups import groups as rules
from identity.domain.objects.resource_definition import Resource, SearchRules, Unique
from identity.errors import Conflict, Duplicate, FieldError, Invalid, NotFound
from identity.events.changes import Event
from identity.ids import TenantId, parse_id
from identity.operations.groups import groups
from identity.operations.objects import crud
from identity.services import Services
from identity.store.group_members import USER_INDEX
from identity.store.mongo import Session

REQUEST = "api/group-members.json"
REMOVAL = "api/group-members-removal.json"

RESOURCE = Resource(
    "member",
    "/api/group/member",
    "api/group-member.json",
    "group_members",
    "members",
    "Group Member",
    verbs=frozenset({"search"}),
    unique=(Unique(USER_INDEX, ("tenantId", "groupId", "userId"), "member.userId"),),
    search=SearchRules(
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


@dataclasses.dataclass(frozen=True, slots=True)
class _Change:
    """What changes in one group, and the members that its event tells of.

    `before` are all its members as they were read, where the change depends on that.
    """

    group: Document
    told: Sequence[Document]
    removed: Sequence[Document] = ()
    added: Sequence[Document] = ()
    before: Sequence[Document] | None = None


async def add(services: Services, call: Call, body: Document) -> Document:
    """Let users into groups: the new memberships by group. Raises Invalid."""
    wanted = _by_group(services.schemas[REQUEST].read(body)["members"])
    crud.require_no_errors(_empty(wanted))

    async def attempt() -> Document:
        tenant_id, found = await _judged(services, call, wanted)
        crud.require_no_errors(await _duplicates(services, tenant_id, "add", wanted))
        added = {group["id"]: _memberships(wanted[group["id"]], group, call) for group in found}
        changes = [_Change(group, added[group["id"]], added=added[group["id"]]) for group in found]
        await _write(services, call.within(tenant_id), "add", changes, wanted)
        return added

    return await crud.retry_on_conflict(attempt)


async def replace(services: Services, call: Call, body: Document) -> Document:
    """Make these users, and nobody else, the members of groups: all memberships by group. Raises Invalid."""
    wanted = _by_group(services.schemas[REQUEST].read(body)["members"])

    async def attempt() -> Document:
        tenant_id, found = await _judged(services, call, wanted)
        crud.require_no_errors(await _duplicates(services, tenant_id, "update", wanted))
        changes = [await _replacement(services, call, group, wanted[group["id"]]) for group in found]
        await _write(services, call.within(tenant_id), "update", changes, wanted)
        return {change.group["id"]: list(change.told) for change in changes}

    return await crud.retry_on_conflict(attempt)


async def remove(services: Services, call: Call, body: Document) -> None:
    """Take users out of groups, by `memberIds` and by `members`. Raises Invalid for who is not in."""
    request = services.schemas[REMOVAL].read(body)
    users, member_ids = _by_group(request.get("members", {})), request.get("memberIds", [])
    if not users and not member_ids:
        raise Invalid([_error("missing", "memberIds")])
    crud.require_no_errors(_empty(users))

    async def attempt() -> Document:
        tenant_id = await _tenant_of(services, call, users, member_ids)
        by_id = await _found_by_id(services, tenant_id, member_ids)
        by_user = await _found_by_user(services, tenant_id, users)
        errors = [
            *(_error("invalid", f"memberIds[{at}]") for at, one in enumerate(member_ids) if one not in by_id),
            *(
                _error("invalid", f"members.{group_id}[{at}]")
                for group_id, user_ids in users.items()
                for at, user_id in enumerate(user_ids)
                if (group_id, user_id) not in by_user
            ),
        ]
        crud.require_no_errors(errors[:_MAXIMUM_ERRORS])
        members = {member["id"]: member for member in (*by_id.values(), *by_user.values())}
        await _remove(services, call, tenant_id, list(members.values()))
        return {}

    await crud.retry_on_conflict(attempt)


async def remove_by_id(services: Services, call: Call, member_id: str) -> None:
    """End one membership. Raises NotFound."""

    async def attempt() -> Document:
        tenant_id = await crud.get_tenant_id(services, call, RESOURCE, member_id)
        assert tenant_id is not None, "a membership belongs to a tenant"
        found = await _found_by_id(services, tenant_id, [member_id])
        if not found:
            raise NotFound(log_detail=f"group_members {member_id}")
        await _remove(services, call, tenant_id, list(found.values()))
        return {}

    await crud.retry_on_conflict(attempt)


async def remove_from(services: Services, call: Call, group_id: str, user_id: str | None) -> None:
    """Take a user, or everybody, out of a group. Raises NotFound for a group or member that is not there."""

    async def attempt() -> Document:
        group = await crud.retrieve(services, call, groups.RESOURCE, group_id)
        tenant_id = TenantId(group["tenantId"])
        who = {} if user_id is None else {"userId": user_id}
        found = await _members(services, tenant_id, {"groupId": group_id, **who}, rules.MAXIMUM_CHANGES)
        if user_id is not None and not found:
            raise NotFound(log_detail=f"{user_id} is no member of {group_id}")
        await _remove(services, call, tenant_id, found)
        return {}

    await crud.retry_on_conflict(attempt)


async def insert_memberships(
    services: Services, tenant_id: TenantId, members: Sequence[Document], session: Session
) -> None:
    """Insert memberships. Call `remove_orphans` after the commit. Raises Conflict and Duplicate."""
    for group_id in {member["groupId"] for member in members}:
        _require(await groups.find_live(services, tenant_id, group_id, session) is not None)
    await services.group_members.insert_members(tenant_id, members, session)


async def remove_orphans(services: Services, tenant_id: TenantId, members: Iterable[Document]) -> None:
    """After the commit: end what was begun with a group that was deleted meanwhile, by whoever did not see it."""
    group_ids = {member["groupId"] for member in members}
    for group_id in group_ids - set(await groups.find_all_live(services, tenant_id, group_ids)):
        await groups.remove_members(services, tenant_id, group_id)


def to_response(services: Services, members: Mapping[str, Sequence[Document]]) -> Document:
    """Memberships by group, as the API shows them."""
    answer: Document = services.schemas[REQUEST].show({"members": members})
    return answer


async def _judged(services: Services, call: Call, wanted: rules.ByGroup) -> tuple[TenantId, list[Document]]:
    """The tenant and its groups. Raises Invalid with everything that is wrong with what is asked for."""
    if not wanted:
        raise Invalid([_error("empty", "members")])
    tenant_id = await _tenant_of(services, call, wanted, ())
    found = await groups.find_all_live(services, tenant_id, wanted)
    user_ids = {one["userId"] for members in wanted.values() for one in members}
    users = await services.users.existing_ids(tenant_id, user_ids)
    errors = [_error("invalid", f"members.{group_id}") for group_id in wanted if group_id not in found]
    errors += [_error("invalid", f"{path}.userId") for path, one in rules.each(wanted) if one["userId"] not in users]
    errors += [_error("duplicate", path) for path in rules.repeated(wanted)]
    crud.require_no_errors(errors[:_MAXIMUM_ERRORS])
    return tenant_id, list(found.values())


async def _replacement(services: Services, call: Call, group: Document, wanted: Sequence[Document]) -> _Change:
    most = rules.MAXIMUM_CHANGES + len(wanted)
    before = await _members(services, TenantId(group["tenantId"]), {"groupId": group["id"]}, most)
    known = {member["userId"]: member for member in before}
    after = [
        # Who stays a member keeps the membership, with the data that it is given now.
        {**known.get(fresh["userId"], fresh), "data": fresh["data"], **({"id": fresh["id"]} if "id" in one else {})}
        for one, fresh in zip(wanted, _memberships(wanted, group, call), strict=True)
    ]
    removed, added = rules.replaced(before, after)
    return _Change(group, after, removed, added, before)


async def _remove(services: Services, call: Call, tenant_id: TenantId, members: Sequence[Document]) -> None:
    group_ids = sorted({member["groupId"] for member in members})
    found = {group["id"]: group for group in await services.groups.find_all(tenant_id, {"_id": {"$in": group_ids}})}
    by_group = {group_id: [one for one in members if one["groupId"] == group_id] for group_id in found}
    changes = [_Change(found[group_id], gone, removed=gone) for group_id, gone in by_group.items()]
    await _write(services, call.within(tenant_id), "remove", changes, {})


async def _write(services: Services, call: Call, deed: str, changes: Sequence[_Change], wanted: rules.ByGroup) -> None:
    """Change all groups in one transaction, with an event for each. Raises Conflict when it must be looked again."""
    if sum(len(change.removed) + len(change.added) for change in changes) > rules.MAXIMUM_CHANGES:
        raise _too_many()
    tenant_id = crud.require_tenant(call)
    about = [{"group": await groups.to_response(services, change.group), "members": change.told} for change in changes]
    offered = [Event(f"group.member.{deed}", one) for one in about]
    announced = [Event(f"group.member.{deed}.complete", one) for one in about]

    async def change_all(session: Session) -> None:
        for change in changes:
            await _change(services, tenant_id, change, session)

    async def write(session: Session | None) -> None:
        await (services.database.in_transaction(change_all) if session is None else change_all(session))

    try:
        await services.bus.perform(call, write, offered, announced)
    except Duplicate as duplicate:
        crud.require_no_errors(await _duplicates(services, tenant_id, deed, wanted))
        raise Conflict from duplicate  # whoever was in the way is gone again
    await remove_orphans(services, tenant_id, [member for change in changes for member in change.added])


async def _change(services: Services, tenant_id: TenantId, change: _Change, session: Session) -> None:
    group_id = change.group["id"]
    if change.before is not None:
        # Of two that replace the members of one group, the second looks again.
        _require(await services.groups.lock(tenant_id, group_id, session))
        now = await services.group_members.find_members(tenant_id, {"groupId": group_id}, session)
        _require(now == list(change.before))
    if change.removed:
        ids, user_ids = [one["id"] for one in change.removed], [one["userId"] for one in change.removed]
        gone = await services.group_members.delete_all(tenant_id, {"_id": {"$in": ids}}, session)
        _require(gone == len(ids))
        await services.users.remove_memberships(tenant_id, group_id, user_ids, session)
    await insert_memberships(services, tenant_id, change.added, session)
    _require(await services.users.add_memberships(tenant_id, change.added, session) == len(change.added))


def _require(is_as_it_was_read: bool) -> None:
    if not is_as_it_was_read:
        raise Conflict


async def _duplicates(services: Services, tenant_id: TenantId, deed: str, wanted: rules.ByGroup) -> list[FieldError]:
    """The errors of memberships that exist already: by the id that was asked for or, where users join, by the user."""
    ids = [member["id"] for _, member in rules.each(wanted) if "id" in member]
    taken = {one["id"]: one for one in await services.group_members.find_all_across_tenants({"_id": {"$in": ids}})}
    users = {group_id: [one["userId"] for one in members] for group_id, members in wanted.items()}
    there = await _found_by_user(services, tenant_id, users) if deed == "add" else {}
    errors = []
    for group_id, members in wanted.items():
        for index, member in enumerate(members):
            path, who = f"members.{group_id}[{index}]", (group_id, member["userId"])
            other = taken.get(member.get("id", ""))
            if other is not None and (other["groupId"], other["userId"]) != who:
                errors.append(_error("duplicate", f"{path}.id"))
            if who in there:
                errors.append(_error("duplicate", f"{path}.userId"))
    return errors[:_MAXIMUM_ERRORS]


async def _members(services: Services, tenant_id: TenantId, where: Document, most: int) -> list[Document]:
    """The memberships that match. Raises Invalid when there are too many to change, before they are read."""
    if await services.group_members.count(tenant_id, where) > most:
        raise _too_many()
    return await services.group_members.find_members(tenant_id, where)


async def _tenant_of(services: Services, call: Call, group_ids: Iterable[str], member_ids: Collection[str]) -> TenantId:
    """The tenant of the call, else that of the first group or membership there is. Raises Invalid."""
    if call.tenant_id is not None:
        return call.tenant_id
    for group_id in group_ids:
        group = await services.groups.find_cached_across_tenants(group_id)
        if group is not None:
            return TenantId(group["tenantId"])
    for member in await services.group_members.find_all_across_tenants({"_id": {"$in": list(member_ids)}}):
        return TenantId(member["tenantId"])
    return crud.require_tenant(call)


async def _found_by_id(services: Services, tenant_id: TenantId, ids: Sequence[str]) -> dict[str, Document]:
    found = await services.group_members.find_members(tenant_id, {"_id": {"$in": list(ids)}}) if ids else []
    return {member["id"]: member for member in found}


async def _found_by_user(
    services: Services, tenant_id: TenantId, users: Mapping[str, Sequence[str]]
) -> dict[tuple[str, str], Document]:
    """(group, user) -> their membership, for those of the users who are in."""
    found = [
        member
        for group_id, user_ids in users.items()
        for member in await services.group_members.find_members(
            tenant_id, {"groupId": group_id, "userId": {"$in": list(user_ids)}}
        )
    ]
    return {(member["groupId"], member["userId"]): member for member in found}


def _memberships(wanted: Sequence[Document], group: Document, call: Call) -> list[Document]:
    return [rules.membership(one, group["id"], one["userId"], call.now) for one in wanted]


def _by_group(given: rules.ByGroup) -> dict[str, Sequence[Any]]:
    """What is given for each group, under the canonical form of its id."""
    return {parse_id(group_id) or group_id: items for group_id, items in given.items()}


def _empty(wanted: rules.ByGroup) -> list[FieldError]:
    """Groups that are named for nobody."""
    return [_error("empty", f"members.{group_id}") for group_id, items in wanted.items() if not items]


def _too_many() -> Invalid:
    message = f"At most {rules.MAXIMUM_CHANGES} memberships can change in one request."
    return Invalid.field("tooMany", "members", message)


_MAXIMUM_ERRORS = 100
"""Nobody reads more of them."""

_MESSAGES = {
    "duplicate": "The [{}] names a membership that exists already.",
    "empty": "You must specify the [{}] property.",
    "invalid": "The [{}] does not exist in this tenant.",
    "missing": "You must specify the [{}] property.",
}


def _error(kind: str, path: str) -> FieldError:
    return FieldError.of(kind, path, _MESSAGES[kind].format(path))
