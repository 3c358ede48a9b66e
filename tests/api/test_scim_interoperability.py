"""The requests that Microsoft Entra ID and Okta send, as their public documentation shows them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity import app
from tests import scim
from tests.scim import ENTERPRISE, GROUP, PATCH, USER, ScimClient

Document = dict[str, Any]
JSON = {"headers": {"Content-Type": "application/json; charset=utf-8"}}
"""Okta sends application/json."""


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
        "emails": [{"primary": True, "type": "work", "value": "Test_User_fd0ea19b@testuser.com"}],
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
async def test_entra_id_disables_a_user_with_a_text(client: ScimClient, value: Any, expected: bool) -> None:
    made = await client.ask("POST", "/Users", entra_user(), 201)
    shown = await client.patch(f"/Users/{made['id']}", {"op": "Replace", "path": "active", "value": value})
    assert shown["active"] is expected
    pathless = await client.patch(f"/Users/{made['id']}", {"op": "Replace", "value": {"active": value}})
    assert pathless["active"] is expected
    listed = await client.ask("GET", "/Users", params={"filter": f'userName eq "{made["userName"]}"'})
    assert listed["Resources"][0]["active"] is expected


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
