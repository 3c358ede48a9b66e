"""Unpaged lists: complete whatever their length, and recognizably cut off on failure."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
import structlog

from identity.ids import new_id
from identity.web import response
from tests import internals, plain_http
from tests.conftest import SUPER_KEY

COUNT = 2 * response.LIST_PIECE + 7


@pytest.fixture
async def many(service, tenant, tenant_api):
    """More applications than one chunk holds, in a separate tenant; the newest has the lowest number."""
    made = (await tenant_api.post("/api/application", json={"application": {"name": "x"}})).json()["application"]
    await tenant_api.delete(f"/api/application/{made['id']}?hardDelete=true")
    rows = [
        {
            **made,
            "id": new_id(),
            "name": f"{n}",
            "active": n % 2 == 0,
            "insertInstant": 10_000 - n,
            "oauthConfiguration": {**made["oauthConfiguration"], "clientId": new_id()},
        }
        for n in range(2 * COUNT)
    ]
    await asyncio.gather(*(internals.store(service, "applications").insert(tenant["id"], row) for row in rows))
    return rows


@pytest.mark.requirement("core-12-11")
@pytest.mark.parametrize(("query", "first"), [("", 0), ("?inactive=true", 1)])
async def test_long_list_is_complete_and_in_order(tenant_api, many, query, first) -> None:
    answer = await tenant_api.get(f"/api/application{query}")
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Transfer-Encoding"] == "chunked"
    found = answer.json()
    assert found.keys() == {"applications"}
    assert [one["name"] for one in found["applications"]] == [f"{n}" for n in range(first, 2 * COUNT, 2)]
    assert {one["id"] for one in found["applications"]} == {
        row["id"] for row in many if row["active"] is not bool(first)
    }


async def test_list_of_exactly_one_chunk_is_complete(service, tenant_api, many, tenant) -> None:
    surplus = [row["id"] for row in many if row["active"]][response.LIST_PIECE :]
    await internals.store(service, "applications").delete_all(tenant["id"], {"_id": {"$in": surplus}})
    assert len((await tenant_api.get("/api/application")).json()["applications"]) == response.LIST_PIECE


async def test_short_list_is_not_streamed(tenant_api) -> None:
    answer = await tenant_api.get("/api/application")
    assert answer.json() == {"applications": []}
    assert answer.headers["Content-Length"] == str(len(answer.content))


@pytest.mark.requirement("core-12-11")
async def test_interrupted_list_is_recognizably_incomplete(service, tenant, many, monkeypatch) -> None:
    shown, count = internals.schemas(service)["api/application.json"], 0
    show = type(shown).show

    def fails(self, document):
        nonlocal count
        count += 1
        if count > COUNT - 1:
            raise RuntimeError("out of order")
        return show(self, document)

    monkeypatch.setattr(type(shown), "show", fails)
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": tenant["id"]}
    with structlog.testing.capture_logs() as logs:
        async with plain_http.client(service.base_url) as client:
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get("/api/application", headers=headers)
    assert "response aborted" in {entry["event"] for entry in logs}


async def test_disconnecting_reader_causes_no_error(service, tenant, many, tenant_api) -> None:
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": tenant["id"]}
    with structlog.testing.capture_logs() as logs:
        async with (
            plain_http.client(service.base_url) as client,
            client.stream("GET", "/api/application", headers=headers) as answer,
        ):
            assert answer.status_code == 200
        whole = await tenant_api.get("/api/application")
    assert len(json.loads(whole.content)["applications"]) == COUNT
    await asyncio.sleep(0)
    assert not [entry for entry in logs if entry["log_level"] == "error"]
