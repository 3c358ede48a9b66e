"""Writing the event log: ids, the event, and isolation of failures."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
import structlog.testing
from redis.exceptions import ConnectionError as RedisConnectionError

from identity import app
from identity.call import AnonymousCaller, Call, Origin
from identity.ids import new_id
from identity.operations.objects import event_logs
from tests import internals
from tests.receiver import receiving, until


def call_of(service: app.Service) -> Call:
    origin = Origin("127.0.0.1", "", "", service.base_url)
    return Call(None, AnonymousCaller(), internals.now(service), origin)


async def rows(service: app.Service, marker: str) -> list[dict[str, Any]]:
    found = internals.database(service).collection("event_logs").find({"message": {"$regex": marker}}).sort("_id", 1)
    return [dict(row) async for row in found]


async def test_row_has_number_instant_type_and_message(service: app.Service) -> None:
    marker = new_id()
    call = call_of(service)
    await internals.run(service, event_logs.record, call, "Debug", f"{marker} one")
    await internals.run(service, event_logs.record, call, "Error", f"{marker} two")
    first, second = await rows(service, marker)
    assert first == {"_id": first["_id"], "insertInstant": call.now, "message": f"{marker} one", "type": "Debug"}
    assert second["_id"] > first["_id"] > 0
    assert second["type"] == "Error"


@pytest.mark.requirement("core-15-17")
async def test_racing_writers_never_share_a_number(service: app.Service) -> None:
    marker = new_id()
    call = call_of(service)
    await asyncio.gather(
        *(internals.run(service, event_logs.record, call, "Information", f"{marker} {n}") for n in range(64))
    )
    numbers = [row["_id"] for row in await rows(service, marker)]
    assert len(set(numbers)) == len(numbers) == 64


async def test_overlong_message_is_truncated(service: app.Service) -> None:
    marker = new_id()
    await internals.run(service, event_logs.record, call_of(service), "Debug", marker + "x" * 100_000)
    (row,) = await rows(service, marker)
    assert len(row["message"]) == 65_536


async def test_unstorable_characters_are_replaced(service: app.Service) -> None:
    marker = new_id()
    await internals.run(service, event_logs.record, call_of(service), "Debug", f"{marker} \ud83d é\x00")
    (row,) = await rows(service, marker)
    assert row["message"] == f"{marker} ? é\x00"


@pytest.mark.requirement("core-15-19")
async def test_rows_are_sent_to_subscribed_webhooks(service: app.Service, api: httpx.AsyncClient) -> None:
    marker = new_id()
    async with receiving() as receiver:
        wanted = {
            "url": receiver.url,
            "connectTimeout": 1000,
            "readTimeout": 1000,
            "global": True,
            "eventsEnabled": {"event-log.create": True},
        }
        made = (await api.post("/api/webhook", json={"webhook": wanted})).json()["webhook"]
        try:
            await internals.run(service, event_logs.record, call_of(service), "Error", f"{marker} failed")
            await until(lambda: any(marker in request.body.decode() for request in receiver.requests))
        finally:
            await api.delete(f"/api/webhook/{made['id']}")
    (event,) = [request.event for request in receiver.requests if marker in request.body.decode()]
    (row,) = await rows(service, marker)
    assert event.keys() == {"createInstant", "eventLog", "id", "type"}
    assert event["type"] == "event-log.create"
    assert event["eventLog"] == {
        "id": row["_id"],
        "insertInstant": row["insertInstant"],
        "message": f"{marker} failed",
        "type": "Error",
    }


@pytest.mark.requirement("core-15-18")
async def test_failed_insert_is_logged_without_an_error(service: app.Service, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> int:
        raise RuntimeError("no numbers")

    monkeypatch.setattr(internals.store(service, "event_logs"), "next_id", broken)
    with structlog.testing.capture_logs() as logs:
        await internals.run(service, event_logs.record, call_of(service), "Error", "a message")
    (entry,) = [log for log in logs if log["event"] == "event log not written"]
    assert entry["text"] == "a message"
    assert entry["error"] == "RuntimeError"


@pytest.mark.requirement("core-15-23")
async def test_caller_triggered_rows_are_throttled(service: app.Service) -> None:
    marker, other = new_id(), new_id()
    call, tenant_id = call_of(service), internals.store(service, "default_tenant_id")
    for _ in range(62):
        await internals.run(service, event_logs.debug, call, tenant_id, marker, marker)
    await internals.run(service, event_logs.debug, call, tenant_id, other, other)
    assert len(await rows(service, marker)) == 60
    assert [row["type"] for row in await rows(service, other)] == ["Debug"]


async def test_debug_rows_are_dropped_while_redis_is_unavailable(
    service: app.Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise RedisConnectionError("gone")

    marker = new_id()
    monkeypatch.setattr(internals.store(service, "rate_limits"), "consume", away)
    await internals.run(
        service, event_logs.debug, call_of(service), internals.store(service, "default_tenant_id"), marker, marker
    )
    assert await rows(service, marker) == []
