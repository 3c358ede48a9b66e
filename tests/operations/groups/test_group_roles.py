"""Roles granted by groups, and the number of queries they take."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from identity.call import Document
from identity.operations.groups import group_roles
from tests.builders import make_application, make_registration, make_user


class Remembered:
    """A collection that answers from its cache only."""

    def __init__(self, *documents: Document) -> None:
        self._documents = {document["id"]: document for document in documents}

    async def find_cached(self, _tenant_id: str, document_id: str) -> Document | None:
        return self._documents.get(document_id)


def application(*names: str) -> Document:
    roles = [{"id": f"{name}-id", "name": name, "isDefault": False, "isSuperRole": False} for name in names]
    return make_application() | {"roles": roles}


def group(group_id: str, owner: Document, *names: str) -> Document:
    grants = [{"applicationId": owner["id"], "roleId": f"{name}-id"} for name in names]
    return {"id": group_id, "private": {"grants": grants}}


def member(*group_ids: str, registrations: list[Document]) -> Document:
    user = make_user(registrations=registrations)
    return user | {"tenantId": "t", "memberships": [{"groupId": group_id} for group_id in group_ids]}


def services(applications: list[Document], groups: list[Document]) -> Any:
    """Return services with only cached applications and groups."""
    return SimpleNamespace(
        directory=SimpleNamespace(groups=Remembered(*groups)),
        configuration=SimpleNamespace(applications=Remembered(*applications)),
    )


async def roles(user: Document, applications: list[Document], groups: list[Document]) -> list[list[str]]:
    effective = await group_roles.with_group_roles(services(applications, groups), user)
    return [registration["roles"] for registration in effective["registrations"]]


@pytest.mark.requirement("core-18-groups-16")
async def test_roles_are_the_user_s_own_and_those_of_all_groups_without_asking_a_store() -> None:
    one, other = application("a", "b", "c"), application("a", "z")
    registrations = [make_registration(one, "b"), make_registration(other)]
    user = member("g", "h", "gone", registrations=registrations)
    groups = [group("g", one, "c", "b"), group("h", one, "a"), group("not a member", one, "z")]
    assert await roles(user, [one, other], groups) == [["a", "b", "c"], []]
    assert [registration["roles"] for registration in registrations] == [["b"], []], "what is shared stays as it is"


async def test_deleted_role_is_granted_to_no_member() -> None:
    one = application("a")
    user = member("g", registrations=[make_registration(one, "b")])
    assert await roles(user, [one], [group("g", one, "a", "gone")]) == [["a", "b"]]
    assert await roles(user, [], [group("g", one, "a")]) == [["b"]]


async def test_user_without_groups_or_registrations_costs_nothing() -> None:
    nothing: Any = None
    lonely = member(registrations=[make_registration(application("a"), "a")])
    unregistered = member("g", registrations=[])
    assert await group_roles.with_group_roles(nothing, lonely) is lonely
    assert await group_roles.with_group_roles(nothing, unregistered) is unregistered


async def test_groups_that_give_nothing_here_leave_the_user_as_it_is() -> None:
    one, other = application("a"), application("b")
    user = member("g", registrations=[make_registration(one, "a")])
    known = services([one, other], [group("g", other, "b")])
    assert await group_roles.with_group_roles(known, user) is user
