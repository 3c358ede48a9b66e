"""Members of groups: every way to add and remove them, and the roles they receive."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import httpx
import orjson
import pytest

from identity import app
from identity.domain.groups import groups as rules
from identity.ids import TenantId, new_id
from identity.operations.groups import group_members
from tests import internals
from tests.conftest import SUPER_KEY, checking_client

Document = dict[str, Any]

PASSWORD = "correct horse battery staple"
PATH = "/api/group/member"


def codes(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 400, answer.text
    body = answer.json()
    fields = {e["code"] for errors in body.get("fieldErrors", {}).values() for e in errors}
    return fields | {e["code"] for e in body.get("generalErrors", [])}


async def add_group(api: httpx.AsyncClient, *role_ids: str) -> str:
    body = {"group": {"name": f"Group {new_id()}"}, "roleIds": list(role_ids)}
    return str((await api.post("/api/group", json=body)).json()["group"]["id"])


async def add_user(api: httpx.AsyncClient, **members: Any) -> str:
    answer = await api.post("/api/user", json={"user": {"username": new_id(), "password": PASSWORD, **members}})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["user"]["id"])


async def users(api: httpx.AsyncClient, count: int) -> list[str]:
    return [await add_user(api) for _ in range(count)]


async def add(api: httpx.AsyncClient, **members: list[Document]) -> Document:
    answer = await api.post(PATH, json={"members": members})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["members"])


async def members_of(api: httpx.AsyncClient, group_id: str) -> list[Document]:
    answer = await api.get(f"{PATH}/search", params={"groupId": group_id, "orderBy": "id"})
    found = answer.json()
    assert found["total"] == len(found["members"])
    return list(found["members"])


def by_id(members: list[Document]) -> list[Document]:
    return sorted(members, key=lambda member: str(member["id"]))


async def memberships_of(api: httpx.AsyncClient, user_id: str) -> list[Document]:
    return list((await api.get(f"/api/user/{user_id}")).json()["user"]["memberships"])


# In


@pytest.mark.requirement("core-18-groups-8")
async def test_members_are_added_to_several_groups_and_shown_on_users(tenant_api) -> None:
    one, two = await add_group(tenant_api), await add_group(tenant_api)
    ada, bob = await users(tenant_api, 2)
    member_id = new_id()
    added = await add(
        tenant_api,
        **{
            one: [{"userId": ada, "id": member_id, "data": {"title": "chief"}}, {"userId": bob}],
            two: [{"userId": ada}],
        },
    )
    assert added.keys() == {one, two}
    first, second = added[one]
    assert first == {
        "data": {"title": "chief"},
        "groupId": one,
        "id": member_id,
        "insertInstant": first["insertInstant"],
        "userId": ada,
    }
    assert (second["userId"], second["data"], second["groupId"]) == (bob, {}, one)
    assert second["id"] not in {member_id, bob, one}
    assert await memberships_of(tenant_api, ada) == [first, added[two][0]]
    assert await memberships_of(tenant_api, bob) == [second]
    assert await members_of(tenant_api, one) == by_id(added[one])


@pytest.mark.requirement("core-18-groups-14")
async def test_user_may_be_created_with_memberships(tenant_api) -> None:
    one, two = await add_group(tenant_api), await add_group(tenant_api)
    member_id = new_id()
    wanted = [{"groupId": one, "data": {"a": 1}, "id": member_id}, {"groupId": two}]
    user_id = await add_user(tenant_api, memberships=wanted)
    found = await memberships_of(tenant_api, user_id)
    assert [(one["groupId"], one["data"], one["userId"]) for one in found] == [
        (one, {"a": 1}, user_id),
        (two, {}, user_id),
    ]
    assert found[0]["id"] == member_id
    assert await members_of(tenant_api, one) == found[:1]
    assert await members_of(tenant_api, two) == found[1:]
    taken = {"username": "x", "password": PASSWORD, "memberships": wanted[:1]}
    refused = await tenant_api.post("/api/user", json={"user": taken})
    assert codes(refused) == {"[duplicate]user.memberships"}
    twice = {"username": "x", "password": PASSWORD, "memberships": [{"groupId": one}, {"groupId": one}]}
    assert codes(await tenant_api.post("/api/user", json={"user": twice})) == {"[duplicate]user.memberships[1].groupId"}
    search = await tenant_api.get("/api/user/search", params={"queryString": "x"})
    assert search.json()["total"] == 0, "nothing of a refused user is left"


@pytest.mark.requirement("core-18-groups-14")
async def test_user_update_does_not_change_memberships(tenant_api) -> None:
    group_id = await add_group(tenant_api)
    user_id = await add_user(tenant_api)
    added = (await add(tenant_api, **{group_id: [{"userId": user_id}]}))[group_id]
    shown = (await tenant_api.get(f"/api/user/{user_id}")).json()["user"]
    assert (await tenant_api.put(f"/api/user/{user_id}", json={"user": shown})).status_code == 200
    assert (await tenant_api.put(f"/api/user/{user_id}", json={"user": {"username": "y"}})).status_code == 200
    await tenant_api.patch(f"/api/user/{user_id}", json={"user": {"memberships": [{"groupId": new_id()}]}})
    assert await memberships_of(tenant_api, user_id) == added


@pytest.mark.requirement("core-18-groups-11")
@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_invalid_members_change_nothing(tenant_api, api, method) -> None:
    group_id, (ada, bob) = await add_group(tenant_api), await users(tenant_api, 2)
    kept = (await add(tenant_api, **{group_id: [{"userId": ada}]}))[group_id]
    elsewhere, stranger = await add_group(api), await add_user(api)
    path = f"members.{group_id}"
    cases: list[tuple[Document, set[str]]] = [
        ({}, {"[missing]members"}),
        ({"members": {}}, {"[empty]members"}),
        ({"members": []}, {"[invalidJSON]"}),
        ({"members": {"x": []}}, {"[couldNotConvert]members"}),
        ({"members": {group_id: {}}}, {"[invalidJSON]"}),
        ({"members": {group_id: [{}]}}, {f"[missing]{path}[0].userId"}),
        ({"members": {group_id: [{"userId": "x"}]}}, {f"[couldNotConvert]{path}[0].userId"}),
        ({"members": {group_id: [{"userId": bob}, {"userId": new_id()}]}}, {f"[invalid]{path}[1].userId"}),
        ({"members": {group_id: [{"userId": stranger}]}}, {f"[invalid]{path}[0].userId"}),
        ({"members": {group_id: [{"userId": bob}], elsewhere: [{"userId": bob}]}}, {f"[invalid]members.{elsewhere}"}),
        ({"members": {group_id: [{"userId": bob}, {"userId": bob.upper()}]}}, {f"[duplicate]{path}[1].userId"}),
        ({"members": {group_id: [{"userId": bob, "id": stranger}, {"userId": ada, "id": stranger}]}},
         {f"[duplicate]{path}[1].id"}),
        ({"members": {group_id: [{"userId": bob, "id": kept[0]["id"]}, {"userId": ada}]}},
         {f"[duplicate]{path}[0].id", *([f"[duplicate]{path}[1].userId"] if method == "POST" else [])}),
    ]  # fmt: skip
    for body, expected in cases:
        assert codes(await tenant_api.request(method, PATH, json=body)) == expected, body
    assert await members_of(tenant_api, group_id) == kept
    assert await memberships_of(tenant_api, bob) == []


@pytest.mark.requirement("core-18-groups-8")
async def test_existing_member_cannot_be_added_again(tenant_api) -> None:
    group_id, (ada, bob) = await add_group(tenant_api), await users(tenant_api, 2)
    kept = (await add(tenant_api, **{group_id: [{"userId": ada}]}))[group_id]
    again = {"members": {group_id: [{"userId": bob}, {"userId": ada}]}}
    assert codes(await tenant_api.post(PATH, json=again)) == {f"[duplicate]members.{group_id}[1].userId"}
    same_id = {"members": {group_id: [{"userId": bob, "id": kept[0]["id"]}]}}
    assert codes(await tenant_api.post(PATH, json=same_id)) == {f"[duplicate]members.{group_id}[0].id"}
    own_id = {"members": {group_id: [{"userId": ada, "id": kept[0]["id"]}]}}
    assert codes(await tenant_api.post(PATH, json=own_id)) == {f"[duplicate]members.{group_id}[0].userId"}
    unchanged = await tenant_api.put(PATH, json=own_id)
    assert unchanged.json()["members"][group_id] == kept
    empty: Document = {"members": {group_id: []}}
    assert codes(await tenant_api.post(PATH, json=empty)) == {f"[empty]members.{group_id}"}
    assert await members_of(tenant_api, group_id) == kept
    assert await memberships_of(tenant_api, bob) == []


@pytest.mark.requirement("core-18-groups-8")
async def test_of_64_concurrent_additions_of_user_one_succeeds(tenant_api) -> None:
    group_id, user_id = await add_group(tenant_api), await add_user(tenant_api)
    body = {"members": {group_id: [{"userId": user_id}]}}
    answers = await asyncio.gather(*(tenant_api.post(PATH, json=body) for _ in range(64)))
    assert sorted(answer.status_code for answer in answers) == [200] + 63 * [400]
    assert len(await members_of(tenant_api, group_id)) == len(await memberships_of(tenant_api, user_id)) == 1


async def test_64_concurrent_additions_of_different_users_succeed(tenant_api) -> None:
    group_id = await add_group(tenant_api)
    everybody = await asyncio.gather(*(add_user(tenant_api) for _ in range(64)))
    bodies = [{"members": {group_id: [{"userId": user_id}]}} for user_id in everybody]
    answers = await asyncio.gather(*(tenant_api.post(PATH, json=body) for body in bodies))
    assert {answer.status_code for answer in answers} == {200}
    found = await tenant_api.get(f"{PATH}/search", params={"groupId": group_id})
    assert found.json()["total"] == 64


async def test_concurrent_group_deletion_leaves_no_membership(service: app.Service, tenant_api, tenant) -> None:
    """The concurrent addition removes its own membership."""
    group_id, user_id = await add_group(tenant_api), await add_user(tenant_api)
    added = (await add(tenant_api, **{group_id: [{"userId": user_id}]}))[group_id]
    await internals.store(service, "groups").delete(TenantId(tenant["id"]), group_id)
    assert await memberships_of(tenant_api, user_id) == added
    await internals.run(service, group_members.remove_orphans, TenantId(tenant["id"]), added)
    assert await memberships_of(tenant_api, user_id) == await members_of(tenant_api, group_id) == []


@pytest.mark.requirement("core-18-groups-14")
async def test_concurrent_changes_keep_users_and_groups_consistent(tenant_api) -> None:
    group_id, everybody = await add_group(tenant_api), await users(tenant_api, 8)

    async def shuffle(number: int) -> None:
        user_id = everybody[number % 8]
        await tenant_api.post(PATH, json={"members": {group_id: [{"userId": user_id}]}})
        if number % 3 == 0:
            await tenant_api.delete(PATH, params={"groupId": group_id, "userId": user_id})
        elif number % 3 == 1:
            await tenant_api.put(PATH, json={"members": {group_id: [{"userId": one} for one in everybody[:4]]}})

    await asyncio.gather(*(shuffle(number) for number in range(16)))
    found = await members_of(tenant_api, group_id)
    shown = [one for user_id in everybody for one in await memberships_of(tenant_api, user_id)]
    assert found == by_id(shown)


@pytest.mark.requirement("core-18-groups-12")
async def test_too_many_members_are_refused(tenant_api, monkeypatch) -> None:
    group_id, everybody = await add_group(tenant_api), await users(tenant_api, 3)
    kept = (await add(tenant_api, **{group_id: [{"userId": user_id} for user_id in everybody]}))[group_id]
    monkeypatch.setattr(rules, "MAXIMUM_CHANGES", 2)
    refused, other = {"[tooMany]members"}, await add_group(tenant_api)
    again = {"members": {other: [{"userId": user_id} for user_id in everybody]}}
    assert codes(await tenant_api.post(PATH, json=again)) == refused
    assert codes(await tenant_api.put(PATH, json={"members": {group_id: []}})) == refused
    changed = [{"userId": user_id, "data": {"a": 1}} for user_id in everybody]
    assert codes(await tenant_api.put(PATH, json={"members": {group_id: changed}})) == refused
    assert codes(await tenant_api.delete(PATH, params={"groupId": group_id})) == refused
    by_user = {"members": {group_id: everybody}}
    assert codes(await tenant_api.request("DELETE", PATH, json=by_user)) == refused
    assert await members_of(tenant_api, group_id) == by_id(kept)
    assert await members_of(tenant_api, other) == []
    same = [{"userId": user_id} for user_id in everybody]
    assert (await tenant_api.put(PATH, json={"members": {group_id: same}})).status_code == 200, "nothing changes"


@pytest.mark.requirement("core-18-groups-11")
async def test_errors_of_members_are_limited_to_100(tenant_api) -> None:
    group_id = await add_group(tenant_api)
    strangers = [new_id() for _ in range(300)]
    bodies: list[tuple[str, Document]] = [
        ("POST", {"members": {group_id: [{"userId": one} for one in strangers]}}),
        ("PUT", {"members": {group_id: [{"userId": one} for one in strangers]}}),
        ("DELETE", {"members": {group_id: strangers}}),
        ("DELETE", {"memberIds": strangers}),
    ]
    for method, body in bodies:
        assert len(codes(await tenant_api.request(method, PATH, json=body))) == 100


# Replaced


@pytest.mark.requirement("core-18-groups-9")
async def test_replacing_members_keeps_common_ones(tenant_api) -> None:
    group_id, (ada, bob, eve) = await add_group(tenant_api), await users(tenant_api, 3)
    first = (await add(tenant_api, **{group_id: [{"userId": ada, "data": {"a": 1}}, {"userId": bob}]}))[group_id]
    body = {"members": {group_id: [{"userId": eve}, {"userId": ada, "data": {"b": 2}}]}}
    answer = (await tenant_api.put(PATH, json=body)).json()["members"][group_id]
    assert [one["userId"] for one in answer] == [eve, ada]
    assert answer[1] == {**first[0], "data": {"b": 2}}
    assert await memberships_of(tenant_api, bob) == []
    assert await memberships_of(tenant_api, ada) == [answer[1]]
    assert await memberships_of(tenant_api, eve) == [answer[0]]
    assert await members_of(tenant_api, group_id) == by_id(answer)
    fresh_id = new_id()
    renamed = await tenant_api.put(PATH, json={"members": {group_id: [{"userId": ada, "id": fresh_id}]}})
    assert renamed.json()["members"][group_id] == [{**answer[1], "id": fresh_id, "data": {}}]
    same = await tenant_api.put(PATH, json={"members": {group_id: [{"userId": ada}]}})
    assert same.json() == renamed.json()
    assert codes(await tenant_api.request("DELETE", PATH, json={"members": {group_id: []}})) == {
        f"[empty]members.{group_id}"
    }
    emptied = await tenant_api.put(PATH, json={"members": {group_id: []}})
    assert emptied.json() == {"members": {group_id: []}}
    assert await members_of(tenant_api, group_id) == []
    assert await memberships_of(tenant_api, ada) == []


# Out


@pytest.mark.requirement("core-18-groups-10")
async def test_members_are_removed_by_every_parameter(tenant_api) -> None:
    one, two, everybody = await add_group(tenant_api), await add_group(tenant_api), await users(tenant_api, 6)
    all_in = [{"userId": user_id} for user_id in everybody]
    added = await add(tenant_api, **{one: all_in, two: all_in})

    async def remaining_users(group_id: str) -> set[str]:
        return {member["userId"] for member in await members_of(tenant_api, group_id)}

    first = added[one][0]
    assert (await tenant_api.delete(f"{PATH}/{first['id']}")).content == b""
    assert await remaining_users(one) == set(everybody[1:])
    assert [member["groupId"] for member in await memberships_of(tenant_api, everybody[0])] == [two]
    query = {"groupId": one.upper(), "userId": everybody[1]}
    assert (await tenant_api.delete(PATH, params=query)).status_code == 200
    assert await remaining_users(one) == set(everybody[2:])
    by_ids = {"memberIds": [added[one][2]["id"], added[two][2]["id"]]}
    assert (await tenant_api.request("DELETE", PATH, json=by_ids)).status_code == 200
    assert (await remaining_users(one), await remaining_users(two)) == (
        set(everybody[3:]),
        set(everybody) - {everybody[2]},
    )
    by_users = {"members": {one: [everybody[3]], two: everybody[:2]}, "memberIds": [added[one][4]["id"]]}
    assert (await tenant_api.request("DELETE", PATH, json=by_users)).status_code == 200
    assert (await remaining_users(one), await remaining_users(two)) == ({everybody[5]}, set(everybody[3:]))
    assert (await tenant_api.delete(PATH, params={"groupId": two})).status_code == 200
    assert (await remaining_users(one), await remaining_users(two)) == ({everybody[5]}, set())
    assert (await tenant_api.delete(PATH, params={"groupId": two})).status_code == 200, "no member is left"
    assert await memberships_of(tenant_api, everybody[0]) == await memberships_of(tenant_api, everybody[3]) == []


@pytest.mark.requirement("core-18-groups-10")
async def test_invalid_removal_removes_no_member(tenant_api, api) -> None:
    group_id, user_id = await add_group(tenant_api), await add_user(tenant_api)
    kept = (await add(tenant_api, **{group_id: [{"userId": user_id}]}))[group_id]
    empty_group = await add_group(tenant_api)
    assert (await tenant_api.delete(f"{PATH}/{new_id()}")).status_code == 404
    assert (await api.delete(f"{PATH}/{kept[0]['id']}")).status_code == 404
    assert codes(await tenant_api.delete(f"{PATH}/x")) == {"[couldNotConvert]memberId"}
    assert (await tenant_api.delete(PATH, params={"groupId": new_id()})).status_code == 404
    assert (await api.delete(PATH, params={"groupId": group_id})).status_code == 404
    assert (await tenant_api.delete(PATH, params={"groupId": empty_group, "userId": user_id})).status_code == 404
    assert codes(await tenant_api.delete(PATH, params={"userId": user_id})) == {"[missing]groupId"}
    assert codes(await tenant_api.delete(PATH, params={"groupId": "x"})) == {"[couldNotConvert]groupId"}
    assert codes(await tenant_api.delete(PATH, params={"groupId": group_id, "userId": "x"})) == {
        "[couldNotConvert]userId"
    }
    assert codes(await tenant_api.delete(PATH)) == {"[missing]memberId"}
    bodies: list[tuple[Document, set[str]]] = [
        ({"eventInfo": {}}, {"[missing]memberIds"}),
        ({"memberIds": [], "members": {}}, {"[missing]memberIds"}),
        ({"memberIds": [kept[0]["id"], new_id()]}, {"[invalid]memberIds[1]"}),
        ({"memberIds": ["x"]}, {"[couldNotConvert]memberIds[0]"}),
        ({"members": {group_id: [user_id, new_id()]}}, {f"[invalid]members.{group_id}[1]"}),
        ({"members": {empty_group: [user_id]}}, {f"[invalid]members.{empty_group}[0]"}),
        ({"members": {"x": [user_id]}}, {"[couldNotConvert]members"}),
        ({"members": {group_id: user_id}}, {"[invalidJSON]"}),
    ]
    for body, expected in bodies:
        assert codes(await tenant_api.request("DELETE", PATH, json=body)) == expected, body
    theirs = {"members": {group_id: [user_id]}, "memberIds": [kept[0]["id"]]}
    refused = await api.request("DELETE", PATH, json=theirs)
    assert codes(refused) == {"[invalid]memberIds[0]", f"[invalid]members.{group_id}[0]"}
    assert await members_of(tenant_api, group_id) == await memberships_of(tenant_api, user_id) == kept


async def test_ids_of_members_determine_tenant(service, tenant_api) -> None:
    group_id, (ada, bob, eve) = await add_group(tenant_api), await users(tenant_api, 3)
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as anywhere:
        added = (await add(anywhere, **{group_id: [{"userId": one} for one in (ada, bob, eve)]}))[group_id]
        assert (await anywhere.delete(f"{PATH}/{added[0]['id']}")).status_code == 200
        by_id = {"memberIds": [added[1]["id"]]}
        assert (await anywhere.request("DELETE", PATH, json=by_id)).status_code == 200
        assert (await anywhere.delete(PATH, params={"groupId": group_id, "userId": eve})).status_code == 200
        for body in ({"members": {new_id(): [{"userId": ada}]}}, {"members": {}}):
            assert codes(await anywhere.post(PATH, json=body)) <= {"[TenantIdRequired]", "[empty]members"}
        unknown = {"memberIds": [new_id()]}
        assert codes(await anywhere.request("DELETE", PATH, json=unknown)) == {"[TenantIdRequired]"}
        assert (await anywhere.delete(f"{PATH}/{new_id()}")).status_code == 404
    assert await members_of(tenant_api, group_id) == []


@pytest.mark.requirement("core-18-groups-7", "users-2-14")
async def test_memberships_are_deleted_with_group_and_user(service: app.Service, tenant_api) -> None:
    one, two, (ada, bob) = await add_group(tenant_api), await add_group(tenant_api), await users(tenant_api, 2)
    both = [{"userId": ada}, {"userId": bob}]
    await add(tenant_api, **{one: both, two: both})
    assert (await tenant_api.delete(f"/api/group/{one}")).status_code == 200
    assert await members_of(tenant_api, one) == []
    for user_id in (ada, bob):
        assert [member["groupId"] for member in await memberships_of(tenant_api, user_id)] == [two]
    await tenant_api.delete(f"/api/user/{ada}")
    assert len(await members_of(tenant_api, two)) == 2, "who is deactivated stays a member"
    await tenant_api.delete(f"/api/user/{ada}", params={"hardDelete": "true"})
    assert [member["userId"] for member in await members_of(tenant_api, two)] == [bob]


async def test_recreated_group_has_no_members(tenant_api) -> None:
    group_id, user_id = await add_group(tenant_api), await add_user(tenant_api)
    await add(tenant_api, **{group_id: [{"userId": user_id}]})
    await tenant_api.delete(f"/api/group/{group_id}")
    await tenant_api.post(f"/api/group/{group_id}", json={"group": {"name": "again"}})
    assert await members_of(tenant_api, group_id) == await memberships_of(tenant_api, user_id) == []


# Search


@pytest.mark.requirement("core-18-groups-13")
async def test_search(service, tenant_api, api, tenant, clock) -> None:
    one, two, (ada, bob) = await add_group(tenant_api), await add_group(tenant_api), await users(tenant_api, 2)
    first = (await add(tenant_api, **{one: [{"userId": ada}]}))[one]
    clock.advance(seconds=1)
    second = (await add(tenant_api, **{one: [{"userId": bob}]}))[one]
    clock.advance(seconds=1)
    third = (await add(tenant_api, **{two: [{"userId": ada}]}))[two]
    everybody = [*first, *second, *third]

    async def found(client: httpx.AsyncClient = tenant_api, **search: Any) -> list[Document]:
        answer = (await client.post(f"{PATH}/search", json={"search": search})).json()
        assert answer["total"] >= len(answer["members"])
        return list(answer["members"])

    assert await found() == everybody
    assert await found(groupId=one) == [*first, *second]
    assert await found(userId=ada, orderBy="insertInstant DESC") == [*third, *first]
    assert await found(userId=ada, groupId=two) == third
    assert await found(tenantId=tenant["id"], numberOfResults=1, startRow=1) == second
    assert await found(tenantId=new_id()) == []
    for field in ("id", "groupId", "userId", "tenantId"):
        assert by_id(await found(orderBy=field)) == by_id(everybody)
    assert [one["userId"] for one in await found(orderBy="userId, id DESC")] == sorted([ada, ada, bob])
    by_query = await tenant_api.get(f"{PATH}/search", params={"groupId": one, "numberOfResults": "true"})
    assert by_query.json() == {"total": 2, "members": first}
    assert codes(await tenant_api.get(f"{PATH}/search", params={"orderBy": "name"})) == {"[invalid]orderBy"}
    assert codes(await tenant_api.get(f"{PATH}/search", params={"groupId": "x"})) == {"[couldNotConvert]groupId"}
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as anywhere:
        assert await found(anywhere, tenantId=tenant["id"]) == everybody
        assert await found(anywhere, groupId=one) == [*first, *second]
    assert await found(api, groupId=one) == []
    assert (await tenant_api.get(PATH)).status_code == 405


# Roles


class Scenario:
    """An application with roles, and a user who is registered for it."""

    def __init__(self, api: httpx.AsyncClient, oauth: httpx.AsyncClient, application: Document, user_id: str) -> None:
        self.api, self.oauth, self.application, self.user_id = api, oauth, application, user_id
        self.roles = {role["name"]: role["id"] for role in application["roles"]}

    async def shown(self) -> list[str]:
        """The roles in every API, which must agree."""
        path = f"/api/user/registration/{self.user_id}/{self.application['id']}"
        registration = (await self.api.get(path)).json()["registration"]
        user = (await self.api.get(f"/api/user/{self.user_id}")).json()["user"]
        (found,) = (await self.api.get("/api/user/search", params={"ids": self.user_id})).json()["users"]
        assert user["registrations"] == found["registrations"] == [registration]
        return list(registration["roles"])

    async def token(self) -> str:
        return str((await self.tokens())["access_token"])

    async def tokens(self) -> Document:
        form = {
            "grant_type": "password",
            "client_id": self.application["id"],
            "client_secret": self.application["oauthConfiguration"]["clientSecret"],
            "username": "ada",
            "password": PASSWORD,
            "scope": "openid",
        }
        answer = await self.oauth.post("/oauth2/token", data=form)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def introspected(self, token: str) -> Document:
        form = {
            "token": token,
            "client_id": self.application["id"],
            "client_secret": self.application["oauthConfiguration"]["clientSecret"],
        }
        return dict((await self.oauth.post("/oauth2/introspect", data=form)).json())


def claims(token: str) -> Document:
    payload = token.split(".")[1]
    return dict(orjson.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))))


@pytest.fixture
async def scenario(tenant_api: httpx.AsyncClient, http: httpx.AsyncClient) -> Scenario:
    oauth = {
        "enabledGrants": ["password"],
        "scopeHandlingPolicy": "Compatibility",
        "authorizedRedirectURLs": ["https://app.example.com/cb"],
    }
    roles = [{"name": name} for name in ("admin", "editor", "reader")]
    body = {"application": {"name": "App", "roles": roles, "oauthConfiguration": oauth}}
    application = (await tenant_api.post("/api/application", json=body)).json()["application"]
    user = {"username": "ada", "password": PASSWORD}
    registration = {"applicationId": application["id"], "roles": ["reader"]}
    made = await tenant_api.post("/api/user/registration", json={"user": user, "registration": registration})
    assert made.status_code == 200, made.text
    return Scenario(tenant_api, http, application, made.json()["user"]["id"])


@pytest.mark.requirement("core-18-groups-15")
async def test_registered_members_have_roles_of_their_groups(scenario: Scenario) -> None:
    group_id = await add_group(scenario.api, scenario.roles["admin"], scenario.roles["reader"])
    other_id = await add_group(scenario.api, scenario.roles["editor"])
    assert claims(await scenario.token())["roles"] == ["reader"]
    await add(scenario.api, **{group_id: [{"userId": scenario.user_id}], other_id: [{"userId": scenario.user_id}]})
    token = await scenario.token()
    assert claims(token)["roles"] == ["admin", "editor", "reader"]
    assert (await scenario.introspected(token))["roles"] == ["admin", "editor", "reader"]
    headers = {"Authorization": f"Bearer {token}"}
    assert (await scenario.oauth.get("/oauth2/userinfo", headers=headers)).json()["roles"] == [
        "admin",
        "editor",
        "reader",
    ]
    assert await scenario.shown() == ["admin", "editor", "reader"]
    await scenario.api.delete(PATH, params={"groupId": group_id})
    assert claims(await scenario.token())["roles"] == ["editor", "reader"]
    assert await scenario.shown() == ["editor", "reader"]


@pytest.mark.requirement("core-18-groups-15")
async def test_group_and_role_changes_apply_to_next_token(scenario: Scenario) -> None:
    group_id = await add_group(scenario.api, scenario.roles["admin"])
    await add(scenario.api, **{group_id: [{"userId": scenario.user_id}]})
    assert claims(await scenario.token())["roles"] == ["admin", "reader"]
    role_path = f"/api/application/{scenario.application['id']}/role"
    await scenario.api.patch(f"{role_path}/{scenario.roles['admin']}", json={"role": {"name": "chief"}})
    assert claims(await scenario.token())["roles"] == ["chief", "reader"]
    body = {"group": {"name": "Editors"}, "roleIds": [scenario.roles["editor"]]}
    await scenario.api.put(f"/api/group/{group_id}", json=body)
    assert claims(await scenario.token())["roles"] == ["editor", "reader"]
    await scenario.api.delete(f"{role_path}/{scenario.roles['editor']}")
    assert claims(await scenario.token())["roles"] == ["reader"]
    await scenario.api.put(f"/api/group/{group_id}", json={**body, "roleIds": [scenario.roles["admin"]]})
    assert claims(await scenario.token())["roles"] == ["chief", "reader"]
    await scenario.api.delete(f"/api/group/{group_id}")
    assert claims(await scenario.token())["roles"] == await scenario.shown() == ["reader"]


@pytest.mark.requirement("core-18-groups-15")
async def test_group_roles_are_not_stored_on_registration(scenario: Scenario) -> None:
    """An update of the registration changes what is its own; leaving the group takes only what the group gave."""
    group_id = await add_group(scenario.api, scenario.roles["admin"])
    await add(scenario.api, **{group_id: [{"userId": scenario.user_id}]})
    path = f"/api/user/registration/{scenario.user_id}/{scenario.application['id']}"
    replaced = await scenario.api.put(path, json={"registration": {"roles": ["editor"]}})
    assert replaced.json()["registration"]["roles"] == ["admin", "editor"]
    patched = await scenario.api.patch(path, json={"registration": {"data": {"a": 1}}})
    assert patched.json()["registration"]["roles"] == ["admin", "editor"]
    await scenario.api.delete(PATH, params={"groupId": group_id})
    assert await scenario.shown() == ["editor"]


@pytest.mark.requirement("core-18-groups-15")
async def test_group_grants_nothing_without_registration(scenario: Scenario) -> None:
    group_id = await add_group(scenario.api, scenario.roles["admin"])
    await add(scenario.api, **{group_id: [{"userId": scenario.user_id}]})
    await scenario.api.delete(f"/api/user/registration/{scenario.user_id}/{scenario.application['id']}")
    user = (await scenario.api.get(f"/api/user/{scenario.user_id}")).json()["user"]
    assert user["registrations"] == []
    assert "roles" not in claims(await scenario.token())
    registered = await scenario.api.post(
        f"/api/user/registration/{scenario.user_id}",
        json={"registration": {"applicationId": scenario.application["id"], "roles": ["editor"]}},
    )
    assert registered.json()["registration"]["roles"] == ["admin", "editor"]
    assert claims(registered.json()["token"])["roles"] == ["admin", "editor"]


async def test_new_user_with_memberships_and_registration_has_roles_immediately(scenario: Scenario) -> None:
    group_id = await add_group(scenario.api, scenario.roles["admin"])
    user = {"username": "bob", "password": PASSWORD, "memberships": [{"groupId": group_id}]}
    registration = {"applicationId": scenario.application["id"], "roles": ["reader"]}
    made = (await scenario.api.post("/api/user/registration", json={"user": user, "registration": registration})).json()
    assert made["registration"]["roles"] == made["user"]["registrations"][0]["roles"] == ["admin", "reader"]
    assert claims(made["token"])["roles"] == ["admin", "reader"]


async def test_lambdas_see_group_roles(scenario: Scenario) -> None:
    group_id = await add_group(scenario.api, scenario.roles["admin"])
    await add(scenario.api, **{group_id: [{"userId": scenario.user_id}]})
    seen = "[registration.roles, user.registrations[0].roles, user.memberships.map(one => one.groupId)]"
    configured = {}
    for member, kind, first in (
        ("accessTokenPopulateId", "JWTPopulate", "jwt"),
        ("idTokenPopulateId", "JWTPopulate", "jwt"),
        ("userinfoPopulateId", "UserInfoPopulate", "userInfo"),
    ):
        body = f"function populate({first}, user, registration) {{ {first}.seen = {seen}; }}"
        made = await scenario.api.post("/api/lambda", json={"lambda": {"name": new_id(), "type": kind, "body": body}})
        configured[member] = made.json()["lambda"]["id"]
    change = {"application": {"lambdaConfiguration": configured}}
    assert (await scenario.api.patch(f"/api/application/{scenario.application['id']}", json=change)).status_code == 200
    expected = [["admin", "reader"], ["admin", "reader"], [group_id]]
    tokens = await scenario.tokens()
    assert claims(tokens["access_token"])["seen"] == claims(tokens["id_token"])["seen"] == expected
    headers = {"Authorization": f"Bearer {tokens['access_token']}"}
    assert (await scenario.oauth.get("/oauth2/userinfo", headers=headers)).json()["seen"] == expected


async def test_roles_do_not_apply_to_other_applications(scenario: Scenario) -> None:
    body = {"application": {"name": "Other", "roles": [{"name": "admin"}]}}
    other = (await scenario.api.post("/api/application", json=body)).json()["application"]
    group_id = await add_group(scenario.api, other["roles"][0]["id"])
    await add(scenario.api, **{group_id: [{"userId": scenario.user_id}]})
    assert claims(await scenario.token())["roles"] == await scenario.shown() == ["reader"]
