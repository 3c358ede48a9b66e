"""Inserts events into the outbox directly, as another process of the service would."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence

import orjson

from bench.instance import DATABASE, TENANT_ID, Instance
from identity.ids import EventId, TenantId, WebhookId, new_id
from identity.instants import Instant, SystemClock, later
from identity.store.mongo import BULK_SECONDS, Database
from identity.store.outbox import Outbox
from identity.store.outbox_rows import EventRow, NewDelivery
from identity.store.redis import Redis
from identity.store.store_circuit_breaker import time_limit
from identity.store.vault import Vault
from identity.store.wakeups import Wakeups

_RETENTION_SECONDS = 3600
_CHUNK = 2000
_TICK_SECONDS = 0.02
_FILLING = "x" * 800
_NO_RUN = "any"


class Feeder:
    """Writes events, each with a delivery to some webhooks, and wakes the workers."""

    def __init__(self, database: Database, wakeups: Wakeups) -> None:
        self._deliveries = database.collection("deliveries")
        self._outbox = Outbox(database, Vault({"bench": bytes(32)}), schedule_seconds=_RETENTION_SECONDS)
        self._wakeups = wakeups
        self._tenant_id = TenantId(TENANT_ID)
        self._objects: list[str] = []

    async def fill(self, webhook_ids: Sequence[str], count: int, late_seconds: float = 0, objects: int = 0) -> None:
        """Insert many overdue events at once; with `objects`, ordered events about this many objects."""
        when = later(SystemClock().now(), seconds=-late_seconds)
        self._objects = [new_id() for _ in range(objects)]
        for first in range(0, count, _CHUNK):
            with time_limit(BULK_SECONDS):
                await self._write(webhook_ids, range(first, min(first + _CHUNK, count)), when)
        self._wakeups.notify()

    async def at_pace(
        self, webhook_ids: Sequence[str], per_second: float, seconds: float, run: str = _NO_RUN
    ) -> list[float]:
        """Insert events at a fixed rate; returns the scheduled instants (seconds of time.perf_counter).

        `run` is in their bodies, to distinguish these events from others.
        """
        began = time.perf_counter()
        due = [began + number / per_second for number in range(round(per_second * seconds))]
        written = 0
        while written < len(due):
            now = time.perf_counter()
            until = next((at for at in range(written, len(due)) if due[at] > now), len(due))
            if until > written:
                await self._write(webhook_ids, range(written, until), SystemClock().now(), run)
                self._wakeups.notify()
            written = until
            await asyncio.sleep(_TICK_SECONDS)
        return due

    async def drop(self, webhook_id: str) -> None:
        """Delete all deliveries to a webhook."""
        with time_limit(BULK_SECONDS):
            await self._deliveries.delete_many({"webhookId": webhook_id})

    async def _write(self, webhook_ids: Sequence[str], numbers: range, now: Instant, run: str = _NO_RUN) -> None:
        is_ordered = bool(self._objects)
        deliveries = [NewDelivery(WebhookId(one), now, is_ordered=is_ordered) for one in webhook_ids]
        rows = [(self._row(number, run, now), deliveries) for number in numbers]
        await self._outbox.record(None, rows, await self._outbox.reserve_sequence(len(rows)))

    def _row(self, number: int, run: str, now: Instant) -> EventRow:
        user = {"id": new_id(), "email": f"{number}@{run}.example.com", "data": {"filling": _FILLING}}
        event = {"type": "user.create", "tenantId": self._tenant_id, "createInstant": now, "user": user}
        body = orjson.dumps({"event": event})
        about = self._objects[number % len(self._objects)] if self._objects else None
        return EventRow(EventId(new_id()), "user.create", self._tenant_id, about, body, now)


def number_of(body: bytes) -> int:
    """The number of an event, from the email of the user in its body."""
    return int(orjson.loads(body)["event"]["user"]["email"].partition("@")[0])


@contextlib.asynccontextmanager
async def feeding(instance: Instance) -> AsyncIterator[Feeder]:
    """A feeder of this instance."""
    database, redis = Database(instance.mongodb_uri, DATABASE), Redis(instance.redis_url, DATABASE)
    wakeups = Wakeups(redis)
    await wakeups.start()
    try:
        yield Feeder(database, wakeups)
    finally:
        await wakeups.stop()
        await redis.close()
        database.close()
