"""Reads the outbox: events, deliveries and attempts; requests a delivery again.

The rows are written by outbox.py. Everything here is of the whole instance: webhooks are.
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
from identity.store.delivery_lanes import lane_of
from identity.store.event_bodies import PART_BYTES, EventBodies
from identity.store.mongo import BULK_SECONDS, Collection, Database, duplicates
from identity.store.outbox import KEPT_ATTEMPTS
from identity.store.outbox_documents import delivery_id
from identity.store.store_circuit_breaker import time_limit
from identity.store.vault import Vault

_log = structlog.get_logger(__name__)

RedeliveryStatus = Literal["queued", "running", "unknown"]

PAGE_BYTES: Final = 32 * 2**20
"""How long the bodies of one page, and what receivers said of them, may be together: more than any one event is."""
_TOO_MUCH: Final = "The event is too large for this page. Read it by its id, or ask for a smaller page."
_UNREADABLE: Final = "The event is sealed with a master key that is not there."

_SHOWN = {"isHidden": {"$exists": False}}
"""What happened while nothing was to be logged is in the outbox, and not in the log."""


@dataclasses.dataclass(frozen=True, slots=True)
class EventLogQuery:
    """A search of the log: instants in milliseconds, `end` exclusive, `event` a regular expression over bodies."""

    start: Instant
    end: Instant
    event: str | None
    exact: Mapping[str, str]
    order: Sequence[tuple[str, int]]
    start_row: int
    number_of_results: int


class WebhookEventLog:
    """The collections `events` and `deliveries`, for those who look."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._bodies = EventBodies(database, vault)
        self._events: Collection = database.collection("events")
        self._deliveries: Collection = database.collection("deliveries")

    async def ensure_indexes(self) -> None:
        """Create what is missing."""
        of_webhook = IndexModel([("webhookId", 1), ("state", 1), ("insertInstant", -1)], name="webhook")
        await self._deliveries.create_indexes([of_webhook])

    async def find(self, _tenant: None, event_id: str) -> Document | None:
        """An event with its body as text, and its deliveries."""
        found = await self._with_deliveries(self._events.find({"_id": event_id, **_SHOWN}))
        return found[0] if found else None

    async def find_all(self, _tenant: None, where: Mapping[str, Any]) -> list[Document]:
        """The events that match, in their order, as `find` answers one."""
        return await self._with_deliveries(self._events.find(where).sort("sequence", 1))

    async def find_by_attempt(self, _tenant: None, attempt_id: str) -> Document | None:
        """The delivery that an attempt belongs to."""
        found = await self._deliveries.find_one({"attempts.id": attempt_id, **_SHOWN})
        return None if found is None else dict(found)

    async def search(self, _tenant: None, query: EventLogQuery) -> tuple[int, list[Document]]:
        """How many events match, and one page of them, each as `find` answers it."""
        where: Document = {"insertInstant": {"$gte": query.start, "$lt": query.end}, **query.exact, **_SHOWN}
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
        """How many deliveries to a webhook were given up, and a page of them, the newest first."""
        where = {"webhookId": webhook_id, "state": "given up"}
        total = await self._deliveries.count_documents(where)
        cursor = self._deliveries.find(where).sort([("insertInstant", -1), ("_id", 1)])
        room = _Room(PAGE_BYTES)
        return total, [room.of_delivery(row) async for row in cursor.skip(start_row).limit(number_of_results)]

    async def origin(self, _tenant: None, event_id: EventId) -> Document | None:
        """What tells whose an event is (`tenantId`), or None; one of a change that was vetoed is none."""
        found = await self._events.find_one({"_id": event_id, "result": {"$ne": "Failed"}}, {"tenantId": 1})
        return None if found is None else dict(found)

    async def webhooks_of(self, _tenant: None, event_id: EventId) -> list[WebhookId]:
        """The webhooks that an event was to be delivered to."""
        return [WebhookId(row["webhookId"]) async for row in self._deliveries.find({"eventId": event_id})]

    async def has_succeeded(self, _tenant: None, webhook_id: WebhookId, since: Instant) -> bool:
        """Whether any event since an instant has reached a webhook, in the background or with a question."""
        where = {"webhookId": webhook_id, "state": "succeeded", "insertInstant": {"$gte": since}}
        return await self._deliveries.find_one(where, {"_id": 1}) is not None

    async def redeliver(
        self, _tenant: None, event_id: EventId, webhook_id: WebhookId, now: Instant
    ) -> RedeliveryStatus:
        """Make a delivery due now, with the whole schedule before it; one that was never made is added.

        Safe to repeat: a delivery that is due already is only brought forward, one under way is left alone.
        """
        event = await self._events.find_one({"_id": event_id, "result": {"$ne": "Failed"}}, {"body": 0})
        if event is None:
            return "unknown"
        own = {"_id": delivery_id(event_id, webhook_id)}
        done = {**own, "state": {"$ne": "due"}}
        if (await self._deliveries.update_one(done, _renewed(now))).matched_count:
            return "queued"
        waiting = {**own, "state": "due", "lease": {"$exists": False}}
        if (await self._deliveries.update_one(waiting, {"$min": {"nextAttempt": now}})).matched_count:
            return "queued"
        if await self._deliveries.find_one(own, {"_id": 1}) is not None:
            return "running"
        members = ("tenantId", "linkedObjectId", "expiresAt", "sequence", "isHidden")
        kept: Document = {name: event[name] for name in members if name in event}
        fresh = {"eventId": event_id, "webhookId": webhook_id, "state": "due", "attempts": [], "nextAttempt": now}
        fresh["lane"] = lane_of(webhook_id, event.get("tenantId"))
        row = {**own, **fresh, **kept, "insertInstant": event["insertInstant"], "isManual": True}
        with contextlib.suppress(Duplicate), duplicates():  # somebody else asks at the same time
            await self._deliveries.insert_one(row)
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
        """Make every delivery due that was given up of events from `start` until before `end`; how many that were.

        With `tenant_ids` only what these tenants tell of, and the instance.
        """
        where: Document = {"webhookId": webhook_id, "state": "given up", "insertInstant": {"$gte": start, "$lt": end}}
        if tenant_ids is not None:
            where["tenantId"] = {"$in": [*tenant_ids, None]}
        with time_limit(BULK_SECONDS):
            return int((await self._deliveries.update_many(where, _renewed(now))).modified_count)

    async def _with_deliveries(self, cursor: Any) -> list[Document]:
        room = _Room(PAGE_BYTES)
        opened = [await self._opened(row, room) async for row in cursor]
        events = [row for row in opened if row["body"] != ""]  # parts of a body may be cleared away before its row
        of_event: dict[str, list[Document]] = {row["_id"]: [] for row in events}
        async for row in self._deliveries.find({"eventId": {"$in": list(of_event)}}).sort("webhookId", 1):
            of_event[row["eventId"]].append(room.of_delivery(row))
        return [{**row, "deliveries": of_event[row["_id"]]} for row in events]

    async def _opened(self, row: Document, room: _Room) -> Document:
        """The row with its body; where that is `leftOut`, which says why, with None."""
        if not room.takes(row["parts"] * PART_BYTES if "parts" in row else len(row["body"])):
            return {**row, "body": None, "leftOut": _TOO_MUCH}
        try:
            return {**row, "body": (await self._bodies.opened(row)).decode()}
        except StartupError as error:
            # It must not keep anybody from reading about the others.
            _log.error("an event cannot be shown as it cannot be read", event_id=row["_id"], error=str(error))
            return {**row, "body": None, "leftOut": _UNREADABLE}


