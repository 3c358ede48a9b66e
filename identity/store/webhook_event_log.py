"""The webhook event log: reads the events, deliveries and attempts of the outbox, and requests deliveries again.

Methods take None as the tenant: webhooks, and therefore the log, belong to the instance.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import structlog
from pymongo import IndexModel

from identity.call import Document
from identity.errors import Duplicate, StartupError
from identity.ids import EventId, WebhookId
from identity.instants import Instant
from identity.store.delivery_selection import lane_of
from identity.store.event_bodies import PART_BYTES, EventBodies
from identity.store.mongo import BULK_SECONDS, Collection, Database, duplicates
from identity.store.outbox import MAX_STORED_ATTEMPTS
from identity.store.outbox_rows import delivery_id
from identity.store.store_circuit_breaker import time_limit
from identity.store.vault import Vault

_log = structlog.get_logger(__name__)

RedeliveryStatus = Literal["queued", "running", "unknown"]

MAX_PAGE_BYTES: Final = 32 * 2**20
"""The maximum total size of the bodies and responses on a page; a single event is always smaller."""
_TOO_LARGE: Final = "The event is too large for this page. Read it by its id, or ask for a smaller page."
_UNREADABLE: Final = "The event is sealed with a master key that is not there."

_IS_LOGGED = {"isHidden": {"$exists": False}}
"""Events raised while the event log was disabled are delivered, but not shown."""


@dataclasses.dataclass(frozen=True, slots=True)
class EventLogQuery:
    """A search of the log from `start` until before `end`; `event` is a regular expression for bodies."""

    start: Instant
    end: Instant
    event: str | None
    exact: Mapping[str, str]
    order: Sequence[tuple[str, int]]
    start_row: int
    number_of_results: int


class WebhookEventLog:
    """The collections `events` and `deliveries`, for the API and the console."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._bodies = EventBodies(database, vault)
        self._events: Collection = database.collection("events")
        self._deliveries: Collection = database.collection("deliveries")

    async def ensure_indexes(self) -> None:
        """Create missing indexes."""
        by_webhook = IndexModel([("webhookId", 1), ("state", 1), ("insertInstant", -1)], name="webhook")
        await self._deliveries.create_indexes([by_webhook])

    async def find(self, _tenant: None, event_id: str) -> Document | None:
        """An event with its body as text, and its deliveries."""
        found = await self._with_deliveries(self._events.find({"_id": event_id, **_IS_LOGGED}))
        return found[0] if found else None

    async def find_all(self, _tenant: None, where: Mapping[str, Any]) -> list[Document]:
        """All matching events in their order, in the form of `find`."""
        return await self._with_deliveries(self._events.find(where).sort("sequence", 1))

    async def find_by_attempt(self, _tenant: None, attempt_id: str) -> Document | None:
        """The delivery that contains an attempt."""
        return await self._deliveries.find_one({"attempts.id": attempt_id, **_IS_LOGGED})

    async def search(self, _tenant: None, query: EventLogQuery) -> tuple[int, list[Document]]:
        """The number of matching events, and one page of them in the form of `find`."""
        where: Document = {"insertInstant": {"$gte": query.start, "$lt": query.end}, **query.exact, **_IS_LOGGED}
        if query.event is not None:
            where |= {"body": {"$regex": query.event, "$options": "is"}, "isSealed": {"$ne": True}}
        with time_limit(BULK_SECONDS):
            total = await self._events.count_documents(where)
            if query.number_of_results == 0:
                return total, []
            cursor = self._events.find(where).sort(list(query.order))
            return total, await self._with_deliveries(cursor.skip(query.start_row).limit(query.number_of_results))

    async def dead_letters(
        self, _tenant: None, webhook_id: WebhookId, start_row: int, number_of_results: int
    ) -> tuple[int, list[Document]]:
        """The number of deliveries to a webhook that were given up, and a page of them, newest first."""
        where = {"webhookId": webhook_id, "state": "given up"}
        total = await self._deliveries.count_documents(where)
        cursor = self._deliveries.find(where).sort([("insertInstant", -1), ("_id", 1)])
        budget = _PageBudget(MAX_PAGE_BYTES)
        return total, [budget.shorten(row) async for row in cursor.skip(start_row).limit(number_of_results)]

    async def origin(self, _tenant: None, event_id: EventId) -> Document | None:
        """The `tenantId`, if any, of an event; None if the event is unknown or its change was vetoed."""
        return await self._events.find_one({"_id": event_id, "result": {"$ne": "Failed"}}, {"tenantId": 1})

    async def webhooks_of(self, _tenant: None, event_id: EventId) -> list[WebhookId]:
        """The webhooks to which an event was to be delivered."""
        return [WebhookId(row["webhookId"]) async for row in self._deliveries.find({"eventId": event_id})]

    async def has_succeeded(self, _tenant: None, webhook_id: WebhookId, since: Instant) -> bool:
        """Whether any delivery to a webhook since an instant, or a request for its approval, succeeded."""
        where = {"webhookId": webhook_id, "state": "succeeded", "insertInstant": {"$gte": since}}
        return await self._deliveries.find_one(where, {"_id": 1}) is not None

    async def redeliver(
        self, _tenant: None, event_id: EventId, webhook_id: WebhookId, now: Instant
    ) -> RedeliveryStatus:
        """Make a delivery due now, with its whole retry schedule; inserts it if the event had none for the webhook.

        Safe to repeat: a delivery that is due already is only brought forward, and a leased one is not changed.
        """
        event = await self._events.find_one({"_id": event_id, "result": {"$ne": "Failed"}}, {"body": 0})
        if event is None:
            return "unknown"
        own = {"_id": delivery_id(event_id, webhook_id)}
        if (await self._deliveries.update_one({**own, "state": {"$ne": "due"}}, _restart(now))).matched_count:
            return "queued"
        unleased = {**own, "state": "due", "lease": {"$exists": False}}
        if (await self._deliveries.update_one(unleased, {"$min": {"nextAttempt": now}})).matched_count:
            return "queued"
        if await self._deliveries.find_one(own, {"_id": 1}) is not None:
            return "running"
        copied = ("tenantId", "linkedObjectId", "expiresAt", "sequence", "isHidden", "insertInstant")
        row: Document = {**own, "eventId": event_id, "webhookId": webhook_id, "isManual": True}
        row |= {"state": "due", "attempts": [], "nextAttempt": now, "lane": lane_of(webhook_id, event.get("tenantId"))}
        with contextlib.suppress(Duplicate), duplicates():  # a concurrent request
            await self._deliveries.insert_one(row | {name: event[name] for name in copied if name in event})
        return "queued"

    async def recover(
        self,
        _tenant: None,
        webhook_id: WebhookId,
        start: Instant,
        end: Instant,
        now: Instant,
        tenant_ids: Sequence[str] | None = None,
    ) -> int:
        """Make all deliveries due that were given up, of events from `start` until before `end`; returns their number.

        With `tenant_ids`, only events of these tenants and of the instance.
        """
        where: Document = {"webhookId": webhook_id, "state": "given up", "insertInstant": {"$gte": start, "$lt": end}}
        if tenant_ids is not None:
            where["tenantId"] = {"$in": [*tenant_ids, None]}
        with time_limit(BULK_SECONDS):
            return int((await self._deliveries.update_many(where, _restart(now))).modified_count)

    async def _with_deliveries(self, cursor: Any) -> list[Document]:
        budget = _PageBudget(MAX_PAGE_BYTES)
        opened = [await self._with_body(row, budget) async for row in cursor]
        # The parts of a body may expire before its event.
        events: dict[str, Document] = {row["_id"]: {**row, "deliveries": []} for row in opened if row["body"] != ""}
        async for row in self._deliveries.find({"eventId": {"$in": list(events)}}).sort("webhookId", 1):
            events[row["eventId"]]["deliveries"].append(budget.shorten(row))
        return list(events.values())

    async def _with_body(self, row: Document, budget: _PageBudget) -> Document:
        """The event with its body, or with None and the reason in `leftOut`."""
        if not budget.take(row["parts"] * PART_BYTES if "parts" in row else len(row["body"])):
            return {**row, "body": None, "leftOut": _TOO_LARGE}
        try:
            return {**row, "body": (await self._bodies.read(row)).decode()}
        except StartupError as error:
            # The other events of the page remain readable.
            _log.error("an event cannot be shown as it cannot be read", event_id=row["_id"], error=str(error))
            return {**row, "body": None, "leftOut": _UNREADABLE}


