"""SCIM users over HTTP, as RFC 7643 and 7644 show them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity import app
from identity.domain.scim import filters, messages, models, user_mapping
from identity.ids import new_id
from tests import internals, scim
from tests.conftest import UNKNOWN_ID
from tests.receiver import Receiver, answers
from tests.scim import ENTERPRISE, ERROR, USER, ScimClient
from tests.webhooks import subscribe

Document = dict[str, Any]

BABS: Document = {  # RFC 7643 section 8.2
    "schemas": [USER, ENTERPRISE],
    "externalId": "701984",
    "userName": "bjensen@example.com",
    "name": {
        "formatted": "Ms. Barbara J Jensen, III",
        "familyName": "Jensen",
        "givenName": "Barbara",
        "middleName": "Jane",
        "honorificPrefix": "Ms.",
        "honorificSuffix": "III",
    },
    "displayName": "Babs Jensen",
    "nickName": "Babs",
    "profileUrl": "https://login.example.com/bjensen",
    "emails": [
        {"value": "bjensen@example.com", "type": "work", "primary": True},
        {"value": "babs@jensen.org", "type": "home"},
    ],
    "addresses": [{"type": "work", "locality": "Hollywood", "country": "USA", "primary": True}],
    "phoneNumbers": [{"value": "555-555-5555", "type": "work"}, {"value": "555-555-4444", "type": "mobile"}],
    "userType": "Employee",
    "title": "Tour Guide",
    "preferredLanguage": "en-US",
    "locale": "en-US",
    "timezone": "America/Los_Angeles",
    "active": True,
    ENTERPRISE: {
        "employeeNumber": "701984",
        "costCenter": "4130",
        "department": "Tour Operations",
        "manager": {"value": "26118915-6090-4610-87e4-49d8ca9f808d"},
    },
}
"""What a client may set of the full example."""


@pytest.fixture
async def client(service: app.Service, api: httpx.AsyncClient) -> AsyncIterator[ScimClient]:
    found = await scim.make_client(service.base_url, api)
    yield found
    await scim.close(found)


@pytest.mark.requirement("scim-1")
async def test_created_user_has_every_attribute_of_the_request(client: ScimClient) -> None:
    answer = await client.send("POST", "/Users", {**BABS, "password": "t1meMa$heen", "id": "mine", "groups": []})
    assert answer.status_code == 201, answer.text
    shown = answer.json()
    assert answer.headers["Location"] == shown["meta"]["location"]
    assert answer.headers["ETag"] == shown["meta"]["version"]
    assert {name: shown[name] for name in BABS} == BABS
    assert shown["meta"]["resourceType"] == "User"
    stored = await client.user(shown["id"])
    expected = {
        "email": "bjensen@example.com",
        "username": "bjensen@example.com",
        "firstName": "Barbara",
        "lastName": "Jensen",
        "fullName": "Ms. Barbara J Jensen, III",
        "mobilePhone": "555-555-5555",
    }
    assert {name: stored[name] for name in expected} == expected
    assert stored["data"]["extensions"][ENTERPRISE]["costCenter"] == "4130"
    assert await client.ask("GET", f"/Users/{shown['id']}") == shown


async def test_password_of_a_client_logs_in_and_a_user_without_one_gets_a_random_one(client: ScimClient) -> None:
    made = await client.make_user(password="a-good-password-1")
    application = (await client.api.post("/api/application", json={"application": {"name": f"A {new_id()}"}})).json()[
        "application"
    ]
    login = {"loginId": made["userName"], "password": "a-good-password-1", "applicationId": application["id"]}
    assert (await client.api.post("/api/login", json=login)).status_code == 202  # not registered
    other = await client.make_user()
    refused = await client.api.post("/api/login", json={**login, "loginId": other["userName"]})
    assert refused.status_code == 404


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"userName": ""}, (400, "invalidValue")),
        ({"userName": 7}, (400, "invalidValue")),
        ({"active": "perhaps"}, (400, "invalidValue")),
        ({"emails": [{"value": "x", "primary": True}, {"value": "y", "primary": True}]}, (400, "invalidValue")),
        ({"name": "Babs"}, (400, "invalidValue")),
        ({"password": "x"}, (400, "invalidValue")),
    ],
)
async def test_invalid_user_is_refused(client: ScimClient, members: Document, expected: tuple[int, str]) -> None:
    body = {"schemas": [USER], "userName": f"user-{new_id()}", **members}
    assert await client.refused("POST", "/Users", body) == expected
    assert (await client.ask("GET", "/Users"))["totalResults"] == 0


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"userName": "a", "userName": "b"}'])
async def test_body_that_is_no_json_object_is_invalid_syntax(client: ScimClient, body: bytes) -> None:
    assert await client.refused("POST", "/Users", body) == (400, "invalidSyntax")


async def test_taken_user_name_is_a_uniqueness_conflict(client: ScimClient) -> None:
    made = await client.make_user()
    answer = await client.send("POST", "/Users", {"schemas": [USER], "userName": made["userName"].upper()})
    assert answer.status_code == 409
    shown = answer.json()
    assert (shown["scimType"], shown["schemas"][-1]) == ("uniqueness", ERROR)
    extension = shown["urn:ietf:params:scim:schemas:extension:fusionauth:2.0:Error"]
    assert extension["fieldErrors"]["user.username"][0]["code"] == "[duplicate]user.username"


@pytest.mark.requirement("scim-1")
async def test_replaced_user_has_only_the_attributes_of_the_request(client: ScimClient) -> None:
    made = await client.ask("POST", "/Users", BABS, 201)
    two_factor = {"methods": [{"method": "email", "email": "second@example.com"}]}
    answer = await client.api.patch(f"/api/user/{made['id']}", json={"user": {"twoFactor": two_factor}})
    assert answer.status_code == 200, answer.text
    body = {"schemas": [USER], "userName": "babs", "name": {"givenName": "Babs"}}
    shown = await client.ask("PUT", f"/Users/{made['id']}", body)
    assert shown.keys() == {"active", "id", "meta", "name", "schemas", "userName"}
    assert (shown["userName"], shown["name"], shown["active"]) == ("babs", {"givenName": "Babs"}, True)
    stored = await client.user(made["id"])
    assert "email" not in stored
    assert stored["data"] == {}
    assert stored["twoFactor"]["methods"][0]["email"] == "second@example.com"


async def test_deleted_user_is_gone(client: ScimClient) -> None:
    made = await client.make_user()
    assert (await client.send("DELETE", f"/Users/{made['id']}")).status_code == 204
    assert await client.refused("GET", f"/Users/{made['id']}") == (404, None)
    assert (await client.api.get(f"/api/user/{made['id']}")).status_code == 404


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("user_id", [UNKNOWN_ID, "no-uuid"])
async def test_unknown_user_is_not_found(client: ScimClient, method: str, user_id: str) -> None:
    body = {"userName": "x", "Operations": [{"op": "add", "path": "title", "value": "x"}]}
    found = await client.refused(method, f"/Users/{user_id}", None if method in {"GET", "DELETE"} else body)
    assert found == (404, None)


PATCHES = [
    ({"op": "add", "path": "title", "value": "Guide"}, "title", "Guide"),
    ({"op": "add", "value": {"nickName": "B", "name": {"familyName": "J"}}}, "nickName", "B"),
    ({"op": "replace", "path": "name.givenName", "value": "Barb"}, "name", {**BABS["name"], "givenName": "Barb"}),
    (
        {"op": "replace", "path": f"{ENTERPRISE}:department", "value": "X"},
        ENTERPRISE,
        {**BABS[ENTERPRISE], "department": "X"},
    ),
    ({"op": "replace", "path": f"{USER}:displayName", "value": "B"}, "displayName", "B"),
    (
        {"op": "replace", "path": 'emails[type eq "home"].value', "value": "b@jensen.org"},
        "emails",
        [BABS["emails"][0], {"value": "b@jensen.org", "type": "home"}],
    ),
    ({"op": "remove", "path": 'emails[type eq "home"]'}, "emails", BABS["emails"][:1]),
    (
        {"op": "add", "path": "emails", "value": [{"value": "new@example.com", "type": "other", "primary": True}]},
        "emails",
        [
            {**BABS["emails"][0], "primary": False},
            BABS["emails"][1],
            {"value": "new@example.com", "type": "other", "primary": True},
        ],
    ),
    (
        {"op": "replace", "path": 'addresses[type eq "work"].country', "value": "UK"},
        "addresses",
        [{**BABS["addresses"][0], "country": "UK"}],
    ),
    ({"op": "remove", "path": "title"}, "title", None),
    (
        {"op": "remove", "path": "name.middleName"},
        "name",
        {key: value for key, value in BABS["name"].items() if key != "middleName"},
    ),
]


@pytest.mark.requirement("scim-5")
@pytest.mark.parametrize(("operation", "attribute", "expected"), PATCHES)
async def test_patch_changes_an_attribute(
    client: ScimClient, operation: Document, attribute: str, expected: Any
) -> None:
    made = await client.ask("POST", "/Users", BABS, 201)
    shown = await client.patch(f"/Users/{made['id']}", operation)
    assert shown.get(attribute) == expected
    unchanged = made.keys() - {attribute, "meta", "nickName", "name"}
    assert {name: shown.get(name) for name in unchanged} == {name: made[name] for name in unchanged}
    assert await client.ask("GET", f"/Users/{made['id']}") == shown


@pytest.mark.requirement("scim-5", "scim-13")
@pytest.mark.parametrize(
    ("operation", "scim_type"),
    [
        ({"op": "remove"}, "noTarget"),
        ({"op": "move", "path": "title"}, "invalidValue"),
        ({"op": "replace", "path": "id", "value": UNKNOWN_ID}, "mutability"),
        ({"op": "replace", "path": "emails[type eq", "value": "x"}, "invalidPath"),
        ({"op": "replace", "path": 7, "value": {"title": "x"}}, "invalidPath"),
        ({"op": "replace", "path": "nothing", "value": "x"}, "invalidPath"),
        ({"op": "add", "path": "nothing", "value": "x"}, "invalidPath"),
        ({"op": "remove", "path": "nothing"}, "invalidPath"),
        ({"op": "replace", "path": "name.nothing", "value": "x"}, "invalidPath"),
        ({"op": "add", "path": 'emails[type eq "work"].nothing', "value": "x"}, "invalidPath"),
        ({"op": "replace", "path": "urn:example:params:scim:schemas:User:nothing", "value": "x"}, "invalidPath"),
        ({"op": "replace", "path": 'emails[value sw "missing"].type', "value": "x"}, "noTarget"),
        ({"op": "replace", "path": 'emails[type eq "work"].value', "value": "x@example.com"}, "noTarget"),
        ({"op": "replace", "path": 'addresses[type eq "work"]', "value": {"country": "US"}}, "noTarget"),
        ({"op": "replace", "path": "phoneNumbers.value", "value": "555-555-5555"}, "noTarget"),
        ({"op": "remove", "path": "userName"}, "mutability"),
        ({"op": "replace", "path": "active", "value": "perhaps"}, "invalidValue"),
        ({"op": "add", "path": "title"}, "invalidValue"),
    ],
)
async def test_invalid_patch_changes_nothing(client: ScimClient, operation: Document, scim_type: str) -> None:
    made = await client.make_user(title="Guide")
    body = {"schemas": [scim.PATCH], "Operations": [{"op": "replace", "path": "title", "value": "New"}, operation]}
    assert await client.refused("PATCH", f"/Users/{made['id']}", body) == (400, scim_type)
    assert await client.ask("GET", f"/Users/{made['id']}") == made


@pytest.mark.requirement("scim-13")
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/Users", {"userName": 7}),
        ("POST", "/Users", {"userName": "x", "active": "perhaps"}),
        ("POST", "/Users", {"userName": "x", "name": "Babs"}),
        ("POST", "/Users", {"userName": "x", "emails": ["x@example.com"]}),
        ("POST", "/Users", {"userName": "x", "x509Certificates": [{"value": "a b"}]}),
        ("POST", "/Users", {"userName": "x", "photos": [{"value": 7}]}),
        ("POST", "/Users", {"userName": "x", ENTERPRISE: {"manager": 7}}),
        ("PATCH", "/Users/{id}", {"Operations": [{"op": "replace", "path": "title", "value": {"a": 1}}]}),
        ("PATCH", "/Users/{id}", {"Operations": [{"op": "replace", "path": "emails", "value": "x"}]}),
        ("PATCH", "/Users/{id}", {"Operations": [{"op": "replace", "path": "a b", "value": "x"}]}),
        ("PATCH", "/Users/{id}", {"Operations": [{"op": "move"}]}),
        ("PATCH", "/Users/{id}", {"Operations": [7]}),
        ("PATCH", "/Users/{id}", {"Operations": []}),
        ("PATCH", "/Users/{id}", {}),
        ("POST", "/Users/.search", {"filter": "userName"}),
        ("POST", "/Users/.search", {"filter": 'active gt "x"'}),
        ("POST", "/Users/.search", {"filter": 'meta.created gt "x"'}),
        ("POST", "/Users/.search", {"filter": 7}),
        ("POST", "/Users/.search", {"sortBy": "nothing"}),
        ("POST", "/Users/.search", {"sortOrder": "up"}),
        ("POST", "/Users/.search", {"attributes": ["a b"]}),
        ("POST", "/Users/.search", {"attributes": ["title"], "excludedAttributes": ["name"]}),
    ],
)
async def test_errors_are_in_the_words_of_the_service(
    client: ScimClient, method: str, path: str, body: Document
) -> None:
    made = await client.make_user()
    answer = await client.send(method, path.format(id=made["id"]), body)
    assert answer.status_code == 400, answer.text
    detail = answer.json()["detail"]
    assert detail.endswith(".")
    for foreign in ("Input should", "validation error", "Value error", "instance of", "column", "pydantic", "[type="):
        assert foreign not in detail


MANAGERS: list[tuple[Any, Document | None]] = [
    ({"value": "26118915"}, {"value": "26118915"}),
    ([{"value": "26118915"}], {"value": "26118915"}),
    ("26118915", {"value": "26118915"}),
    (["26118915"], {"value": "26118915"}),
    ({"value": "26118915", "$ref": "../Users/26118915"}, {"value": "26118915", "$ref": "../Users/26118915"}),
    ("", None),
    ([], None),
    (None, None),
]


@pytest.mark.parametrize(("manager", "expected"), MANAGERS)
async def test_manager_is_an_object_a_list_or_an_id(
    client: ScimClient, manager: Any, expected: Document | None
) -> None:
    extension = {"department": "Sales", "manager": manager}
    made = await client.make_user(**{ENTERPRISE: extension})
    path = f"/Users/{made['id']}"
    assert made[ENTERPRISE].get("manager") == expected
    other = {"value": "7"}
    changed = await client.ask("PUT", path, {**made, ENTERPRISE: {"manager": other}})
    assert changed[ENTERPRISE] == {"manager": other}
    assert (await client.ask("PUT", path, {**made, ENTERPRISE: extension}))[ENTERPRISE].get("manager") == expected
    operations = [
        {"op": "replace", "path": f"{ENTERPRISE}:manager", "value": manager},
        {"op": "replace", "path": ENTERPRISE, "value": {"manager": manager}},
        {"op": "replace", "value": {ENTERPRISE: {"manager": manager}}},
        {"op": "replace", "value": {f"{ENTERPRISE}:manager": manager}},
        {"op": "Add", "path": f"{ENTERPRISE}:manager", "value": manager},
    ]
    for operation in operations if manager is not None else operations[:-1]:
        await client.patch(path, {"op": "replace", "path": f"{ENTERPRISE}:manager.value", "value": "7"})
        shown = await client.patch(path, {"op": "remove", "path": f"{ENTERPRISE}:manager"}, operation)
        assert shown[ENTERPRISE].get("manager") == expected, operation
    assert await client.ask("GET", path) == shown


async def test_email_address_is_returned_as_sent_and_compared_without_case(client: ScimClient) -> None:
    emails = [{"value": "Babs.Jensen@Example.com", "type": "work", "primary": True}]
    made = await client.make_user(emails=emails)
    path = f"/Users/{made['id']}"
    assert made["emails"] == emails
    assert (await client.user(made["id"]))["email"] == "babs.jensen@example.com"
    for scim_filter in ('emails.value eq "BABS.jensen@example.com"', 'emails[type eq "work"].value sw "babs.JENSEN"'):
        assert await client.found("/Users", scim_filter) == [made["id"]], scim_filter
    assert await client.refused("POST", "/Users", {"userName": "other", "emails": [{"value": emails[0]["value"]}]}) == (
        409,
        "uniqueness",
    )
    assert await client.ask("PUT", path, made) == made
    operation = {"op": "replace", "path": 'emails[type eq "work"].value', "value": "BABS@Example.com"}
    assert (await client.patch(path, operation))["emails"] == [{**emails[0], "value": "BABS@Example.com"}]
    answer = await client.api.patch(f"/api/user/{made['id']}", json={"user": {"email": "b.j@example.com"}})
    assert answer.status_code == 200, answer.text
    assert (await client.ask("GET", path))["emails"] == [{**emails[0], "value": "b.j@example.com"}]


async def test_deactivated_user_loses_the_sessions_and_can_be_reactivated(
    client: ScimClient, receiver: Receiver
) -> None:
    names = ["user.deactivate", "user.reactivate", "user.update"]
    await subscribe(client.api, client.tenant, receiver.url, names)
    made = await client.make_user()
    shown = await client.patch(f"/Users/{made['id']}", {"op": "replace", "path": "active", "value": False})
    assert shown["active"] is False
    assert (await client.user(made["id"]))["active"] is False
    assert await client.found("/Users", "active eq false") == [made["id"]]
    body = {"schemas": [USER], "userName": made["userName"], "active": True}
    assert (await client.ask("PUT", f"/Users/{made['id']}", body))["active"] is True
    assert (await client.user(made["id"]))["active"] is True
    sent = await receiver.wait_for(2)
    assert [one.event["type"] for one in sent] == ["user.deactivate", "user.reactivate"]


async def test_created_user_may_be_inactive(client: ScimClient) -> None:
    made = await client.make_user(active=False)
    assert made["active"] is False
    assert (await client.user(made["id"]))["active"] is False


@pytest.mark.requirement("scim-6")
async def test_versions_are_preconditions(client: ScimClient) -> None:
    made = await client.make_user()
    path, old = f"/Users/{made['id']}", made["meta"]["version"]
    unmodified = await client.send("GET", path, headers={"If-None-Match": old})
    assert (unmodified.status_code, unmodified.content, unmodified.headers["ETag"]) == (304, b"", old)
    changed = await client.ask(
        "PATCH", path, {"Operations": [{"op": "add", "path": "title", "value": "A"}]}, headers={"If-Match": old}
    )
    assert changed["meta"]["version"] != old
    assert (await client.send("GET", path, headers={"If-None-Match": old})).status_code == 200
    for method, body in (
        ("PUT", {"userName": "x"}),
        ("PATCH", {"Operations": [{"op": "remove", "path": "title"}]}),
        ("DELETE", None),
    ):
        assert await client.refused(method, path, body, headers={"If-Match": old}) == (412, None)
    assert await client.ask("GET", path) == changed
    current = {"If-Match": f'W/"other", {changed["meta"]["version"]}'}
    assert (await client.send("DELETE", path, headers=current)).status_code == 204


async def test_request_without_a_change_writes_nothing(client: ScimClient) -> None:
    made = await client.ask("POST", "/Users", BABS, 201)
    assert await client.ask("PUT", f"/Users/{made['id']}", BABS) == made
    assert (
        await client.patch(f"/Users/{made['id']}", {"op": "replace", "path": "title", "value": BABS["title"]}) == made
    )


async def test_attributes_select_what_is_returned(client: ScimClient) -> None:
    made = await client.ask("POST", "/Users", BABS, 201, params={"attributes": "userName"})
    assert made.keys() == {"schemas", "id", "userName"}
    path = f"/Users/{made['id']}"
    shown = await client.ask("GET", path, params={"attributes": "name.familyName,emails"})
    assert shown.keys() == {"schemas", "id", "name", "emails"}
    assert shown["name"] == {"familyName": "Jensen"}
    rest = await client.ask("GET", path, params={"excludedAttributes": f"emails,{ENTERPRISE}:manager"})
    assert "emails" not in rest
    assert "manager" not in rest[ENTERPRISE]
    assert "password" not in await client.ask("GET", path, params={"attributes": "password"})
    both = {"attributes": "userName", "excludedAttributes": "emails"}
    assert (await client.send("GET", path, params=both)).status_code == 400


@pytest.mark.requirement("scim-4")
async def test_search_pages_sorts_and_counts(client: ScimClient) -> None:
    for name in ("c", "a", "b"):
        await client.make_user(userName=f"{name}-{client.tenant['id']}", name={"familyName": name})

    async def names(**parameters: Any) -> list[str]:
        shown = await client.ask("GET", "/Users", params=parameters)
        assert (shown["totalResults"], shown["itemsPerPage"]) == (3, len(shown["Resources"]))
        return [one["userName"][0] for one in shown["Resources"]]

    assert await names(sortBy="userName") == ["a", "b", "c"]
    assert await names(sortBy="name.familyName", sortOrder="descending") == ["c", "b", "a"]
    assert await names(sortBy="userName", startIndex=2, count=1) == ["b"]
    assert await names(sortBy="userName", startIndex=-4, count=2) == ["a", "b"]
    assert await names(count=0) == []
    assert await names(count=-1) == []
    assert await names(startIndex=9) == []
    request = {"schemas": [], "sortBy": "userName", "count": 1, "attributes": ["userName"]}
    found = await client.ask("POST", "/Users/.search", request)
    assert [one.keys() for one in found["Resources"]] == [{"schemas", "id", "userName"}]
    for wrong in (
        {"sortBy": "photos"},
        {"sortBy": "password"},
        {"startIndex": "x"},
        {"sortOrder": "up"},
        {"sortBy": "nothing"},
    ):
        assert (await client.send("GET", "/Users", params=wrong)).status_code == 400


@pytest.mark.requirement("scim-4")
async def test_filters_find_users(client: ScimClient) -> None:
    babs = (await client.ask("POST", "/Users", BABS, 201))["id"]
    await client.make_user(userName="mandy", title="Manager")
    own = await client.api.post(
        "/api/user", json={"user": {"email": "plain@corp.local", "password": "a-good-password-1"}}
    )
    plain = own.json()["user"]["id"]
    matching = [
        'userName eq "BJensen@example.com"',
        'username Eq "bjensen@example.com"',
        f'{USER}:userName sw "BJEN"',
        'name.familyName co "ENS" and active eq true',
        'emails.value eq "bjensen@example.com"',
        'emails[type eq "work" and value co "@example.com"]',
        'emails[type eq "work"].value eq "bjensen@example.com"',
        'externalId eq "701984"',
        f'id eq "{babs}"',
        'displayName ew "jensen"',
        'title eq "tour guide" and not (userName eq "mandy")',
        'addresses[type eq "work" and country eq "usa"]',
        f'{ENTERPRISE}:department eq "tour operations"',
        f'{ENTERPRISE}:manager.value sw "26118915"',
        f"{ENTERPRISE}:costCenter pr",
        'nickName pr and (locale eq "en-US" or locale eq "fr")',
        'userName ne "mandy" and title pr',
        'meta.lastModified gt "2011-05-13T04:42:34Z" and nickName pr',
    ]
    for scim_filter in matching:
        assert await client.found("/Users", scim_filter) == [babs], scim_filter
    for scim_filter in ('externalId eq "701984X"', 'addresses[type eq "home" and country eq "usa"]', "active eq false"):
        assert await client.found("/Users", scim_filter) == [], scim_filter
    for scim_filter in ('userName eq "plain@corp.local"', 'emails[type eq "work"].value eq "plain@corp.local"'):
        assert await client.found("/Users", scim_filter) == [plain], scim_filter
    assert len(await client.found("/Users", 'meta.created gt "2011-05-13T04:42:34Z"')) == 3
    for wrong in ("userName", 'nothing eq "x"', 'password eq "x"', 'active gt "x"', 'userName eq "\\u0000"'):
        assert await client.refused("GET", "/Users", params={"filter": wrong}) == (400, "invalidFilter"), wrong


@pytest.mark.requirement("scim-4")
async def test_lookups_of_one_user_read_one_document(service: app.Service, client: ScimClient) -> None:
    for _ in range(3):
        await client.make_user(emails=[{"value": f"{new_id()}@example.com", "primary": True}])
    made = await client.make_user(externalId=new_id(), emails=[{"value": f"{new_id()}@example.com", "primary": True}])
    for scim_filter in (
        f'userName eq "{made["userName"]}"',
        f'externalId eq "{made["externalId"]}"',
        f'emails.value eq "{made["emails"][0]["value"]}"',
        f'id eq "{made["id"]}"',
    ):
        assert await examined(service, client, scim_filter) == 1, scim_filter


async def examined(service: app.Service, client: ScimClient, scim_filter: str) -> int:
    """How many documents MongoDB reads for a filter."""
    query = messages.read_query(client.tenant, ["User"], {"filter": scim_filter})
    scope = filters.Scope(client.tenant["id"])
    where = filters.translate(query.request.filter, models.model_of(client.tenant, "User"), user_mapping.FIELDS, scope)
    collection = internals.database(service).collection("users")
    plan = await collection.find({"$and": [{"tenantId": client.tenant["id"]}, where]}).explain()
    return int(plan["executionStats"]["totalDocsExamined"])


async def test_attributes_that_administrators_broke_are_left_out(client: ScimClient) -> None:
    made = await client.ask("POST", "/Users", BABS, 201)
    data = {"scim": {"addresses": "none", "title": 7, "emails": [1], "photos": {}}, "extensions": {ENTERPRISE: "none"}}
    for broken in (data, {"scim": 1, "extensions": []}):
        answer = await client.api.put(
            f"/api/user/{made['id']}", json={"user": {"username": "babs", "email": "b@example.com", "data": broken}}
        )
        assert answer.status_code == 200, answer.text
        shown = await client.ask("GET", f"/Users/{made['id']}")
        assert shown["userName"] == "babs"
        assert shown["emails"] == [{"value": "b@example.com", "type": "work", "primary": True}]
        assert shown["externalId"] == "701984"
        for scim_filter in (f'{ENTERPRISE}:department sw "n"', 'title co "g"', 'addresses[country eq "x"]'):
            assert await client.found("/Users", scim_filter) == [], scim_filter


@pytest.mark.requirement("scim-9")
async def test_veto_of_a_webhook_changes_nothing(client: ScimClient, receiver: Receiver) -> None:
    made = await client.make_user(title="Guide")
    names = ["user.create", "user.update", "user.deactivate", "user.delete"]
    await subscribe(client.api, client.tenant, receiver.url, names, "AbsoluteMajority")
    receiver.behaviour = answers(500)
    path = f"/Users/{made['id']}"
    assert (await client.send("POST", "/Users", {"userName": f"user-{new_id()}"})).status_code == 504
    body = {"Operations": [{"op": "replace", "path": "title", "value": "New"}]}
    assert (await client.send("PATCH", path, body)).status_code == 504
    assert (
        await client.send("PATCH", path, {"Operations": [{"op": "replace", "path": "active", "value": False}]})
    ).status_code == 504
    assert (await client.send("DELETE", path)).status_code == 504
    assert await client.ask("GET", path) == made
    assert (await client.ask("GET", "/Users"))["totalResults"] == 1


async def test_enterprise_users_are_the_same_users(client: ScimClient) -> None:
    made = await client.ask("POST", "/EnterpriseUsers", BABS, 201)
    assert made["meta"]["resourceType"] == "EnterpriseUser"
    assert made["meta"]["location"].endswith(f"/EnterpriseUsers/{made['id']}")
    assert (await client.ask("GET", f"/Users/{made['id']}"))[ENTERPRISE] == BABS[ENTERPRISE]
    assert await client.found("/EnterpriseUsers", f'{ENTERPRISE}:costCenter eq "4130"') == [made["id"]]


@pytest.mark.requirement("scim-12")
async def test_users_of_another_tenant_do_not_exist(
    service: app.Service, api: httpx.AsyncClient, client: ScimClient
) -> None:
    other = await scim.make_client(service.base_url, api)
    theirs = await other.ask("POST", "/Users", BABS, 201)
    path = f"/Users/{theirs['id']}"
    assert await client.refused("GET", path) == (404, None)
    assert await client.refused("PUT", path, {"userName": "x"}) == (404, None)
    assert await client.refused("DELETE", path) == (404, None)
    assert await client.found("/Users", 'userName eq "bjensen@example.com"') == []
    assert await client.found("/Users", 'externalId eq "701984"') == []
    assert (await client.ask("GET", "/Users"))["totalResults"] == 0
    assert (await client.ask("POST", "/Users", BABS, 201))["id"] != theirs["id"]
    assert await client.refused("POST", "/Groups", {"displayName": "G", "members": [{"value": theirs["id"]}]}) == (
        400,
        "invalidValue",
    )
    await scim.close(other)


@pytest.mark.requirement("scim-9")
async def test_administrators_are_out_of_reach(service: app.Service, client: ScimClient) -> None:
    made = await client.make_user()
    stored = await internals.store(service, "users").get(client.tenant["id"], made["id"])
    administrators = "3c219e58-ed0e-4b18-ad48-f4f92793ae32"
    registration = {"id": new_id(), "applicationId": administrators, "roles": ["admin"], "data": {}, "insertInstant": 1}
    await internals.store(service, "users").replace(
        client.tenant["id"], {**stored, "registrations": [registration]}, stored["lastUpdateInstant"]
    )
    path = f"/Users/{made['id']}"
    assert await client.refused("PUT", path, {"userName": made["userName"], "password": "a-new-password-1"}) == (
        403,
        None,
    )
    assert await client.refused(
        "PATCH", path, {"Operations": [{"op": "replace", "path": "active", "value": False}]}
    ) == (403, None)
    assert await client.refused("DELETE", path) == (403, None)
    assert (await client.ask("GET", path))["active"] is True


async def test_concurrent_patches_lose_no_change(client: ScimClient) -> None:
    made = await client.make_user()
    attributes = ["title", "nickName", "userType", "locale", "displayName", "timezone"]
    patches = [{"op": "replace", "path": name, "value": name} for name in attributes]
    await asyncio.gather(*(client.patch(f"/Users/{made['id']}", one) for one in patches))
    shown = await client.ask("GET", f"/Users/{made['id']}")
    assert {name: shown.get(name) for name in attributes} == {name: name for name in attributes}
