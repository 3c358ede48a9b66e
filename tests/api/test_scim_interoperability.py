"""The requests that Microsoft Entra ID and Okta send, as their public documentation shows them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity import app
from identity.ids import new_id
from tests import scim
from tests.scim import ENTERPRISE, ERROR, GROUP, PATCH, USER, ScimClient

Document = dict[str, Any]
JSON = {"headers": {"Content-Type": "application/json; charset=utf-8"}}
"""Okta sends application/json."""
LIST = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
EMAIL = "Test_User_fd0ea19b@testuser.com"


@pytest.fixture
async def client(service: app.Service, api: httpx.AsyncClient) -> AsyncIterator[ScimClient]:
    found = await scim.make_client(service.base_url, api)
    yield found
    await scim.close(found)


def entra_user() -> Document:
    return {
        "schemas": [USER, ENTERPRISE],
        "externalId": "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef",
        "userName": "Test_User_ab6490ee-1e48-479e-a20b-2d77186b5dd1",
        "active": True,
        "emails": [{"primary": True, "type": "work", "value": EMAIL}],
        "meta": {"resourceType": "User"},
        "name": {"formatted": "givenName familyName", "familyName": "familyName", "givenName": "givenName"},
        "roles": [],
    }


@pytest.mark.requirement("scim-8")
async def test_entra_id_provisions_a_user(client: ScimClient) -> None:
    listed_before = await client.ask(
        "GET", "/Users", params={"filter": 'userName eq "3edf1fda-1ab4-4e6b-a2a5-0c2a8f2a1e8d"'}
    )
    assert (listed_before["totalResults"], listed_before["Resources"]) == (0, [])
    made = await client.ask("POST", "/Users", entra_user(), 201)
    path = f"/Users/{made['id']}"
    found = await client.found("/Users", 'userName eq "Test_User_ab6490ee-1e48-479e-a20b-2d77186b5dd1"')
    assert found == [made["id"]]
    assert await client.found("/Users", 'externalId eq "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef"') == [made["id"]]
    shown = await client.patch(
        path,
        {"op": "Replace", "path": 'emails[type eq "work"].value', "value": "updatedEmail@microsoft.com"},
        {"op": "Replace", "path": "name.familyName", "value": "updatedFamilyName"},
        {"op": "Add", "path": 'phoneNumbers[type eq "mobile"].value', "value": "+1 425 555 0100"},
        {"op": "Add", "path": f"{ENTERPRISE}:manager", "value": made["id"]},
        {"op": "Add", "path": f"{ENTERPRISE}:department", "value": "Sales"},
    )
    assert shown["emails"] == [{"primary": True, "type": "work", "value": "updatedEmail@microsoft.com"}]
    assert shown["name"]["familyName"] == "updatedFamilyName"
    assert shown["phoneNumbers"] == [{"type": "mobile", "value": "+1 425 555 0100"}]
    assert shown[ENTERPRISE] == {"department": "Sales", "manager": {"value": made["id"]}}
    named = await client.patch(
        path,
        {"op": "replace", "value": {"displayName": "D", "name.givenName": "G", f"{ENTERPRISE}:division": "X"}},
    )
    assert (named["displayName"], named["name"]["givenName"], named[ENTERPRISE]["division"]) == ("D", "G", "X")
    renamed = await client.patch(path, {"op": "Replace", "path": "userName", "value": "5b50642d-79fc-4410-9e90"})
    assert renamed["userName"] == "5b50642d-79fc-4410-9e90"


@pytest.mark.parametrize(("value", "expected"), [("False", False), (False, False), ("True", True)])
@pytest.mark.requirement("scim-8")
async def test_entra_id_disables_a_user_with_a_text(client: ScimClient, value: Any, expected: bool) -> None:
    made = await client.ask("POST", "/Users", entra_user(), 201)
    shown = await client.patch(f"/Users/{made['id']}", {"op": "Replace", "path": "active", "value": value})
    assert shown["active"] is expected
    pathless = await client.patch(f"/Users/{made['id']}", {"op": "Replace", "value": {"active": value}})
    assert pathless["active"] is expected
    listed = await client.ask("GET", "/Users", params={"filter": f'userName eq "{made["userName"]}"'})
    assert listed["Resources"][0]["active"] is expected


@pytest.mark.requirement("scim-8")
async def test_entra_id_finds_a_user_who_existed_before_by_the_email_address(client: ScimClient) -> None:
    body = {"user": {"email": "jo@example.com", "password": "a-good-password-1"}}
    user_id = (await client.api.post("/api/user", json=body)).json()["user"]["id"]
    assert await client.found("/Users", 'userName eq "Jo@example.com"') == [user_id]
    shown = await client.patch(f"/Users/{user_id}", {"op": "Add", "path": "title", "value": "Guide"})
    assert (shown["title"], shown["userName"]) == ("Guide", "jo@example.com")


@pytest.mark.requirement("scim-8")
async def test_entra_id_synchronizes_a_group(client: ScimClient) -> None:
    user = await client.make_user()
    body = {
        "schemas": [GROUP, "http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group"],
        "externalId": "8aa1a0c0-c4c3-4bc0-b4a5-2ef676900159",
        "displayName": "displayName",
        "meta": {"resourceType": "Group"},
    }
    made = await client.ask("POST", "/Groups", body, 201)
    path = f"/Groups/{made['id']}"
    listed = await client.ask(
        "GET", "/Groups", params={"excludedAttributes": "members", "filter": 'displayName eq "displayName"'}
    )
    assert [one["id"] for one in listed["Resources"]] == [made["id"]]
    await client.patch(path, {"op": "Replace", "path": "displayName", "value": "1879db59-3bdf-4490-ad68-ab880a269474"})
    reference = {"$ref": None, "value": user["id"]}
    added = await client.patch(path, {"op": "Add", "path": "members", "value": [reference]})
    assert [one["value"] for one in added["members"]] == [user["id"]]
    asked = f'id eq "{made["id"]}" and members eq "{user["id"]}"'
    assert await client.found("/Groups", asked, excludedAttributes="members") == [made["id"]]
    assert "members" not in await client.patch(path, {"op": "Remove", "path": "members", "value": [reference]})
    again = await client.patch(path, {"op": "Add", "path": "members", "value": [reference]})
    assert len(again["members"]) == 1
    left = await client.patch(path, {"op": "Remove", "path": f'members[value eq "{user["id"]}"]'})
    assert "members" not in left
    assert (await client.send("DELETE", path)).status_code == 204


@pytest.mark.requirement("scim-8")
async def test_entra_id_reads_a_user_by_id_and_by_query(client: ScimClient) -> None:
    made = await client.ask("POST", "/Users", entra_user(), 201)
    assert made["emails"] == entra_user()["emails"]
    assert made["meta"]["resourceType"] == "User"
    assert await client.ask("GET", f"/Users/{made['id']}") == made
    for scim_filter in (f'userName eq "{made["userName"]}"', f'emails[type eq "work"].value eq "{EMAIL}"'):
        listed = await client.ask("GET", "/Users", params={"filter": scim_filter})
        assert (listed["schemas"], listed["totalResults"], listed["Resources"]) == ([LIST], 1, [made])
    missing = await client.ask("GET", f"/Users/{new_id()}", status=404)
    assert (missing["schemas"], missing["status"]) == ([ERROR], "404")


@pytest.mark.requirement("scim-8")
async def test_entra_id_replaces_attributes_with_the_compliance_flag(client: ScimClient) -> None:
    made = await client.ask("POST", "/Users", entra_user(), 201)
    shown = await client.patch(
        f"/Users/{made['id']}",
        {"op": "replace", "path": 'emails[type eq "work"].value', "value": "TestMhvaes@test.microsoft.com"},
        {
            "op": "replace",
            "value": {
                "displayName": "Bjfe",
                "name.givenName": "Kkom",
                "name.familyName": "Unua",
                f"{ENTERPRISE}:employeeNumber": "Aklq",
            },
        },
        {"op": "add", "path": "nickName", "value": "Babs"},
        {"op": "replace", "path": "active", "value": False},
    )
    assert shown["emails"] == [{"primary": True, "type": "work", "value": "TestMhvaes@test.microsoft.com"}]
    assert (shown["displayName"], shown["nickName"], shown["active"]) == ("Bjfe", "Babs", False)
    assert shown["name"] == {"formatted": "givenName familyName", "givenName": "Kkom", "familyName": "Unua"}
    assert shown[ENTERPRISE] == {"employeeNumber": "Aklq"}
    assert await client.ask("GET", f"/Users/{made['id']}") == shown
    stored = await client.user(made["id"])
    assert (stored["email"], stored["firstName"], stored["active"]) == ("testmhvaes@test.microsoft.com", "Kkom", False)


@pytest.mark.requirement("scim-8")
@pytest.mark.parametrize("op", ["Add", "Replace", "add"])
async def test_entra_id_creates_the_entry_that_a_filter_describes(client: ScimClient, op: str) -> None:
    made = await client.ask("POST", "/Users", entra_user(), 201)
    operation = {"op": op, "path": 'phoneNumbers[type eq "mobile"].value', "value": "+1 425 555 0100"}
    shown = await client.patch(f"/Users/{made['id']}", operation)
    assert shown["phoneNumbers"] == [{"type": "mobile", "value": "+1 425 555 0100"}]
    body = {"Operations": [{**operation, "op": "replace", "path": 'phoneNumbers[type eq "fax"].value'}]}
    assert await client.refused("PATCH", f"/Users/{made['id']}", body) == (400, "noTarget")
    assert await client.ask("GET", f"/Users/{made['id']}") == shown


@pytest.mark.requirement("scim-8")
async def test_entra_id_replaces_and_deletes_a_user(client: ScimClient) -> None:
    made = await client.ask("POST", "/Users", entra_user(), 201)
    path = f"/Users/{made['id']}"
    body = {**entra_user(), "name": {"familyName": "New"}, "emails": [{"type": "work", "value": "new@testuser.com"}]}
    replaced = await client.ask("PUT", path, body)
    assert (replaced["name"], replaced["emails"]) == ({"familyName": "New"}, body["emails"])
    answer = await client.send("DELETE", path)
    assert (answer.status_code, answer.content) == (204, b"")
    assert await client.refused("GET", path) == (404, None)
    assert (await client.api.get(f"/api/user/{made['id']}")).status_code == 404
    assert await client.refused("DELETE", path) == (404, None)


@pytest.mark.requirement("scim-8")
async def test_entra_id_reads_a_group_without_its_members(client: ScimClient) -> None:
    user = await client.make_user()
    made = await client.make_group(user, displayName="displayName", externalId="8aa1a0c0-c4c3-4bc0-b4a5-2ef676900159")
    shown = await client.ask("GET", f"/Groups/{made['id']}", params={"excludedAttributes": "members"})
    assert shown == {name: value for name, value in made.items() if name != "members"}
    removal = {"op": "remove", "path": f'members[value eq "{user["id"]}"]'}
    assert "members" not in await client.patch(f"/Groups/{made['id']}", removal)
    assert (await client.user(user["id"])).get("memberships", []) == []


@pytest.mark.requirement("scim-8")
async def test_entra_id_discovers_the_schemas(client: ScimClient) -> None:
    listed = await client.ask("GET", "/Schemas")
    assert listed["schemas"] == [LIST]
    schemas = {schema["id"]: schema for schema in listed["Resources"]}
    assert {USER, GROUP, ENTERPRISE} <= schemas.keys()
    names = {attribute["name"]: attribute for attribute in schemas[USER]["attributes"]}
    assert (names["userName"]["mutability"], names["emails"]["multiValued"]) == ("readWrite", True)
    assert await client.ask("GET", f"/Schemas/{ENTERPRISE}") == schemas[ENTERPRISE]
    types = {one["id"]: one for one in (await client.ask("GET", "/ResourceTypes"))["Resources"]}
    assert (types["User"]["endpoint"], types["Group"]["endpoint"]) == ("/Users", "/Groups")
    assert (await client.ask("GET", "/ServiceProviderConfig"))["patch"] == {"supported": True}


OKTA_USER: Document = {
    "schemas": [USER],
    "userName": "test.user@okta.local",
    "name": {"givenName": "Test", "familyName": "User"},
    "emails": [{"primary": True, "value": "test.user@okta.local", "type": "work"}],
    "displayName": "Test User",
    "locale": "en-US",
    "externalId": "00ujl29u0le5T6Aj10h7",
    "groups": [],
    "password": "1mz050nq-Password",
    "active": True,
}


@pytest.mark.requirement("scim-8")
async def test_okta_provisions_and_deactivates_a_user(client: ScimClient) -> None:
    parameters = {"filter": 'userName eq "test.user@okta.local"', "startIndex": 1, "count": 100}
    listed_before = await client.ask("GET", "/Users", params=parameters)
    assert (listed_before["totalResults"], listed_before["startIndex"], listed_before["itemsPerPage"]) == (0, 1, 0)
    made = await client.ask("POST", "/Users", OKTA_USER, 201, **JSON)
    assert made["emails"] == OKTA_USER["emails"]
    path = f"/Users/{made['id']}"
    assert (await client.ask("GET", "/Users", params=parameters))["Resources"] == [made]
    current = await client.ask("GET", path)
    renamed = await client.ask("PUT", path, {**current, "name": {"givenName": "Another", "familyName": "User"}}, **JSON)
    assert renamed["name"]["givenName"] == "Another"
    deactivated = await client.ask("PUT", path, {**renamed, "active": False}, **JSON)
    assert deactivated["active"] is False
    assert (await client.user(made["id"]))["active"] is False
    reactivated = await client.patch(path, {"op": "replace", "value": {"active": True}})
    assert reactivated["active"] is True
    again = await client.patch(path, {"op": "replace", "value": {"active": False}})
    assert again["active"] is False


@pytest.mark.requirement("scim-8")
async def test_okta_pushes_a_group(client: ScimClient) -> None:
    user = await client.make_user()
    made = await client.ask(
        "POST", "/Groups", {"schemas": [GROUP], "displayName": "Test SCIMv2", "members": []}, 201, **JSON
    )
    path = f"/Groups/{made['id']}"
    body = {
        "schemas": [PATCH],
        "Operations": [{"op": "replace", "value": {"id": made["id"], "displayName": "Test SCIMv2 renamed"}}],
    }
    assert (await client.ask("PATCH", path, body, **JSON))["displayName"] == "Test SCIMv2 renamed"
    operations = [
        {"op": "remove", "path": f'members[value eq "{user["id"]}"]'},
        {"op": "add", "path": "members", "value": [{"value": user["id"], "display": "test.user@okta.local"}]},
    ]
    shown = await client.ask("PATCH", path, {"schemas": [PATCH], "Operations": operations}, **JSON)
    assert [one["value"] for one in shown["members"]] == [user["id"]]
    replaced = {"op": "replace", "path": "members", "value": [{"value": user["id"], "display": "test"}]}
    assert (await client.ask("PATCH", path, {"schemas": [PATCH], "Operations": [replaced]}, **JSON))[
        "members"
    ] == shown["members"]
    listed = await client.ask("GET", "/Groups", params={"startIndex": 1, "count": 100})
    assert [one["displayName"] for one in listed["Resources"]] == ["Test SCIMv2 renamed"]
    assert (await client.send("DELETE", path)).status_code == 204


@pytest.mark.requirement("scim-8")
async def test_okta_pages_through_all_users(client: ScimClient) -> None:
    made = {(await client.make_user())["id"] for _ in range(5)}
    found: list[str] = []
    for start, length in ((1, 2), (3, 2), (5, 1), (7, 0)):
        page = await client.ask("GET", "/Users", params={"startIndex": start, "count": 2})
        assert (page["totalResults"], page["startIndex"], page["itemsPerPage"]) == (5, start, length)
        found += [user["id"] for user in page["Resources"]]
    assert (len(found), set(found)) == (5, made)


@pytest.mark.requirement("scim-8")
async def test_okta_deactivates_with_patch_and_reactivates_with_put(client: ScimClient) -> None:
    made = await client.ask("POST", "/Users", OKTA_USER, 201, **JSON)
    path, login = f"/Users/{made['id']}", {"loginId": OKTA_USER["userName"], "password": OKTA_USER["password"]}
    assert (await client.api.post("/api/login", json=login)).status_code in {200, 202}
    body = {"schemas": [PATCH], "Operations": [{"op": "replace", "value": {"active": False}}]}
    assert (await client.ask("PATCH", path, body, **JSON))["active"] is False
    assert (await client.api.post("/api/login", json=login)).status_code in {404, 423}
    listed = await client.ask("GET", "/Users", params={"filter": 'userName eq "test.user@okta.local"'})
    assert [user["active"] for user in listed["Resources"]] == [False]
    assert (await client.ask("PUT", path, {**made, "active": True}, **JSON))["active"] is True
    assert (await client.api.post("/api/login", json=login)).status_code in {200, 202}


@pytest.mark.requirement("scim-8")
async def test_okta_synchronizes_a_password(client: ScimClient) -> None:
    made = await client.ask("POST", "/Users", OKTA_USER, 201, **JSON)
    body = {"schemas": [PATCH], "Operations": [{"op": "replace", "value": {"password": "an0ther-Password"}}]}
    shown = await client.ask("PATCH", f"/Users/{made['id']}", body, **JSON)
    assert "password" not in shown
    login = {"loginId": OKTA_USER["userName"], "password": "an0ther-Password"}
    assert (await client.api.post("/api/login", json=login)).status_code in {200, 202}


@pytest.mark.requirement("scim-8")
async def test_okta_creates_a_user_twice_and_gets_a_conflict(client: ScimClient) -> None:
    await client.ask("POST", "/Users", OKTA_USER, 201, **JSON)
    refusal = await client.ask("POST", "/Users", OKTA_USER, 409, **JSON)
    assert (ERROR in refusal["schemas"], refusal["status"], refusal["scimType"]) == (True, "409", "uniqueness")


@pytest.mark.requirement("scim-8")
async def test_okta_replaces_a_group_with_put(client: ScimClient) -> None:
    first, second = await client.make_user(), await client.make_user()
    made = await client.make_group(first, displayName="Test SCIMv2")
    members = [{"value": second["id"], "display": second["userName"]}]
    body = {"schemas": [GROUP], "id": made["id"], "displayName": "Test SCIMv2 renamed", "members": members}
    shown = await client.ask("PUT", f"/Groups/{made['id']}", body, **JSON)
    assert (shown["displayName"], [member["value"] for member in shown["members"]]) == (
        "Test SCIMv2 renamed",
        [second["id"]],
    )
    assert await client.ask("GET", f"/Groups/{made['id']}") == shown
    assert "groups" not in await client.ask("GET", f"/Users/{first['id']}")
