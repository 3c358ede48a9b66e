"""Webhooks: how fast a backlog is delivered, and how long an event waits for its first attempt."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import AsyncIterator

import httpx
import orjson

from bench import pace
from bench.feeder import feeding, number_of
from bench.figures import Budget, Figure, Latency
from bench.objects import API
from bench.receiver import receiving
from bench.scenarios import Bench, Scenario
from identity.ids import new_id

_BACKLOG_PER_SECOND = 600
_ORDERED_PER_SECOND = 100
_OBJECTS = 20
_EVENTS_PER_SECOND = 200
_WEBHOOKS = 5
_PATIENCE_SECONDS = 30


async def _drained(bench: Bench) -> Figure:
    return await _drain(bench, _BACKLOG_PER_SECOND)


async def _drained_in_order(bench: Bench) -> Figure:
    return await _drain(bench, _ORDERED_PER_SECOND, _OBJECTS)


async def _drain(bench: Bench, per_second: int, objects: int = 0) -> Figure:
    """Deliveries per second of a backlog for one receiver, of those about so many objects in order."""
    count = round(per_second * bench.seconds)
    async with receiving() as receiver, webhooks(bench, receiver.url, 1) as webhook_ids:
        async with feeding(bench.instance) as feeder:
            await feeder.fill(webhook_ids, count, objects=objects)
        complete = await receiver.wait_for(count, _PATIENCE_SECONDS + bench.seconds)
        instants = receiver.instants
    if not complete:
        return Figure(0, "/s", fault=f"{len(instants)} of {count} deliveries arrived")
    return Figure((count - 1) / (instants[-1] - instants[0]), "/s")


async def _latency(bench: Bench) -> Figure:
    return await creation_rate(bench, _EVENTS_PER_SECOND)


async def creation_rate(bench: Bench, per_second: int) -> Figure:
    """From the moment at which a user is to be created to the arrival of the event at each of five webhooks."""
    count = round(per_second * bench.seconds)
    run = new_id()
    async with receiving() as receiver, webhooks(bench, receiver.url, _WEBHOOKS):
        began = time.perf_counter()
        faults = await pace.send(bench.urls, lambda number: _creation(run, number), count, per_second)
        complete = await receiver.wait_for(count * _WEBHOOKS, _PATIENCE_SECONDS)
        waited = [
            arrived - (began + number_of(body) / per_second)
            for arrived, body in zip(receiver.instants, receiver.bodies, strict=True)
        ]
    if faults or not complete:
        return Figure(0, "ms", fault=f"{len(waited)} of {count * _WEBHOOKS} events arrived {faults[:1]}")
    return Figure(1000 * statistics.median(waited), "ms", Latency.of(waited))


def _creation(run: str, number: int) -> bytes:
    """The request that creates a user; the password costs nothing, because it is not what is measured."""
    user = {
        "email": f"{number}@{run}.example.com",
        "password": "a password of the benchmarks",
        "encryptionScheme": "salted-hmac-sha256",
        "factor": 1,
    }
    return pace.post("/api/user", orjson.dumps({"user": user}), API)


@contextlib.asynccontextmanager
async def webhooks(
    bench: Bench, url: str, count: int, event: str = "user.create", read_timeout: int = 5000
) -> AsyncIterator[list[str]]:
    """Webhooks for an event, gone afterwards."""
    webhook = {
        "url": url,
        "global": True,
        "connectTimeout": 5000,
        "readTimeout": read_timeout,
        "eventsEnabled": {event: True},
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
    Scenario("deliveries", "webhook deliveries to one local receiver", _drained, Budget(at_least=1000)),
    Scenario("ordered", "the same, those about each of 20 objects in order", _drained_in_order, Budget(at_least=600)),
    Scenario(
        "intake", "event intake to first attempt, 200 events/s, 5 webhooks", _latency, Budget(p99_at_most_ms=1000)
    ),
)