class _PageBudget:
    """The bytes of bodies and responses that a page may contain; the first item always fits."""

    def __init__(self, size: int) -> None:
        self._size = self._remaining = size

    def take(self, size: int) -> bool:
        """Use `size` bytes of the budget; False if they exceed it."""
        fits = size <= self._remaining or self._remaining == self._size
        self._remaining -= size if fits else 0
        return fits

    def shorten(self, delivery: Document) -> Document:
        """The delivery without the responses of attempts that exceed the budget."""
        return {**delivery, "attempts": [self._shorten_attempt(attempt) for attempt in delivery["attempts"]]}

    def _shorten_attempt(self, attempt: Document) -> Document:
        headers = attempt.get("responseHeaders", {})
        if self.take(len(attempt.get("responseBody", "")) + sum(map(len, (*headers, *headers.values())))):
            return attempt
        return {name: value for name, value in attempt.items() if name not in {"responseBody", "responseHeaders"}}


def _restart(now: Instant) -> list[Document]:
    """The update that restarts a delivery: its log retains earlier attempts, which no longer count.

    `asked` is the instant of the request: a late success of an earlier attempt does not count as an answer to it. Only
    the last attempts are retained, because a delivery that is requested very often would exceed the document size
    limit, and its outcome, with those in the same batch, could not be stored.
    """
    excess = {"$max": [0, {"$subtract": [{"$size": "$attempts"}, MAX_STORED_ATTEMPTS]}]}
    return [
        {"$set": {"forgotten": {"$add": [{"$ifNull": ["$forgotten", 0]}, excess]}}},
        {"$set": {"attempts": {"$slice": ["$attempts", -MAX_STORED_ATTEMPTS]}}},
        {"$set": {"state": "due", "nextAttempt": now, "base": {"$size": "$attempts"}}},
        {"$set": {"asked": now, "isManual": True}},
        {"$unset": "lease"},
    ]
