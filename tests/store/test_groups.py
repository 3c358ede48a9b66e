"""Memberships in MongoDB, in their collection and in users, and separation of tenants."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from identity.domain.users import users as rules
from identity.errors import Duplicate
from identity.ids import new_id
from identity.instants import Instant
from identity.operations.groups.group_members import RESOURCE
from identity.store.cache import ChangeStreamStatus
from identity.store.groups import ID_INDEX, USER_INDEX, GroupMembers
from identity.store.mongo import Database
from identity.store.users import Users
from identity.store.vault import Vault

ONE, OTHER = new_id(), new_id()
NOW = Instant(1_700_000_000_000)
GROUP = new_id()


@pytest.fixture
async def members(database: Database, vault: Vault) -> AsyncIterator[GroupMembers]:
    kept = {"tenant_scoped": True, "unique": RESOURCE.unique, "searches": RESOURCE.search_rules}
    found = GroupMembers(database, RESOURCE.collection, vault, ChangeStreamStatus(), **kept)
    await found.ensure_indexes()
    yield found
    for tenant_id in (ONE, OTHER):
        await found.delete_all(tenant_id, {})


@pytest.fixture
async def users(database: Database, vault: Vault) -> AsyncIterator[Users]:
    found = Users(database, vault, ChangeStreamStatus())
    await found.ensure_indexes()
    yield found
    for tenant_id in (ONE, OTHER):
        await found.delete_all(tenant_id, {})


def member(user_id: str, **others: Any) -> dict[str, Any]:
    return {"data": {}, "groupId": GROUP, "id": new_id(), "insertInstant": NOW, "userId": user_id, **others}


async def add_user(users: Users, tenant_id: str) -> str:
    two_factor: dict[str, Any] = {"methods": [], "recoveryCodes": []}
    wanted = {"twoFactor": two_factor, "usernameStatus": "ACTIVE", "username": new_id()}
    user = rules.with_derived_members(rules.with_unique_username(rules.build_user(wanted, new_id(), tenant_id, NOW)))
    await users.insert(tenant_id, user)
    return str(user["id"])


async def test_members_are_those_of_the_tenant_the_oldest_first(database: Database, members: GroupMembers) -> None:
    late, early, theirs = (member(new_id(), insertInstant=at) for at in (NOW + 1, NOW, NOW))

    async def write(session: Any) -> None:
        await members.insert_members(ONE, [late, early], session)
        await members.insert_members(OTHER, [theirs], session)
        await members.insert_members(OTHER, [], session)
        assert await members.find_members(ONE, {"groupId": GROUP}, session) == [early, late]

    await database.in_transaction(write)
    assert await members.find_members(ONE, {"groupId": GROUP}) == [early, late]
    assert await members.find_members(OTHER, {"groupId": GROUP}) == [theirs]
    assert await members.find_members(OTHER, {"_id": early["id"]}) == []
    assert await members.delete_all(OTHER, {"_id": early["id"]}) == 0


async def test_summaries_are_those_of_the_tenant(database: Database, members: GroupMembers) -> None:
    late, early, theirs = (member(new_id(), insertInstant=at) for at in (NOW + 1, NOW, NOW + 2))

    async def write(session: Any) -> None:
        await members.insert_members(ONE, [late, early], session)
        await members.insert_members(OTHER, [theirs], session)

    await database.in_transaction(write)
    assert await members.summaries(ONE, [GROUP, new_id()]) == {GROUP: (2, NOW + 1)}
    assert await members.summaries(OTHER, [GROUP]) == {GROUP: (1, NOW + 2)}
    assert await members.summaries(new_id(), [GROUP]) == {}


async def test_duplicate_reports_the_violated_index(database: Database, members: GroupMembers) -> None:
    first = member(new_id())
    await database.in_transaction(lambda session: members.insert_members(ONE, [first], session))
    for again, index in ((member(first["userId"]), USER_INDEX), (member(new_id(), id=first["id"]), ID_INDEX)):
        added = [member(new_id()), again]
        with pytest.raises(Duplicate) as refused:
            await database.in_transaction(lambda session, added=added: members.insert_members(ONE, added, session))
        assert refused.value.index == index
    assert await members.find_members(ONE, {}) == [first]


async def test_memberships_on_users_move_their_version_and_stay_in_the_tenant(database: Database, users: Users) -> None:
    ada, bob, eve = await add_user(users, ONE), await add_user(users, ONE), await add_user(users, OTHER)
    assert await users.existing_ids(ONE, [ada, eve, new_id()]) == {ada}
    added = [member(ada), member(bob), member(eve)]
    remembered = await users.find_cached(ONE, ada)
    assert remembered is not None

    async def join(session: Any) -> None:
        assert await users.add_memberships(ONE, added, session) == 2
        assert await users.add_memberships(ONE, [], session) == 0

    await database.in_transaction(join)
    found = await users.find_cached(ONE, ada)
    assert found is not None
    assert (found["memberships"], found["lastUpdateInstant"]) == ([added[0]], NOW + 1)
    assert (await users.get(OTHER, eve))["memberships"] == []
    for tenant_id in (OTHER, ONE):
        await database.in_transaction(
            lambda session, tenant_id=tenant_id: users.remove_memberships(tenant_id, GROUP, [ada], session)
        )
        left = await users.get(ONE, ada)
        assert (left["memberships"] == []) is (tenant_id == ONE)
    assert left["lastUpdateInstant"] == NOW + 2
    for tenant_id in (OTHER, ONE):
        await users.remove_all_memberships(tenant_id, GROUP)
        assert ((await users.get(ONE, bob))["memberships"] == []) is (tenant_id == ONE)
