"""Rules of groups, memberships and the roles that groups grant.

grant       one role of one application that a group grants to its members: `{applicationId, roleId}`
membership  links a user to a group; stored in its own collection for searches, and on the user so that issuing a token
            needs no further query
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from identity.call import Document
from identity.ids import new_id
from identity.instants import Instant

ByGroup = Mapping[str, Sequence[Any]]
"""Group id -> the items of a request for the group, in the order of the request."""

MAXIMUM_CHANGES = 2500
"""The maximum of memberships that one request adds and removes, in one transaction."""


SHARED_NAME = "sharedName"
"""The member of `private` with the name that SCIM clients gave a group although another group had it."""
_MAXIMUM_SHARED = 180


def distinct_name(name: str, group_id: str) -> str:
    """Return the name under which a group is stored whose own name another group of the tenant has."""
    return f"{name[:_MAXIMUM_SHARED]} ({group_id[:8]})"


def display_name(group: Document) -> str:
    """Return the name of a group for SCIM clients, for which names need not be unique."""
    return str(group["private"].get(SHARED_NAME, group["name"]))


def without_outdated_name(group: Document) -> Document:
    """Return a group without the name that it shared before it was renamed."""
    private = group["private"]
    if SHARED_NAME not in private or group["name"] == distinct_name(private[SHARED_NAME], group["id"]):
        return group
    return {**group, "private": {name: value for name, value in private.items() if name != SHARED_NAME}}


def membership(requested: Document, group_id: str, user_id: str, now: Instant) -> Document:
    """Build a new membership; a request may set its id and data."""
    return {
        "data": requested["data"],
        "groupId": group_id,
        "id": requested.get("id") or new_id(),
        "insertInstant": now,
        "userId": user_id,
    }


def difference(before: Sequence[Document], after: Sequence[Document]) -> tuple[list[Document], list[Document]]:
    """Return the memberships to remove and those to add so that `before` becomes `after`."""
    old = {member["userId"]: member for member in before}
    new = {member["userId"]: member for member in after}
    removed = [member for user_id, member in old.items() if new.get(user_id) != member]
    added = [member for user_id, member in new.items() if old.get(user_id) != member]
    return removed, added


def each_member(requested: ByGroup) -> Iterator[tuple[str, Document]]:
    """Yield (path, member) for every member of a request."""
    for group_id, members in requested.items():
        for index, member in enumerate(members):
            yield f"members.{group_id}[{index}]", member


def duplicate_paths(requested: ByGroup) -> list[str]:
    """Return the paths of values that a request repeats: a user within one group, or a membership id."""
    paths, seen = [], set()
    for path, member in each_member(requested):
        keys = {"userId": (path.partition("[")[0], member["userId"]), "id": member.get("id")}
        paths += [f"{path}.{name}" for name, key in keys.items() if key in seen]
        seen |= {key for key in keys.values() if key is not None}
    return paths


def grants_of(role_ids: Iterable[str], applications: Iterable[Document]) -> list[Document]:
    """Return the grants of roles in the order of their ids, without ids that no application has."""
    applications = list(applications)
    return [
        {"applicationId": application["id"], "roleId": role_id}
        for role_id in role_ids
        for application in applications
        if any(role["id"] == role_id for role in application["roles"])
    ]


def granted_roles(groups: Iterable[Document], application: Document) -> list[Document]:
    """Return the roles of an application that the groups grant, in the application's order."""
    granted = {
        grant["roleId"]
        for group in groups
        for grant in group["private"]["grants"]
        if grant["applicationId"] == application["id"]
    }
    return [role for role in application["roles"] if role["id"] in granted]


def with_roles(user: Document, groups: Sequence[Document], applications: Mapping[str, Document]) -> Document:
    """Return the user with the roles of the groups added to the registrations for these applications."""
    return {
        **user,
        "registrations": [
            _with_roles(registration, groups, applications.get(registration["applicationId"]))
            for registration in user["registrations"]
        ],
    }


def _with_roles(registration: Document, groups: Sequence[Document], application: Document | None) -> Document:
    if application is None:
        return registration
    names = {role["name"] for role in granted_roles(groups, application)}
    return {**registration, "roles": sorted({*registration["roles"], *names})}
