"""Webhooks: how fast a backlog is delivered, and how long an event waits for its first attempt."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import AsyncIterator

import httpx
import orjson

from bench import pace
from bench.figures import Figure
from bench.instance import DATABASE, TENANT_ID
from bench.objects import API
from bench.receiver import Receiver, receiving
from bench.scenarios import Bench, Scenario
from identity.ids import EventId, TenantId, WebhookId, new_id
from identity.instants import Instant, SystemClock
from identity.store.mongo import Database
from identity.store.outbox import EventRow, NewDelivery, Outbox
from identity.store.vault import Vault

_BACKLOG_PER_SECOND = 600
_EVENTS_PER_SECOND = 200
_WEBHOOKS = 5
_PATIENCE_SECONDS = 30
_RETENTION_SECONDS = 3600


async def _drained(bench: Bench) -> Figure:
    """Deliveries per second of a backlog for one receiver."""
    count = round(_BACKLOG_PER_SECOND * bench.seconds)
    async with receiving() as receiver, _webhooks(bench, receiver, 1) as webhook_ids:
        await _fill(bench, WebhookId(webhook_ids[0]), count)
        complete = await receiver.wait_for(count, _PATIENCE_SECONDS + bench.seconds)
        instants = receiver.instants
    if not complete:
        return Figure(0, "/s", fault=f"{len(instants)} of {count} deliveries arrived")
    return Figure((count - 1) / (instants[-1] - instants[0]), "/s")


async def _fill(bench: Bench, webhook_id: WebhookId, count: int) -> None:
    """Write deliveries as a commit would have left them."""
    database = Database(bench.instance.mongodb_uri, DATABASE)
    now, tenant_id = SystemClock().now(), TenantId(TENANT_ID)
    user = {"id": new_id(), "email": "user@example.com", "data": {"filling": "x" * 800}}
    body = orjson.dumps({"event": {"type": "user.create", "tenantId": tenant_id, "createInstant": now, "user": user}})
    outbox = Outbox(database, Vault({"bench": bytes(32)}), schedule_seconds=_RETENTION_SECONDS)
    try:
        rows = [(_row(now, tenant_id, body), [NewDelivery(webhook_id, now)]) for _ in range(count)]
        await outbox.record(None, rows, await outbox.reserve_sequence(count))
    finally:
        database.close()


def _row(now: Instant, tenant_id: TenantId, body: bytes) -> EventRow:
    return EventRow(EventId(new_id()), "user.create", tenant_id, None, body, now)


async def _latency(bench: Bench) -> Figure:
    """From the moment at which a user is to be created to the arrival of the event at each webhook."""
    count = round(_EVENTS_PER_SECOND * bench.seconds)
    run = new_id()
    async with receiving() as receiver, _webhooks(bench, receiver, _WEBHOOKS):
        began = time.perf_counter()
        faults = await pace.send(bench.urls, lambda number: _creation(run, number), count, _EVENTS_PER_SECOND)
        complete = await receiver.wait_for(count * _WEBHOOKS, _PATIENCE_SECONDS)
        waited = [
            arrived - (began + _number(body) / _EVENTS_PER_SECOND)
            for arrived, body in zip(receiver.instants, receiver.bodies, strict=True)
        ]
    if faults or not complete:
        return Figure(0, "ms", fault=f"{len(waited)} of {count * _WEBHOOKS} events arrived {faults[:1]}")
    return Figure(1000 * statistics.median(waited), "ms", 1000 * statistics.quantiles(waited, n=100)[98])


def _creation(run: str, number: int) -> bytes:
    """The request that creates a user; the password costs nothing, because it is not what is measured."""
    user = {
        "email": f"{number}@{run}.example.com",
        "password": "a password of the benchmarks",
        "encryptionScheme": "salted-hmac-sha256",
        "factor": 1,
    }
    body = orjson.dumps({"user": user})
    headers = {"Host": "localhost", "Content-Type": "application/json", "Content-Length": str(len(body)), **API}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST /api/user HTTP/1.1\r\n{lines}\r\n".encode() + body


def _number(body: bytes) -> int:
    return int(orjson.loads(body)["event"]["user"]["email"].partition("@")[0])


@contextlib.asynccontextmanager
async def _webhooks(bench: Bench, receiver: Receiver, count: int) -> AsyncIterator[list[str]]:
    """Webhooks for user.create, gone afterwards."""
    webhook = {
        "url": receiver.url,
        "global": True,
        "connectTimeout": 5000,
        "readTimeout": 5000,
        "eventsEnabled": {"user.create": True},
    }
    async with httpx.AsyncClient(base_url=bench.urls[0], timeout=30, trust_env=False, headers=API) as http:
        made = [await http.post("/api/webhook", json={"webhook": webhook}) for _ in range(count)]
        webhook_ids = [answer.raise_for_status().json()["webhook"]["id"] for answer in made]
        try:
            yield webhook_ids
        finally:
            for webhook_id in webhook_ids:
                await http.delete(f"/api/webhook/{webhook_id}")


SCENARIOS = (
    Scenario("deliveries", "webhook deliveries to one local receiver", _drained, ">= 500/s"),
    Scenario("intake", "event intake to first attempt, 200 events/s, 5 webhooks", _latency, "p99 < 1 s"),
)
