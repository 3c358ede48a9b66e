"""Entities: their client ids and secrets, their types and parents, and the index search."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from identity.domain.objects import index_search
from identity.ids import new_id, unbase64url
from identity.operations.entities import entities
from tests import internals
from tests.api.test_entity_types import bare, codes
from tests.api.test_entity_types import make as make_type
from tests.conftest import SUPER_KEY

Document = dict[str, Any]


@pytest.fixture
async def kind(api: httpx.AsyncClient) -> Document:
    """An entity type."""
    return await make_type(api, permissions=[{"name": "read", "isDefault": True}, {"name": "write"}])


async def make(api: httpx.AsyncClient, kind: Document, **members: Any) -> Document:
    body = {"entity": {"name": f"Entity {new_id()}", "type": {"id": kind["id"]}, **members}}
    answer = await api.post("/api/entity", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["entity"])


@pytest.mark.requirement("core-10-10", "core-10-11", "core-10-13", "core-10-15")
async def test_full_cycle(tenant_api, tenant, kind) -> None:
    entity_id = new_id()
    path = f"/api/entity/{entity_id}"
    wanted = {"name": " One ", "type": {"id": kind["id"].upper(), "name": "ignored"}, "tenantId": new_id()}
    made = (await tenant_api.post(path, json={"entity": wanted})).json()["entity"]
    assert bare(made) == {
        "id": entity_id,
        "tenantId": tenant["id"],
        "name": "One",
        "type": kind,
        "clientId": entity_id,
        "clientSecret": made["clientSecret"],
        "data": {},
    }
    assert len(unbase64url(made["clientSecret"])) == 32
    assert (await tenant_api.get(path)).json() == {"entity": made}
    body = {"entity": {"name": "Two", "type": {"id": kind["id"]}, "clientSecret": " ", "data": {"a": {"$b": 1}}}}
    changed = (await tenant_api.put(path, json=body)).json()["entity"]
    assert changed["clientSecret"] == made["clientSecret"]
    assert (changed["name"], changed["data"], changed["type"]) == ("Two", {"a": {"$b": 1}}, kind)
    patch = {"entity": {"clientSecret": "chosen by the caller", "clientId": "thermostat"}}
    patched = (await tenant_api.patch(path, json=patch)).json()["entity"]
    assert (patched["clientSecret"], patched["clientId"]) == ("chosen by the caller", "thermostat")
    assert patched["data"] == changed["data"]
    operations = [{"op": "replace", "path": "/entity/name", "value": "Three"}]
    headers = {"Content-Type": "application/json-patch+json"}
    third = (await tenant_api.patch(path, json=operations, headers=headers)).json()["entity"]
    assert (third["name"], third["type"], third["clientId"]) == ("Three", kind, "thermostat")
    back = (await tenant_api.put(path, json=body)).json()["entity"]
    assert (back["clientId"], back["clientSecret"]) == (entity_id, "chosen by the caller")
    assert (await tenant_api.delete(path)).content == b""
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        assert (await tenant_api.request(method, path, json=body)).status_code == 404


@pytest.mark.requirement("core-10-13")
async def test_client_secret_is_sealed_at_rest(service, tenant_api, kind) -> None:
    made = await make(tenant_api, kind)
    stored = await internals.database(service).collection("entities").find_one({"_id": made["id"]})
    assert made["clientSecret"] not in str(stored)


@pytest.mark.requirement("core-10-10", "core-10-31")
async def test_all_errors_of_object_are_reported_together(tenant_api) -> None:
    assert codes(await tenant_api.post("/api/entity", json={})) == {"[missing]entity"}
    found = codes(await tenant_api.post("/api/entity", json={"entity": {}}))
    assert found == {"[blank]entity.name", "[missing]entity.type.id"}
    wanted = {"name": "  ", "type": {"id": new_id()}, "parentId": new_id(), "data": 5}
    assert codes(await tenant_api.post("/api/entity", json={"entity": wanted})) == {
        "[blank]entity.name",
        "[invalid]entity.type.id",
        "[invalid]entity.parentId",
        "[invalidJSON]",
    }
    wanted = {"name": "x", "type": {"id": "x"}, "parentId": "x", "clientId": "c" * 192}
    assert codes(await tenant_api.post("/api/entity", json={"entity": wanted})) == {
        "[couldNotConvert]entity.type.id",
        "[couldNotConvert]entity.parentId",
        "[tooLong]entity.clientId",
    }
    for method in ("PUT", "PATCH", "DELETE"):
        assert codes(await tenant_api.request(method, "/api/entity", json={})) == {"[missing]entityId"}
    assert (await tenant_api.get("/api/entity")).status_code == 405


@pytest.mark.requirement("core-10-16")
async def test_creation_requires_tenant_and_use_does_not(service, tenant_api, kind) -> None:
    made = await make(tenant_api, kind)
    del tenant_api.headers["X-FusionAuth-TenantId"]
    body = {"entity": {"name": "x", "type": {"id": kind["id"]}}}
    assert codes(await tenant_api.post("/api/entity", json=body)) == {"[TenantIdRequired]"}
    path = f"/api/entity/{made['id']}"
    assert (await tenant_api.get(path)).json()["entity"] == made
    assert (await tenant_api.put(path, json=body)).json()["entity"]["name"] == "x"
    assert (await tenant_api.delete(path)).status_code == 200


@pytest.mark.requirement("core-10-12")
async def test_client_id_is_globally_unique(api, tenant_api, kind) -> None:
    client_id = f"client {new_id()}"
    made = await make(api, kind, clientId=client_id)
    for client in (api, tenant_api):
        body = {"entity": {"name": "x", "type": {"id": kind["id"]}, "clientId": client_id}}
        assert codes(await client.post("/api/entity", json=body)) == {"[duplicate]entity.clientId"}
    other = await make(tenant_api, kind)
    patch = {"entity": {"clientId": client_id}}
    refused = await tenant_api.patch(f"/api/entity/{other['id']}", json=patch)
    assert codes(refused) == {"[duplicate]entity.clientId"}
    again = {"entity": {"name": "x", "type": {"id": kind["id"]}, "clientId": new_id()}}
    assert codes(await api.post(f"/api/entity/{made['id']}", json=again)) == {"[duplicate]entityId"}


@pytest.mark.requirement("core-10-12")
async def test_of_concurrent_claims_of_client_id_one_succeeds(api, kind) -> None:
    body = {"entity": {"name": "x", "type": {"id": kind["id"]}, "clientId": new_id()}}
    answers = await asyncio.gather(*(api.post("/api/entity", json=body) for _ in range(12)))
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 11


@pytest.mark.requirement("core-10-12")
async def test_client_id_cannot_be_that_of_application(api, tenant_api, kind) -> None:
    application = (await api.post("/api/application", json={"application": {"name": new_id()}})).json()["application"]
    refused = {"[duplicate]entity.clientId"}
    for client_id in (application["id"], application["id"].upper()):
        body = {"entity": {"name": "x", "type": {"id": kind["id"]}, "clientId": client_id}}
        assert codes(await tenant_api.post("/api/entity", json=body)) == refused
    body = {"entity": {"name": "x", "type": {"id": kind["id"]}}}
    assert codes(await tenant_api.post(f"/api/entity/{application['id']}", json=body)) == refused
    entity = await make(tenant_api, kind, clientId=new_id().upper())
    assert entity["clientId"] == entity["clientId"].lower()
    other = {"application": {"name": new_id()}}
    for taken in (entity["clientId"], entity["id"]):
        assert codes(await api.post(f"/api/application/{taken}", json=other)) == {"[duplicate]applicationId"}
    body = {"entity": {"name": "x", "type": {"id": kind["id"]}, "clientId": new_id()}}
    assert codes(await tenant_api.post(f"/api/entity/{application['id']}", json=body)) == {"[duplicate]entityId"}


@pytest.mark.requirement("core-10-12")
async def test_of_concurrent_application_and_entity_with_one_client_id_one_is_created(api, kind) -> None:
    entity = await make(api, kind)
    for way in ("id", "clientId", "renamed"):
        wanted = [new_id() for _ in range(4)]

        def made(client_id: str, way: str = way) -> Any:
            if way == "renamed":
                return api.patch(f"/api/entity/{entity['id']}", json={"entity": {"clientId": client_id}})
            own = {"name": "x", "type": {"id": kind["id"]}, **({"clientId": client_id} if way == "clientId" else {})}
            path = f"/api/entity/{client_id}" if way == "id" else "/api/entity"
            return api.post(path, json={"entity": own})

        for client_id in wanted:
            application = api.post(f"/api/application/{client_id}", json={"application": {"name": new_id()}})
            both = await asyncio.gather(made(client_id), application)
            assert sorted(answer.status_code for answer in both) == [200, 400]
            refused = next(answer for answer in both if answer.status_code == 400)
            assert codes(refused) in ({"[duplicate]entity.clientId"}, {"[duplicate]applicationId"})


@pytest.mark.requirement("core-10-14")
async def test_parent_must_be_other_entity_of_tenant(api, tenant_api, kind) -> None:
    top = await make(tenant_api, kind)
    middle = await make(tenant_api, kind, parentId=top["id"])
    below = await make(tenant_api, kind, parentId=middle["id"])
    foreign = await make(api, kind)
    assert middle["parentId"] == top["id"]
    for parent in (top, middle, below, foreign):
        refused = await tenant_api.patch(f"/api/entity/{top['id']}", json={"entity": {"parentId": parent["id"]}})
        assert codes(refused) == {"[invalid]entity.parentId"}
    assert codes(await tenant_api.delete(f"/api/entity/{top['id']}")) == {"[inUse]entityId"}
    moved = await tenant_api.patch(f"/api/entity/{below['id']}", json={"entity": {"parentId": top["id"]}})
    assert moved.json()["entity"]["parentId"] == top["id"]
    for entity in (middle, below, top):
        assert (await tenant_api.delete(f"/api/entity/{entity['id']}")).status_code == 200


async def test_depth_of_hierarchy_is_limited(tenant_api, kind, monkeypatch) -> None:
    monkeypatch.setattr(entities, "_MAXIMUM_DEPTH", 2)
    top = await make(tenant_api, kind)
    middle = await make(tenant_api, kind, parentId=top["id"])
    below = await make(tenant_api, kind, parentId=middle["id"])
    body = {"entity": {"name": "x", "type": {"id": kind["id"]}, "parentId": below["id"]}}
    assert codes(await tenant_api.post("/api/entity", json=body)) == {"[invalid]entity.parentId"}


@pytest.mark.requirement("core-10-29")
async def test_deleting_a_tenant_removes_its_entities_and_their_grants(service, api, tenant_api, tenant, kind) -> None:
    one, two = await make(tenant_api, kind), await make(tenant_api, kind)
    path = f"/api/entity/{one['id']}/grant"
    granted = await tenant_api.post(path, json={"grant": {"recipientEntityId": two["id"]}})
    assert granted.status_code == 200
    assert (await api.delete(f"/api/tenant/{tenant['id']}")).status_code == 200
    assert await internals.store(service, "entities").count_across_tenants({"tenantId": tenant["id"]}) == 0
    assert await internals.store(service, "entity_grants").count_across_tenants({"tenantId": tenant["id"]}) == 0
    assert (await api.delete(f"/api/entity/type/{kind['id']}")).status_code == 200


# Search


async def search(api: httpx.AsyncClient, **criteria: Any) -> Document:
    answer = await api.post("/api/entity/search", json={"search": criteria})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.mark.requirement("core-10-17")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("*", {"Ann", "Bob", "Bobby"}),
        ("ANN", {"Ann"}),
        ("bob", {"Bob"}),
        ("bob*", {"Bob", "Bobby"}),
        ("*by", {"Bobby"}),
        ("name:*o*", {"Bob", "Bobby"}),
        ("clientId:{mark}-ANN", {"Ann"}),
        ("{mark}-ann", {"Ann"}),
        ("name:{mark}-ann", set()),
        ("typeId:{type}", {"Ann", "Bob", "Bobby"}),
        ("type.id:{unknown}", set()),
        ("parentId:{parent}", {"Bob", "Bobby"}),
        ("id:{parent}", {"Ann"}),
        ("b.b", set()),
    ],
)
async def test_term_matches_whole_values(tenant_api, kind, query, expected) -> None:
    mark = new_id()
    ann = await make(tenant_api, kind, name="Ann", clientId=f"{mark}-ann")
    for name in ("Bob", "Bobby"):
        await make(tenant_api, kind, name=name, parentId=ann["id"])
    text = query.format(mark=mark, type=kind["id"], parent=ann["id"], unknown=new_id())
    found = await search(tenant_api, queryString=text)
    assert {entity["name"] for entity in found["entities"]} == expected
    assert found["total"] == len(expected)
    assert "nextResults" not in found
    assert all(entity["type"] == kind and entity["clientSecret"] for entity in found["entities"])


@pytest.mark.requirement("core-10-17")
async def test_search_by_ids_wins_and_ignores_unknown_ones(api, tenant_api, kind) -> None:
    one, two, foreign = await make(tenant_api, kind), await make(tenant_api, kind), await make(api, kind)
    ids = [two["id"], new_id(), foreign["id"], one["id"]]
    found = await search(tenant_api, ids=ids, queryString="nothing like it", startRow=5)
    assert {entity["id"] for entity in found["entities"]} == {one["id"], two["id"]}
    assert found["total"] == 2
    by_query = (await tenant_api.get("/api/entity/search", params={"ids": ids})).json()
    assert by_query == found
    del tenant_api.headers["X-FusionAuth-TenantId"]
    assert (await search(tenant_api, ids=ids))["total"] == 3


@pytest.mark.requirement("core-10-19")
@pytest.mark.parametrize("field", ["clientId", "id", "insertInstant", "lastUpdateInstant", "name"])
async def test_every_sortable_field_sorts_in_both_directions(tenant_api, kind, clock, field) -> None:
    made = []
    for letter in "bca":
        made.append(await make(tenant_api, kind, name=letter, clientId=f"{letter} {new_id()}"))
        clock.advance(seconds=1)
    for order, reverse in (("asc", False), ("desc", True)):
        found = await search(tenant_api, sortFields=[{"name": field, "order": order}])
        expected = sorted(made, key=lambda entity: str(entity[field]), reverse=reverse)
        assert [entity["id"] for entity in found["entities"]] == [entity["id"] for entity in expected]


@pytest.mark.requirement("core-10-19", "core-12-6")
async def test_sorting_by_parent_honors_missing_option(tenant_api, kind) -> None:
    tops = sorted([await make(tenant_api, kind, name="top") for _ in range(2)], key=lambda top: top["id"])
    for top, name in zip(tops, ("first", "second"), strict=True):
        await make(tenant_api, kind, name=name, parentId=top["id"])

    async def names(start: int = 0, size: int = 25, **field: str) -> list[str]:
        sort = [{"name": "parentId", **field}]
        found = await search(tenant_api, sortFields=sort, startRow=start, numberOfResults=size)
        assert found["total"] == 4
        return [entity["name"] for entity in found["entities"]]

    assert await names() == ["first", "second", "top", "top"]
    assert await names(order="desc") == ["second", "first", "top", "top"]
    assert await names(missing="_first") == ["top", "top", "first", "second"]
    assert await names(missing="_first", order="desc") == ["top", "top", "second", "first"]
    assert await names(1, 2) == ["second", "top"]
    assert await names(3, 2) == ["top"]
    assert await names(1, 2, missing="_first") == ["top", "first"]
    assert await names(9) == []
    both = [{"name": "typeId"}, {"name": "parentId", "missing": "_first"}, {"name": "tenantId"}, {"name": "name"}]
    found = await search(tenant_api, sortFields=both)
    assert [entity["name"] for entity in found["entities"]] == ["top", "top", "first", "second"]


@pytest.mark.requirement("core-10-17", "core-12-6")
async def test_query_parameters_sort_and_next_results_token_pages(tenant_api, kind) -> None:
    for letter in "cab":
        await make(tenant_api, kind, name=letter)
    query = {
        "sortFields[0].name": "name",
        "sortFields[0].order": "desc",
        "numberOfResults": "true",
        "startRow": "false",
    }
    seen = []
    while True:
        found = (await tenant_api.get("/api/entity/search", params=query)).json()
        seen += [entity["name"] for entity in found["entities"]]
        assert found["total"] == 3
        if "nextResults" not in found:
            break
        query = {"nextResults": found["nextResults"]}
    assert seen == ["c", "b", "a"]


async def test_of_concurrent_deletions_one_succeeds(tenant_api, kind, service, monkeypatch) -> None:
    """Only one event is emitted."""
    made, found = await make(tenant_api, kind), []
    commit = service.services.bus.commit

    async def listening(call: Any, change: Any, **others: Any) -> Any:
        done = await commit(call, change, **others)
        found.extend(event.type for event in change.after_commit if event.type.startswith("entity."))
        return done

    monkeypatch.setattr(service.services.bus, "commit", listening)
    answers = await asyncio.gather(*(tenant_api.delete(f"/api/entity/{made['id']}") for _ in range(64)))
    assert sorted(answer.status_code for answer in answers) == [200, *[404] * 63]
    assert found == ["entity.delete.complete"]


async def test_null_criteria_are_ignored(tenant_api, kind) -> None:
    made = await make(tenant_api, kind)
    names = ("accurateTotal", "ids", "nextResults", "numberOfResults", "query", "queryString", "sortFields", "startRow")
    found = await search(tenant_api, **dict.fromkeys(names))
    assert [entity["id"] for entity in found["entities"]] == [made["id"]]


@pytest.mark.requirement("core-10-18")
async def test_malformed_searches_are_refused(tenant_api) -> None:
    wrong = {"queryString": "salary:5", "sortFields": [{"name": "data"}], "startRow": "x"}
    answer = await tenant_api.post("/api/entity/search", json={"search": wrong})
    assert codes(answer) == {
        "[invalid]search.queryString",
        "[invalid]search.sortFields[0]",
        "[invalid]search.startRow",
    }
    assert codes(await tenant_api.post("/api/entity/search", json={"search": []})) == {"[invalidJSON]"}
    assert codes(await tenant_api.get("/api/entity/search", params={"ids": "x"})) == {"[couldNotConvert]ids"}


@pytest.mark.requirement("core-10-20", "core-12-8")
async def test_flush_returns_immediately(tenant_api, kind) -> None:
    made = await make(tenant_api, kind)
    answer = await tenant_api.put("/api/entity/search")
    assert (answer.status_code, answer.content) == (200, b"")
    assert (await search(tenant_api, ids=[made["id"]]))["total"] == 1


@pytest.mark.requirement("core-10-17", "core-12-7")
async def test_totals_are_capped_unless_accurate_total_is_requested(tenant_api, kind, monkeypatch) -> None:
    monkeypatch.setattr(index_search, "COUNT_LIMIT", 3)
    for letter in "abcde":
        await make(tenant_api, kind, name=letter)
    criteria, seen, totals = {"sortFields": [{"name": "name"}], "numberOfResults": 2}, [], []
    assert (await search(tenant_api, **criteria, accurateTotal=True))["total"] == 5
    while criteria:
        found = await search(tenant_api, **criteria)
        seen.append("".join(entity["name"] for entity in found["entities"]))
        totals.append(found["total"])
        criteria = {"nextResults": found["nextResults"]} if "nextResults" in found else {}
    assert (seen, totals) == (["ab", "cd", "e"], [3, 3, 3])


@pytest.mark.requirement("core-10-16")
async def test_tenant_key_sees_only_its_entities(service, manager, tenant_api, tenant, api, kind) -> None:
    mine, foreign = await make(tenant_api, kind), await make(api, kind)
    key = (await manager.post("/api/api-key", json={"apiKey": {"tenantId": tenant["id"]}})).json()["apiKey"]
    tenant_api.headers["Authorization"] = key["key"]
    del tenant_api.headers["X-FusionAuth-TenantId"]
    found = await search(tenant_api)
    assert [entity["id"] for entity in found["entities"]] == [mine["id"]]
    assert (await tenant_api.get(f"/api/entity/{foreign['id']}")).status_code == 404
    assert (await tenant_api.get("/api/entity/type")).status_code == 401
    tenant_api.headers["Authorization"] = SUPER_KEY


async def test_concurrent_updates_cannot_create_parent_cycle(tenant_api) -> None:
    entity_type = await tenant_api.post("/api/entity/type", json={"entityType": {"name": new_id()}})
    type_id = entity_type.json()["entityType"]["id"]
    for _ in range(5):
        ids = []
        for _ in range(3):
            wanted = {"name": new_id(), "type": {"id": type_id}}
            ids.append((await tenant_api.post("/api/entity", json={"entity": wanted})).json()["entity"]["id"])
        answers = await asyncio.gather(
            *(
                tenant_api.patch(f"/api/entity/{child}", json={"entity": {"parentId": parent}})
                for child, parent in zip(ids, [*ids[1:], ids[0]], strict=True)
            )
        )
        assert sorted(answer.status_code for answer in answers) == [200, 200, 400]
        (late,) = (answer for answer in answers if answer.status_code == 400)
        assert late.json()["fieldErrors"].keys() == {"entity.parentId"}
