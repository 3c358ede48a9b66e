"""Groups: what a membership is, and which roles it brings.

grant       one role of one application that a group gives to its members: `{applicationId, roleId}`
membership  that a user belongs to a group; it stands in a collection of its own, to be searched, and on its user, so
            that nobody has to ask for it when a token is made
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from identity.call import Document
from identity.ids import new_id
from identity.instants import Instant

ByGroup = Mapping[str, Sequence[Any]]
"""Group id -> what a request asks for it, in the order of the request."""

MAXIMUM_CHANGES = 2500
"""How many memberships one request may add and remove: they change in one transaction, for which somebody waits."""


def membership(wanted: Document, group_id: str, user_id: str, now: Instant) -> Document:
    """A new membership; `wanted` may bring its id and data."""
    return {
        "data": wanted["data"],
        "groupId": group_id,
        "id": wanted.get("id") or new_id(),
        "insertInstant": now,
        "userId": user_id,
    }


def replaced(members: Sequence[Document], wanted: Sequence[Document]) -> tuple[list[Document], list[Document]]:
    """(memberships to remove, memberships to add) so that `members` become `wanted`.

    Who stays keeps the id and the instant of the membership, unless another id is asked for; only what differs is
    removed and added.
    """
    before = {member["userId"]: member for member in members}
    after = {member["userId"]: member for member in wanted}
    removed = [member for user_id, member in before.items() if after.get(user_id) != member]
    added = [member for user_id, member in after.items() if before.get(user_id) != member]
    return removed, added


def each(wanted: ByGroup) -> Iterator[tuple[str, Document]]:
    """(path, member) of every member that a request names."""
    for group_id, members in wanted.items():
        for index, member in enumerate(members):
            yield f"members.{group_id}[{index}]", member


def repeated(wanted: ByGroup) -> list[str]:
    """The paths of what a request names a second time: a user of one group, the id of a membership."""
    paths, seen = [], set()
    for path, member in each(wanted):
        keys = {"userId": (path.partition("[")[0], member["userId"]), "id": member.get("id")}
        paths += [f"{path}.{name}" for name, key in keys.items() if key in seen]
        seen |= {key for key in keys.values() if key is not None}
    return paths


def grants_of(role_ids: Iterable[str], applications: Iterable[Document]) -> list[Document]:
    """The grants of roles, in the order of their ids; an id that no application has is left out."""
    applications = list(applications)
    return [
        {"applicationId": application["id"], "roleId": role_id}
        for role_id in role_ids
        for application in applications
        if any(role["id"] == role_id for role in application["roles"])
    ]


def granted_roles(groups: Iterable[Document], application: Document) -> list[Document]:
    """The roles of an application that the groups give, in the application's order."""
    granted = {
        grant["roleId"]
        for group in groups
        for grant in group["private"]["grants"]
        if grant["applicationId"] == application["id"]
    }
    return [role for role in application["roles"] if role["id"] in granted]


def with_roles(user: Document, groups: Sequence[Document], applications: Mapping[str, Document]) -> Document:
    """The user with the roles of the groups on the registrations for these applications."""
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
