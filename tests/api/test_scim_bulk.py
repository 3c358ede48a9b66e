"""Bulk requests (RFC 7644 section 3.7)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity import app
from tests import scim
from tests.conftest import UNKNOWN_ID
from tests.scim import ENTERPRISE, PERMISSIONS, ScimClient

Document = dict[str, Any]
REQUEST = "urn:ietf:params:scim:api:messages:2.0:BulkRequest"


@pytest.fixture
async def client(service: app.Service, api: httpx.AsyncClient) -> AsyncIterator[ScimClient]:
    found = await scim.make_client(service.base_url, api)
    yield found
    await scim.close(found)


async def run(client: ScimClient, *operations: Document, **members: Any) -> list[Document]:
    body = {"schemas": [REQUEST], "Operations": list(operations), **members}
    return list((await client.ask("POST", "/Bulk", body))["Operations"])


def create(name: str, bulk_id: str, **members: Any) -> Document:
    return {"method": "POST", "path": "/Users", "bulkId": bulk_id, "data": {"userName": name, **members}}


@pytest.mark.requirement("scim-7")
async def test_operations_have_a_result_each(client: ScimClient) -> None:
    one, two = await client.make_user(), await client.make_user()
    patch = {"Operations": [{"op": "add", "path": "title", "value": "Guide"}]}
    results = await run(
        client,
        create("alice", "qwerty"),
        {
            "method": "PUT",
            "path": f"/Users/{one['id']}",
            "version": one["meta"]["version"],
            "data": {"userName": "bob"},
        },
        {"method": "PATCH", "path": f"/Users/{two['id']}", "data": patch},
        {"method": "PATCH", "path": f"/Users/{two['id']}", "data": patch, "version": two["meta"]["version"]},
        {"method": "DELETE", "path": f"/Users/{one['id']}"},
        {"method": "DELETE", "path": f"/Users/{UNKNOWN_ID}"},
        {"method": "POST", "path": "/Pets", "bulkId": "x", "data": {}},
        create("ALICE", "again"),
    )
    assert [one["status"] for one in results] == ["201", "200", "200", "412", "204", "404", "404", "409"]
    assert (results[0]["bulkId"], results[-1]["response"]["scimType"]) == ("qwerty", "uniqueness")
    assert results[0]["location"].endswith((await client.found("/Users", 'userName eq "alice"'))[0])
    shown = await client.ask("GET", f"/Users/{two['id']}")
    assert (shown["title"], shown["meta"]["version"]) == ("Guide", results[2]["version"])


@pytest.mark.requirement("scim-7")
async def test_references_are_resolved_in_any_order(client: ScimClient) -> None:
    results = await run(
        client,
        {
            "method": "POST",
            "path": "/Groups",
            "bulkId": "ytrewq",
            "data": {"displayName": "Guides", "members": [{"type": "User", "value": "bulkId:qwerty"}]},
        },
        create("alice", "qwerty", **{ENTERPRISE: {"manager": {"value": "bulkId:boss"}}}),
        create("boss", "boss"),
        {
            "method": "PATCH",
            "path": "/Users/bulkId:boss",
            "data": {"Operations": [{"op": "add", "path": "title", "value": "B"}]},
        },
    )
    assert [one["status"] for one in results] == ["201", "201", "201", "200"]
    (alice,), (boss,) = [await client.found("/Users", f'userName eq "{name}"') for name in ("alice", "boss")]
    group = await client.ask("GET", "/Groups/" + results[0]["location"].rpartition("/")[2])
    assert [one["value"] for one in group["members"]] == [alice]
    assert (await client.ask("GET", f"/Users/{alice}"))[ENTERPRISE]["manager"]["value"] == boss
    assert (await client.ask("GET", f"/Users/{boss}"))["title"] == "B"


async def test_references_that_cannot_be_resolved_fail_alone(client: ScimClient) -> None:
    def managed(name: str, boss: str) -> Document:
        return create(name, name, **{ENTERPRISE: {"manager": {"value": f"bulkId:{boss}"}}})

    results = await run(client, managed("a", "b"), managed("b", "a"), managed("c", "missing"), create("d", "d"))
    assert [one["status"] for one in results] == ["409", "409", "409", "201"]
    assert (await client.ask("GET", "/Users"))["totalResults"] == 1


@pytest.mark.requirement("scim-7")
async def test_bulk_request_stops_after_the_errors_it_allows(client: ScimClient) -> None:
    unknown = {"method": "DELETE", "path": f"/Users/{UNKNOWN_ID}"}
    results = await run(client, unknown, unknown, create("x", "x"), failOnErrors=2)
    assert [one["status"] for one in results] == ["404", "404"]


async def test_each_operation_requires_its_permission(client: ScimClient) -> None:
    user = await client.make_user()
    await client.authorize(*[name for name in PERMISSIONS if name != "scim:user:delete"])
    results = await run(client, create("x", "x"), {"method": "DELETE", "path": f"/Users/{user['id']}"})
    assert [one["status"] for one in results] == ["201", "401"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, (400, "invalidSyntax")),
        ({"Operations": []}, (400, "invalidSyntax")),
        ({"Operations": [7]}, (400, "invalidSyntax")),
        ({"Operations": [{"method": "GET", "path": "/Users"}]}, (400, "invalidSyntax")),
        ({"Operations": [{"method": "POST", "path": "/Users", "data": {}}]}, (400, "invalidSyntax")),
        ({"Operations": [{"method": "POST", "path": "/Users/1", "bulkId": "1", "data": {}}]}, (400, "invalidPath")),
        ({"Operations": [{"method": "DELETE", "path": "/Users"}]}, (400, "invalidPath")),
        ({"Operations": [{"method": "PUT", "path": "/Users/1"}]}, (400, "invalidSyntax")),
        ({"Operations": [{"method": "DELETE", "path": "/Users/1", "version": 7}]}, (400, "invalidSyntax")),
        ({"Operations": [create("a", "1"), create("b", "1")]}, (400, "invalidValue")),
        ({"Operations": [create("a", "1")], "failOnErrors": 0}, (400, "invalidValue")),
        ({"Operations": [create("a", str(number)) for number in range(101)]}, (413, None)),
    ],
)
async def test_malformed_bulk_request_runs_nothing(client: ScimClient, body: Document, expected: Any) -> None:
    assert await client.refused("POST", "/Bulk", body) == expected
    assert (await client.ask("GET", "/Users"))["totalResults"] == 0
