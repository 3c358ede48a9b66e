"""SCIM groups and their members over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity import app
from identity.ids import new_id
from tests import internals, scim
from tests.conftest import UNKNOWN_ID
from tests.receiver import Receiver
from tests.scim import GROUP, ScimClient
from tests.webhooks import subscribe

Document = dict[str, Any]


@pytest.fixture
async def client(service: app.Service, api: httpx.AsyncClient) -> AsyncIterator[ScimClient]:
    found = await scim.make_client(service.base_url, api)
    yield found
    await scim.close(found)


def member_ids(group: Document) -> list[str]:
    return sorted(one["value"] for one in group.get("members", []))


@pytest.mark.requirement("scim-1")
async def test_created_group_has_its_members(client: ScimClient) -> None:
    one, two = await client.make_user(), await client.make_user()
    answer = await client.send(
        "POST",
        "/Groups",
        {
            "schemas": [GROUP],
            "displayName": "Tour Guides",
            "externalId": "g-1",
            "members": [{"value": one["id"], "$ref": one["meta"]["location"], "display": "Babs"}, {"value": two["id"]}],
        },
    )
    assert answer.status_code == 201, answer.text
    shown = answer.json()
    assert (shown["displayName"], shown["externalId"]) == ("Tour Guides", "g-1")
    assert member_ids(shown) == sorted([one["id"], two["id"]])
    assert {one["type"] for one in shown["members"]} == {"User"}
    assert answer.headers["Location"] == shown["meta"]["location"]
    assert await client.ask("GET", f"/Groups/{shown['id']}") == shown
    stored = (await client.api.get(f"/api/group/{shown['id']}")).json()["group"]
    assert stored["name"] == "Tour Guides"
    user = await client.ask("GET", f"/Users/{one['id']}")
    reference = {"value": shown["id"], "$ref": shown["meta"]["location"], "type": "direct", "display": "Tour Guides"}
    assert user["groups"] == [reference]
    assert await client.found("/Users", f'groups.value eq "{shown["id"]}"') != []


@pytest.mark.requirement("scim-4")
async def test_lookup_by_external_id_reads_one_group(service: app.Service, client: ScimClient) -> None:
    wanted, *_ = [await client.make_group(externalId=new_id()) for _ in range(3)]
    by_id = {"tenantId": client.tenant["id"], "private.externalId": wanted["externalId"]}
    plan = await internals.database(service).collection("groups").find(by_id).explain()
    assert plan["executionStats"]["totalDocsExamined"] == 1
    assert await client.found("/Groups", f'externalId eq "{wanted["externalId"]}"') == [wanted["id"]]


@pytest.mark.parametrize("member", [UNKNOWN_ID, "no-uuid", 7, None])
async def test_group_with_an_unknown_member_is_not_created(client: ScimClient, member: Any) -> None:
    body = {"schemas": [GROUP], "displayName": "Guides", "members": [{"value": member}]}
    assert await client.refused("POST", "/Groups", body) == (400, "invalidValue")
    assert (await client.ask("GET", "/Groups"))["totalResults"] == 0


@pytest.mark.requirement("scim-14")
async def test_groups_may_share_a_display_name(client: ScimClient) -> None:
    user = await client.make_user()
    first = await client.make_group(displayName="Sales")
    second = await client.make_group(user, displayName="Sales")
    assert (first["displayName"], second["displayName"], member_ids(second)) == ("Sales", "Sales", [user["id"]])
    assert sorted(await client.found("/Groups", 'displayName eq "sales"')) == sorted([first["id"], second["id"]])
    assert await client.found("/Groups", f'displayName co "{second["id"][:8]}"') == []
    assert await client.found("/Groups", 'displayName ne "Sales"') == []
    (shown,) = (await client.ask("GET", f"/Users/{user['id']}"))["groups"]
    assert shown["display"] == "Sales"
    assert await client.ask("PUT", f"/Groups/{second['id']}", second) == second
    added = await client.patch(f"/Groups/{second['id']}", {"op": "remove", "path": "members"})
    assert added["displayName"] == "Sales"


@pytest.mark.requirement("scim-14")
async def test_groups_that_share_a_display_name_have_distinct_names_in_the_management_api(client: ScimClient) -> None:
    first = await client.make_group(displayName="Sales")
    second = await client.make_group(displayName="Sales")
    path = f"/api/group/{second['id']}"
    stored = (await client.api.get(path)).json()["group"]
    assert stored["name"] == f"Sales ({second['id'][:8]})"
    taken = await client.api.post("/api/group", json={"group": {"name": "Sales"}})
    assert "[duplicate]group.name" in taken.text
    answer = await client.api.patch(path, json={"group": {"name": "Sales abroad"}})
    assert answer.status_code == 200, answer.text
    assert (await client.ask("GET", f"/Groups/{second['id']}"))["displayName"] == "Sales abroad"
    assert await client.found("/Groups", 'displayName eq "Sales"') == [first["id"]]


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_group_may_be_renamed_to_a_taken_display_name_and_back(client: ScimClient, method: str) -> None:
    first = await client.make_group(displayName="Sales")
    second = await client.make_group(displayName="Support")

    async def rename(name: str) -> Document:
        body: Document = {"displayName": name}
        if method == "PATCH":
            body = {"Operations": [{"op": "replace", "path": "displayName", "value": name}]}
        return await client.ask(method, f"/Groups/{second['id']}", body)

    assert (await rename("Sales"))["displayName"] == "Sales"
    assert sorted(await client.found("/Groups", 'displayName eq "Sales"')) == sorted([first["id"], second["id"]])
    assert (await rename("Support"))["displayName"] == "Support"
    assert (await client.api.get(f"/api/group/{second['id']}")).json()["group"]["name"] == "Support"


async def test_concurrent_creations_of_groups_with_one_name_all_succeed(client: ScimClient) -> None:
    made = await asyncio.gather(*(client.make_group(displayName="Sales") for _ in range(6)))
    assert {group["displayName"] for group in made} == {"Sales"}
    assert len(await client.found("/Groups", 'displayName eq "Sales"')) == 6


async def test_blank_display_name_is_refused(client: ScimClient) -> None:
    assert await client.refused("POST", "/Groups", {"displayName": " "}) == (400, "invalidValue")


async def test_replaced_group_has_exactly_the_members_of_the_request(client: ScimClient) -> None:
    one, two, three = [await client.make_user() for _ in range(3)]
    made = await client.make_group(one, two, externalId="g-1")
    body = {"displayName": "Renamed", "members": [{"value": two["id"]}, {"value": three["id"]}, {"value": three["id"]}]}
    shown = await client.ask("PUT", f"/Groups/{made['id']}", body)
    assert (shown["displayName"], member_ids(shown)) == ("Renamed", sorted([two["id"], three["id"]]))
    assert "externalId" not in shown
    assert member_ids(await client.ask("PUT", f"/Groups/{made['id']}", {"displayName": "Renamed"})) == []


async def test_replaced_group_keeps_its_roles(client: ScimClient) -> None:
    body = {"application": {"name": f"A {new_id()}", "roles": [{"name": "guide"}]}}
    application = (await client.api.post("/api/application", json=body)).json()["application"]
    role_id = application["roles"][0]["id"]
    answer = await client.api.post("/api/group", json={"group": {"name": "Guides"}, "roleIds": [role_id]})
    group_id = answer.json()["group"]["id"]
    await client.ask("PUT", f"/Groups/{group_id}", {"displayName": "All guides"})
    group = (await client.api.get(f"/api/group/{group_id}")).json()["group"]
    assert group["roles"][application["id"]][0]["id"] == role_id


@pytest.mark.requirement("scim-5")
@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([("add", "members", ["c"])], "abc"),
        ([("add", "members", ["a", "c"])], "abc"),
        ([("add", None, {"members": ["c"]})], "abc"),
        ([("add", f"{GROUP}:members", ["c"])], "abc"),
        ([("replace", "members", ["c"])], "c"),
        ([("replace", None, {"members": []})], ""),
        ([("remove", "members", None)], ""),
        ([("remove", "members", ["a"])], "b"),
        ([("remove", 'members[value eq "{a}"]', None)], "b"),
        ([("remove", 'members[value eq "{a}" or value eq "{c}"]', None)], "b"),
        ([("remove", "members", None), ("add", "members", ["c"])], "c"),
        ([("add", "members", ["c"]), ("remove", 'members[value eq "{c}"]', None)], "ab"),
        ([("remove", 'members[value eq "{a}"]', None), ("add", "members", ["a"])], "ab"),
        ([("replace", "members", ["a", "c"]), ("remove", 'members[value eq "{a}"]', None)], "c"),
    ],
)
async def test_patch_changes_members(client: ScimClient, operations: list[Any], expected: str) -> None:
    ids = {name: (await client.make_user())["id"] for name in "abc"}
    made = await client.make_group({"id": ids["a"]}, {"id": ids["b"]})

    def named(value: Any) -> Any:
        if isinstance(value, list):
            return [{"value": ids[name]} for name in value]
        return {key: named(inner) for key, inner in value.items()} if isinstance(value, dict) else value

    sent = []
    for op, path, value in operations:
        operation = {"op": op}
        if path is not None:
            operation["path"] = path.format(**ids) if "[" in path else path
        if value is not None:
            operation["value"] = named(value)
        sent.append(operation)
    shown = await client.patch(f"/Groups/{made['id']}", *sent)
    assert member_ids(shown) == sorted(ids[name] for name in expected)
    assert shown["displayName"] == made["displayName"]
    assert await client.ask("GET", f"/Groups/{made['id']}") == shown


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"op": "add", "path": "members", "value": [{"value": UNKNOWN_ID}]}, "invalidValue"),
        ({"op": "add", "path": "members", "value": [7]}, "invalidValue"),
        ({"op": "add", "path": "members"}, "invalidValue"),
        ({"op": "remove", "path": 'members[display eq "x"]'}, "invalidFilter"),
        ({"op": "remove", "path": "members[value eq"}, "invalidPath"),
        ({"op": "replace", "path": 'members[value eq "x"].display', "value": "x"}, "mutability"),
        ({"op": "remove", "path": 'members[value eq "x"].display'}, "mutability"),
        ({"op": "remove", "path": "members.value"}, "mutability"),
        ({"op": "replace", "path": "nothing", "value": "x"}, "invalidPath"),
        ({"op": "remove"}, "noTarget"),
        ({"op": "remove", "path": "displayName"}, "mutability"),
        ({"op": "replace", "path": "displayName", "value": 7}, "invalidValue"),
    ],
)
async def test_invalid_patch_changes_nothing(client: ScimClient, operation: Document, expected: str) -> None:
    made = await client.make_group(await client.make_user())
    body = {"Operations": [{"op": "replace", "path": "displayName", "value": "New"}, operation]}
    assert await client.refused("PATCH", f"/Groups/{made['id']}", body) == (400, expected)
    assert await client.ask("GET", f"/Groups/{made['id']}") == made


@pytest.mark.requirement("scim-6")
async def test_versions_change_with_attributes_and_members(client: ScimClient) -> None:
    user = await client.make_user()
    made = await client.make_group()
    path, old = f"/Groups/{made['id']}", made["meta"]["version"]
    assert (await client.send("GET", path, headers={"If-None-Match": old})).status_code == 304
    added = await client.patch(path, {"op": "add", "path": "members", "value": [{"value": user["id"]}]})
    assert added["meta"]["version"] != old
    for method, body in (("PUT", {"displayName": "x"}), ("PATCH", {"Operations": []}), ("DELETE", None)):
        assert await client.refused(method, path, body, headers={"If-Match": old}) == (412, None)
    removed = await client.patch(path, {"op": "remove", "path": "members"})
    assert removed["meta"]["version"] != added["meta"]["version"]
    assert (await client.send("DELETE", path, headers={"If-Match": removed["meta"]["version"]})).status_code == 204
    assert await client.refused("GET", path) == (404, None)


async def test_filters_find_groups(client: ScimClient) -> None:
    one, two = await client.make_user(), await client.make_user()
    guides = (await client.make_group(one, displayName="Tour Guides", externalId="g-1"))["id"]
    drivers = (await client.make_group(one, two, displayName="Drivers"))["id"]
    for scim_filter in (
        'displayName eq "tour guides"',
        'displayName sw "TOUR"',
        'displayName co "our gui"',
        'displayName ew "guides"',
        'externalId eq "g-1"',
        f'id eq "{guides}" and members eq "{one["id"]}"',
        f'members.value eq "{one["id"]}" and not (members[value eq "{two["id"]}"])',
        f'members.value ne "{two["id"]}"',
    ):
        assert await client.found("/Groups", scim_filter) == [guides], scim_filter
    assert await client.found("/Groups", f'members eq "{two["id"]}"') == [drivers]
    assert await client.found("/Groups", f'members eq "{UNKNOWN_ID}"') == []
    shown = await client.ask("GET", "/Groups", params={"sortBy": "displayName", "excludedAttributes": "members"})
    assert [group["displayName"] for group in shown["Resources"]] == ["Drivers", "Tour Guides"]
    assert all("members" not in group for group in shown["Resources"])
    for wrong in ("members pr", 'members co "x"', 'userName eq "x"'):
        assert await client.refused("GET", "/Groups", params={"filter": wrong}) == (400, "invalidFilter"), wrong


async def test_search_at_the_base_url_finds_users_and_groups(client: ScimClient) -> None:
    user, group = await client.make_user(externalId="x"), await client.make_group(externalId="x")
    found = await client.ask("POST", "/.search", {"filter": 'externalId eq "x"'})
    assert [one["id"] for one in found["Resources"]] == [user["id"], group["id"]]
    page = await client.ask("POST", "/.search", {"filter": 'externalId eq "x"', "startIndex": 2, "count": 1})
    assert (page["totalResults"], [one["id"] for one in page["Resources"]]) == (2, [group["id"]])
    named = await client.ask("POST", "/.search", {"filter": f'displayName eq "{group["displayName"]}"'})
    assert [one["id"] for one in named["Resources"]] == [group["id"]]


@pytest.mark.requirement("scim-12")
async def test_groups_of_another_tenant_do_not_exist(
    service: app.Service, api: httpx.AsyncClient, client: ScimClient
) -> None:
    other = await scim.make_client(service.base_url, api)
    theirs = await other.make_group(await other.make_user(), displayName="Guides", externalId="g-1")
    path = f"/Groups/{theirs['id']}"
    for method, body in (("GET", None), ("PUT", {"displayName": "x"}), ("PATCH", {"Operations": []}), ("DELETE", None)):
        assert await client.refused(method, path, body) == (404, None)
    assert await client.found("/Groups", 'externalId eq "g-1"') == []
    assert await client.found("/Groups", f'members eq "{theirs["members"][0]["value"]}"') == []
    await client.make_group(displayName="Guides")
    assert await other.ask("GET", path) == theirs
    await scim.close(other)


@pytest.mark.requirement("scim-9")
async def test_changes_of_groups_are_announced(client: ScimClient, receiver: Receiver) -> None:
    names = [
        f"group.{what}.complete"
        for what in ("create", "update", "delete", "member.add", "member.remove", "member.update")
    ]
    await subscribe(client.api, client.tenant, receiver.url, names)
    one, two = await client.make_user(), await client.make_user()
    made = await client.make_group(one)
    path = f"/Groups/{made['id']}"
    await client.ask("PUT", path, {"displayName": "Renamed", "members": [{"value": two["id"]}]})
    await client.patch(path, {"op": "remove", "path": f'members[value eq "{two["id"]}"]'})
    await client.send("DELETE", path)
    sent = await receiver.wait_for(len(names))
    assert sorted(one.event["type"] for one in sent) == sorted(names)


async def test_sub_attributes_of_members_are_selected(client: ScimClient) -> None:
    user = await client.make_user()
    path = f"/Groups/{(await client.make_group(user))['id']}"
    shown = await client.ask("GET", path, params={"attributes": "members.value"})
    assert shown == {"schemas": [GROUP], "id": shown["id"], "members": [{"value": user["id"]}]}
    rest = await client.ask("GET", path, params={"excludedAttributes": "members.$ref,displayName"})
    assert rest["members"] == [{"value": user["id"], "type": "User"}]
    assert "displayName" not in rest
    whole = await client.ask("GET", path, params={"attributes": "members,displayName"})
    assert whole.keys() == {"schemas", "id", "members", "displayName"}


async def test_request_with_too_many_members_changes_nothing(client: ScimClient) -> None:
    many = [{"value": new_id()} for _ in range(2501)]
    assert await client.refused("POST", "/Groups", {"displayName": "G", "members": many}) == (400, "tooMany")
    made = await client.make_group(await client.make_user())
    path = f"/Groups/{made['id']}"
    body = {"displayName": "Renamed", "members": many}
    assert (await client.send("PUT", path, body)).status_code == 400
    operations = [
        {"op": "replace", "path": "displayName", "value": "x"},
        {"op": "add", "path": "members", "value": many},
    ]
    assert (await client.send("PATCH", path, {"Operations": operations})).status_code == 400
    assert await client.ask("GET", path) == made


async def test_concurrent_patches_lose_no_member(client: ScimClient) -> None:
    users = [await client.make_user() for _ in range(6)]
    made = await client.make_group()
    patches = [{"op": "add", "path": "members", "value": [{"value": user["id"]}]} for user in users]
    await asyncio.gather(*(client.patch(f"/Groups/{made['id']}", one) for one in patches))
    assert member_ids(await client.ask("GET", f"/Groups/{made['id']}")) == sorted(user["id"] for user in users)
