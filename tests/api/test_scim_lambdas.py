"""The lambdas that convert between SCIM resources and users and groups."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity import app
from identity.ids import new_id
from tests import scim
from tests.scim import ENTERPRISE, ScimClient

Document = dict[str, Any]

USER_REQUEST = """
function convert(user, options, scimUser) {
  user.active = scimUser.active;
  user.data.title = scimUser.title;
  user.firstName = scimUser.name && scimUser.name.givenName;
  user.username = scimUser.userName;
  options.skipVerification = true;
  if (scimUser.emails) {
    for (var i = 0; i < scimUser.emails.length; i++) {
      if (scimUser.emails[i].primary) user.email = scimUser.emails[i].value;
    }
  }
}
"""
USER_RESPONSE = """
function convert(scimUser, user) {
  scimUser.active = user.active;
  scimUser.userName = user.username;
  scimUser.title = user.data.title;
  scimUser.id = "forged";
  scimUser.name = {givenName: user.firstName, middleName: null};
  scimUser.password = "leak";
  scimUser.emails = [{primary: true, value: user.email, type: "work"}];
}
"""
GROUP_REQUEST = """
function convert(group, members, options, scimGroup) {
  group.name = "SCIM " + scimGroup.displayName.replace(/^SCIM /, "");
  if (scimGroup.members) {
    for (var i = 0; i < scimGroup.members.length; i++) {
      members.push({userId: scimGroup.members[i].value, data: {via: "scim"}});
    }
  }
}
"""
GROUP_RESPONSE = """
function convert(scimGroup, group, members) {
  scimGroup.displayName = group.name;
}
"""


@pytest.fixture
async def client(service: app.Service, api: httpx.AsyncClient) -> AsyncIterator[ScimClient]:
    found = await scim.make_client(service.base_url, api)
    yield found
    await scim.close(found)


async def use(client: ScimClient, **bodies: str) -> None:
    """Assign lambdas to members of the tenant's lambdaConfiguration."""
    ids = {}
    for member, body in bodies.items():
        kind = "SCIMServer" + member.removeprefix("scim").removeprefix("Enterprise").removesuffix("Id")
        answer = await client.api.post("/api/lambda", json={"lambda": {"name": new_id(), "type": kind, "body": body}})
        assert answer.status_code == 200, answer.text
        ids[member] = answer.json()["lambda"]["id"]
    await client.configure(lambdaConfiguration=ids)


@pytest.mark.requirement("scim-10")
async def test_lambdas_convert_users(client: ScimClient) -> None:
    await use(client, scimUserRequestConverterId=USER_REQUEST, scimUserResponseConverterId=USER_RESPONSE)
    members = {"name": {"givenName": "Jo"}, "emails": [{"value": "jo@example.com", "primary": True}], "externalId": "x"}
    made = await client.make_user(userName="jo", title="Guide", active=True, nickName="J", **members)
    assert made["id"] != "forged"
    assert (made["userName"], made["title"], made["name"], made["externalId"]) == (
        "jo",
        "Guide",
        {"givenName": "Jo"},
        "x",
    )
    assert "nickName" not in made
    stored = await client.user(made["id"])
    assert (stored["data"], stored["email"], stored["verified"]) == ({"title": "Guide"}, "jo@example.com", True)
    path = f"/Users/{made['id']}"
    patched = await client.patch(path, {"op": "replace", "path": "title", "value": "Driver"})
    assert (patched["title"], patched["emails"]) == ("Driver", made["emails"])
    gone = await client.patch(path, {"op": "replace", "value": {"active": False}})
    assert gone["active"] is False


async def test_lambdas_of_enterprise_users_are_their_own(client: ScimClient) -> None:
    body = "function convert(user, options, scimUser) { user.username = 'e-' + scimUser.userName; }"
    await use(client, scimEnterpriseUserRequestConverterId=body)
    name = new_id()
    made = await client.ask("POST", "/EnterpriseUsers", {"userName": name, ENTERPRISE: {"department": "X"}}, 201)
    assert made["userName"] == f"e-{name}"
    assert (await client.make_user(userName=name))["userName"] == name


@pytest.mark.requirement("scim-10")
async def test_lambdas_convert_groups(client: ScimClient) -> None:
    await use(client, scimGroupRequestConverterId=GROUP_REQUEST, scimGroupResponseConverterId=GROUP_RESPONSE)
    one, two = await client.make_user(), await client.make_user()
    made = await client.make_group(one, displayName="Guides")
    assert (made["displayName"], [member["value"] for member in made["members"]]) == ("SCIM Guides", [one["id"]])
    shown = await client.patch(
        f"/Groups/{made['id']}", {"op": "add", "path": "members", "value": [{"value": two["id"]}]}
    )
    assert len(shown["members"]) == 2
    search = {"search": {"groupId": made["id"]}}
    found = (await client.api.post("/api/group/member/search", json=search)).json()["members"]
    assert [member["data"] for member in found] == [{"via": "scim"}] * 2


@pytest.mark.requirement("scim-10")
@pytest.mark.parametrize(
    "bodies",
    [
        {"scimUserRequestConverterId": "function convert(user) { throw new Error('no'); }"},
        {"scimUserResponseConverterId": "function convert(scimUser) { scimUser.userName = 7; }"},
        {"scimUserResponseConverterId": "function convert(scimUser) { }"},
        {"scimUserResponseConverterId": "function convert(scimUser) { scimUser.userName = 'x'; scimUser.name = 7; }"},
        {"scimUserResponseConverterId": "function convert(user) { user.userName = 'x'; user.schemas = 7; }"},
    ],
)
async def test_failed_lambda_is_reported(client: ScimClient, bodies: dict[str, str]) -> None:
    await use(client, **bodies)
    assert await client.refused("POST", "/Users", {"userName": new_id()}) == (512, None)


async def test_lambda_that_makes_an_invalid_user_is_the_request_s_error(client: ScimClient) -> None:
    await use(client, scimUserRequestConverterId="function convert(user) { user.email = 'x'; user.data = 7; }")
    assert await client.refused("POST", "/Users", {"userName": new_id()}) == (400, "invalidSyntax")
