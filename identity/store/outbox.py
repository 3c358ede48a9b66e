"""The outbox: events that happened, and for each webhook that shall hear of one, a delivery.

An event row holds the body bytes once. A delivery row is `due` until it has `succeeded` or was `given up`; a due row
is leased by moving its next attempt into the future under a token of the lessee's own, so that the one index on due
rows serves both, and a lessee that dies simply stops moving it.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pymongo import IndexModel, ReturnDocument, UpdateMany, UpdateOne

from identity.call import Document
from identity.ids import EventId, TenantId, WebhookId, new_id
from identity.instants import Instant, as_datetime, later
from identity.store.mongo import Collection, Database, Session
from identity.store.vault import Vault, is_sealed

State = Literal["due", "succeeded", "given up"]

_WEBHOOKS_PER_LEASE = 100
_KEPT_FIELDS = {"_id": 1, "eventId": 1, "webhookId": 1, "attempts": 1, "insertInstant": 1}


@dataclasses.dataclass(frozen=True, slots=True)
class EventRow:
    """One event as it goes out: `body` is the same bytes for every receiver and every attempt.

    One that `holds_secrets`, such as a token, lies sealed in MongoDB.
    """

    event_id: EventId
    type: str
    tenant_id: TenantId | None
    linked_object_id: str | None
    body: bytes
    create_instant: Instant
    holds_secrets: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Attempt:
    """One request to a webhook. `status` is None when there was no answer; `exception` says what failed."""

    start_instant: Instant
    end_instant: Instant
    url: str
    status: int | None = None
    exception: str | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the receiver took the event: a status from 200 to 299 and nothing else."""
        return self.exception is None and self.status is not None and 200 <= self.status < 300

    def to_document(self) -> Document:
        """The attempt as it is stored."""
        document = {"startInstant": self.start_instant, "endInstant": self.end_instant, "url": self.url}
        if self.status is not None:
            document["statusCode"] = self.status
        return document if self.exception is None else {**document, "exception": self.exception}