class _Room:
    """So many bytes for the long texts of one answer: whoever asks for a page must not fill the memory with it.

    What comes first has room however large it is.
    """

    def __init__(self, size: int) -> None:
        self._size = self._left = size

    def takes(self, size: int) -> bool:
        """Whether there is room for so much, which is gone then."""
        fits = size <= self._left or self._left == self._size
        self._left -= size if fits else 0
        return fits

    def of_delivery(self, row: Document) -> Document:
        """A delivery, as far as there is room for its attempts."""
        return {**row, "attempts": [self.of_attempt(one) for one in row["attempts"]]}

    def of_attempt(self, attempt: Document) -> Document:
        """An attempt, as far as there is room for what the receiver said."""
        headers = attempt.get("responseHeaders", {})
        if self.takes(len(attempt.get("responseBody", "")) + sum(len(name) + len(headers[name]) for name in headers)):
            return attempt
        return {name: value for name, value in attempt.items() if name not in {"responseBody", "responseHeaders"}}


def _renewed(now: Instant) -> list[Document]:
    """The update of a delivery that starts anew: what was tried stays in its log and counts no more.

    `asked` tells it from what it was before: the late success of an attempt of then is none of what is asked for now.

    Of many attempts the last stay: with all of them, and what the receiver said each time, a delivery that is asked for
    again and again would outgrow what MongoDB keeps in a row, and its outcome, with those beside it, never be written.
    """
    too_many = {"$max": [0, {"$subtract": [{"$size": "$attempts"}, KEPT_ATTEMPTS]}]}
    return [
        {"$set": {"forgotten": {"$add": [{"$ifNull": ["$forgotten", 0]}, too_many]}}},
        {"$set": {"attempts": {"$slice": ["$attempts", -KEPT_ATTEMPTS]}}},
        {"$set": {"state": "due", "nextAttempt": now, "base": {"$size": "$attempts"}}},
        {"$set": {"asked": now, "isManual": True}},
        {"$unset": "lease"},
    ]