@dataclasses.dataclass(frozen=True, slots=True)
class NewDelivery:
    """A delivery to be recorded with its event; with a `first` attempt when one was made before the commit.

    `next_attempt` None means that nothing remains to be done: the first attempt succeeded, or was the only one.
    """

    webhook_id: WebhookId
    next_attempt: Instant | None
    first: Attempt | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Lease:
    """A delivery that is this process's to make until the lease runs out; `attempts` were made before."""

    delivery_id: str
    event_id: EventId
    webhook_id: WebhookId
    attempts: int
    type: str
    body: bytes
    insert_instant: Instant
    token: str


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a lease: `next_attempt` None after a failure means that it is given up."""

    lease: Lease
    attempt: Attempt | None
    next_attempt: Instant | None


@dataclasses.dataclass(frozen=True, slots=True)
class Backlog:
    """How many deliveries are due, and how long the oldest of them has been."""

    due: int
    oldest_seconds: float


class Outbox:
    """The collections `events` and `deliveries`."""

    def __init__(self, database: Database, vault: Vault, *, retention_seconds: float) -> None:
        self._vault = vault
        self._events: Collection = database.collection("events")
        self._deliveries: Collection = database.collection("deliveries")
        self._counters: Collection = database.collection("counters")
        self._retention_seconds = retention_seconds

    async def ensure_indexes(self) -> None:
        """Create what is missing. Retention is a TTL index on the instant that each row carries."""
        expiry = IndexModel([("expiresAt", 1)], name="expiry", expireAfterSeconds=0)
        await self._events.create_indexes([expiry])
        due = IndexModel([("state", 1), ("webhookId", 1), ("nextAttempt", 1)], name="due")
        of_event = IndexModel([("eventId", 1)], name="event")
        await self._deliveries.create_indexes([due, of_event, expiry])

    async def reserve_sequence(self, count: int) -> int:
        """The first of `count` fresh sequence numbers, which order events. Gaps are possible, repeats are not.

        Reserved outside of any transaction, because a counter inside one would make all of them wait for each other.
        """
        counter = await self._counters.find_one_and_update(
            {"_id": "events"}, {"$inc": {"value": count}}, upsert=True, return_document=ReturnDocument.AFTER
        )
        return int(counter["value"]) - count + 1

    async def record(
        self, session: Session | None, rows: Sequence[tuple[EventRow, Sequence[NewDelivery]]], first_sequence: int
    ) -> None:
        """Write events with their deliveries, in the transaction of the change that they tell of."""
        events = [self._event(row, first_sequence + index) for index, (row, _) in enumerate(rows)]
        deliveries = [self._delivery(row, delivery) for row, all_of_it in rows for delivery in all_of_it]
        await self._events.insert_many(events, session=session)
        if deliveries:
            await self._deliveries.insert_many(deliveries, session=session)

    async def lease(
        self, now: Instant, lease_seconds: float, held: Mapping[WebhookId, int], per_webhook: int, limit: int
    ) -> list[Lease]:
        """Take due deliveries: at most `limit`, and none that would give a webhook more than `per_webhook`.

        `held` says how many this process has of each webhook already. Webhooks are served in random order, so that
        one with a long backlog cannot keep the others waiting.
        """
        is_due = {"state": "due", "nextAttempt": {"$lte": now}}
        waiting: list[WebhookId] = await self._deliveries.distinct("webhookId", is_due)
        rooms = {webhook: room for webhook in waiting if (room := per_webhook - held.get(webhook, 0)) > 0}
        ids = await self._candidates(is_due, rooms, limit)
        if not ids:
            return []
        token = new_id()
        change = {"lease": token, "nextAttempt": later(now, seconds=lease_seconds)}
        await self._deliveries.update_many({"_id": {"$in": ids}, **is_due}, {"$set": change})
        taken = [dict(row) async for row in self._deliveries.find({"_id": {"$in": ids}, "lease": token}, _KEPT_FIELDS)]
        return await self._leases(taken, token)

    async def settle(self, outcomes: Sequence[Outcome]) -> None:
        """Write what became of leases, in one go.

        A success always counts. A failure counts only while the lease is still held: when it ran out, the delivery is
        somebody else's.
        """
        if outcomes:
            await self._deliveries.bulk_write([_settlement(outcome) for outcome in outcomes], ordered=False)

    async def renew(self, leases: Sequence[Lease], until: Instant) -> None:
        """Hold on to leases whose receivers take their time."""
        await self._change_leases(leases, {"$set": {"nextAttempt": until}})

    async def hand_back(self, leases: Sequence[Lease], now: Instant) -> None:
        """Make leased deliveries due again at once, for another process to take."""
        await self._change_leases(leases, {"$set": {"nextAttempt": now}, "$unset": {"lease": ""}})

    async def backlog(self, now: Instant) -> Backlog:
        """What is waiting, for the metrics."""
        counted = self._deliveries.aggregate(
            [
                {"$match": {"state": "due", "nextAttempt": {"$lte": now}}},
                {"$group": {"_id": None, "due": {"$sum": 1}, "oldest": {"$min": "$nextAttempt"}}},
            ]
        )
        async for row in counted:
            return Backlog(row["due"], (now - row["oldest"]) / 1000)
        return Backlog(0, 0.0)

    async def deliveries_of(self, event_id: EventId) -> list[Document]:
        """The deliveries of an event as they are stored."""
        return [dict(row) async for row in self._deliveries.find({"eventId": event_id}).sort("webhookId", 1)]

    async def find_events(self, where: Mapping[str, Any]) -> list[Document]:
        """The events that match, in their order, as they are stored but for a sealed body."""
        return [{**row, "body": self._body(row)} async for row in self._events.find(where).sort("sequence", 1)]

    async def reseal(self) -> int:
        """Seal again what was sealed under an older master key; answers how many changed."""
        changed = 0
        async for row in self._events.find({"body": {"$type": "string"}}, {"body": 1}):
            if not self._vault.is_current(row["body"]):
                fresh = self._vault.seal(self._body(row).decode(), _place(row["_id"]))
                where = {"_id": row["_id"], "body": row["body"]}
                changed += (await self._events.update_one(where, {"$set": {"body": fresh}})).modified_count
        return changed

    async def _candidates(self, is_due: Document, rooms: Mapping[WebhookId, int], limit: int) -> list[str]:
        chosen = random.sample(list(rooms), min(len(rooms), _WEBHOOKS_PER_LEASE, max(limit, 0)))
        if not chosen:
            return []
        share = max(1, -(-limit // len(chosen)))
        branches = [_oldest(is_due, webhook, min(rooms[webhook], share)) for webhook in chosen]
        unions = [{"$unionWith": {"coll": self._deliveries.name, "pipeline": branch}} for branch in branches[1:]]
        found = self._deliveries.aggregate([*branches[0], *unions])
        return [row["_id"] async for row in found][:limit]

    async def _leases(self, taken: Sequence[Document], token: str) -> list[Lease]:
        wanted = {"_id": {"$in": list({row["eventId"] for row in taken})}}
        found = self._events.find(wanted, {"body": 1, "type": 1})
        events = {event["_id"]: (event["type"], self._body(event)) async for event in found}
        return [
            Lease(
                row["_id"],
                row["eventId"],
                row["webhookId"],
                len(row.get("attempts", ())),
                *events.get(row["eventId"], ("", b"")),
                row["insertInstant"],
                token,
            )
            for row in taken
        ]

    async def _change_leases(self, leases: Sequence[Lease], change: Mapping[str, Any]) -> None:
        by_token: dict[str, list[str]] = {}
        for lease in leases:
            by_token.setdefault(lease.token, []).append(lease.delivery_id)
        writes: list[UpdateMany] = [
            UpdateMany({"_id": {"$in": ids}, "lease": token, "state": "due"}, change) for token, ids in by_token.items()
        ]
        if writes:
            await self._deliveries.bulk_write(writes, ordered=False)

    def _event(self, row: EventRow, sequence: int) -> Document:
        stored: Document = {
            "_id": row.event_id,
            "type": row.type,
            "body": self._vault.seal(row.body.decode(), _place(row.event_id)) if row.holds_secrets else row.body,
            "sequence": sequence,
            "insertInstant": row.create_instant,
            "expiresAt": as_datetime(later(row.create_instant, seconds=self._retention_seconds)),
        }
        if row.tenant_id is not None:
            stored["tenantId"] = row.tenant_id
        if row.linked_object_id is not None:
            stored["linkedObjectId"] = row.linked_object_id
        return stored

    def _body(self, stored: Mapping[str, Any]) -> bytes:
        body = stored["body"]
        return self._vault.unseal(body, _place(stored["_id"])).encode() if is_sealed(body) else bytes(body)

    def _delivery(self, row: EventRow, delivery: NewDelivery) -> Document:
        stored: Document = {
            "_id": f"{row.event_id}:{delivery.webhook_id}",
            "eventId": row.event_id,
            "webhookId": delivery.webhook_id,
            "state": _state(delivery.first, delivery.next_attempt),
            "attempts": [] if delivery.first is None else [delivery.first.to_document()],
            "insertInstant": row.create_instant,
            "expiresAt": as_datetime(later(row.create_instant, seconds=self._retention_seconds)),
        }
        if row.tenant_id is not None:
            stored["tenantId"] = row.tenant_id
        if delivery.next_attempt is not None:
            stored["nextAttempt"] = delivery.next_attempt
        return stored


def _place(event_id: str) -> str:
    return f"events.{event_id}.body"


def _oldest(is_due: Document, webhook_id: WebhookId, count: int) -> list[Document]:
    return [
        {"$match": {**is_due, "webhookId": webhook_id}},
        {"$sort": {"nextAttempt": 1}},
        {"$limit": count},
        {"$project": {"_id": 1}},
    ]


def _state(attempt: Attempt | None, next_attempt: Instant | None) -> State:
    if next_attempt is not None:
        return "due"
    return "succeeded" if attempt is not None and attempt.succeeded else "given up"


def _settlement(outcome: Outcome) -> UpdateOne:
    state = _state(outcome.attempt, outcome.next_attempt)
    where = {"_id": outcome.lease.delivery_id, "state": "due"}
    if state != "succeeded":
        where["lease"] = outcome.lease.token
    change: Document = {"$set": {"state": state}, "$unset": {"lease": ""}}
    if outcome.next_attempt is not None:
        change["$set"]["nextAttempt"] = outcome.next_attempt
    else:
        change["$unset"]["nextAttempt"] = ""
    if outcome.attempt is not None:
        change["$push"] = {"attempts": outcome.attempt.to_document()}
    return UpdateOne(where, change)
