"""The outbox: events, and a delivery for each subscribed webhook.

An event row holds the body once. A delivery row is `due` until it has `succeeded` or was `given up` (`vetoed` from the
start, where the change was not made). A due row is leased by moving its next attempt into the future under a token of
the lessee's own, so that the one index on due rows serves both, and a lessee that dies simply stops moving it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import structlog
from bson.errors import InvalidBSON, InvalidDocument
from pymongo import IndexModel, ReturnDocument, UpdateMany
from pymongo.errors import BulkWriteError, OperationFailure

from identity.call import Document
from identity.domain.objects.system_configuration import SentEvents
from identity.errors import Invalid, StartupError
from identity.ids import EventId, WebhookId, new_id
from identity.instants import Instant, as_datetime, later
from identity.store import delivery_lanes, delivery_order, request_context
from identity.store.delivery_lanes import DeliveryLanes
from identity.store.delivery_order import DeliveryOrder
from identity.store.event_bodies import PART_BYTES, EventBodies
from identity.store.mongo import BULK_SECONDS, CHUNK, Collection, Database, Session
from identity.store.outbox_documents import delivery_document, event_document, event_of, leases_of, noted, settlement
from identity.store.outbox_rows import DeliveryBacklog, DeliveryLease, DeliveryOutcome, EventRow, NewDelivery
from identity.store.request_coalescing import RequestCoalescer
from identity.store.store_circuit_breaker import time_limit
from identity.store.vault import Vault

_log = structlog.get_logger(__name__)

_NO_SUCH_INDEX = 27
_MOST_COUNTED = 10_000
"""At how many the count of what is due ends: it is taken again and again, and more only says that it is very much."""
_NOT_TO_BE_KEPT = (BulkWriteError, Invalid, InvalidBSON, InvalidDocument, UnicodeError)
"""What comes of writing something that MongoDB does not take, or has no room for."""
_BODY_FIELDS = {"body": 1, "isSealed": 1, "parts": 1}
HELD_BODY_BYTES: Final = 65_536
"""A lease brings no body that is larger than this: a process has many at hand, and fetches those as it sends them."""
_SIZE = {"$strLenBytes": "$body"}
_LEASED_BODY_FIELDS = {
    **_BODY_FIELDS, "size": _SIZE, "body": {"$cond": [{"$lte": [_SIZE, HELD_BODY_BYTES]}, "$body", "$$REMOVE"]}
}  # fmt: skip
_TOLD_FIELDS = {"type": 1, "trace": 1, "traceState": 1, "via": 1}
KEPT_ATTEMPTS: Final = 50
"""How many attempts a delivery keeps when it is asked for once more."""
_DAY = 86_400
_LEAST_SECONDS = 3 * _DAY
"""How long what is due stays where nobody looks after it: for so long no process need run, and nothing is lost."""
_LOOKS_PER_LEASE = 8
"""How often to look again when all that was found waits for something before it."""


async def _by_default() -> SentEvents:
    return SentEvents()


class Outbox:
    """The collections `events` and `deliveries`."""

    def __init__(
        self,
        database: Database,
        vault: Vault,
        *,
        schedule_seconds: float,
        sent_events: Callable[[], Awaitable[SentEvents]] = _by_default,
    ) -> None:
        """`schedule_seconds`: the longest time between an event and its last attempt, in which it is always kept."""
        self._bodies = EventBodies(database, vault)
        self._events: Collection = database.collection("events")
        self._deliveries: Collection = database.collection("deliveries")
        self._order = DeliveryOrder(self._deliveries)
        self._lanes = DeliveryLanes(self._deliveries)
        self._counters: Collection = database.collection("counters")
        self._sequence = RequestCoalescer(self._reserve)
        self._schedule_seconds = schedule_seconds
        self._sent_events = sent_events

    async def ensure_indexes(self) -> None:
        """Create what is missing. Retention is a TTL index on the instant that each row carries."""
        expiry = IndexModel([("expiresAt", 1)], name="expiry", expireAfterSeconds=0)
        newest = IndexModel([("insertInstant", -1), ("_id", -1)], name="newest")
        await self._events.create_indexes([expiry, newest])
        of_event = IndexModel([("eventId", 1)], name="event")
        attempt = IndexModel([("attempts.id", 1)], name="attempt")
        await self._deliveries.create_indexes(
            [delivery_lanes.INDEX, of_event, attempt, delivery_order.INDEX, delivery_order.WAITING, expiry]
        )
        await self._upgrade()
        await self._bodies.ensure_indexes()

    async def _upgrade(self) -> None:
        """Take over what a version left that knew no lanes: it served webhooks in turn, and not their tenants."""
        # Asked first: even where there is nothing to drop, dropping waits for every write and lets none pass.
        if "due" in await self._deliveries.index_information():
            try:
                await self._deliveries.drop_index("due")
            except OperationFailure as error:
                if error.code != _NO_SUCH_INDEX:
                    raise
        await self._add_lanes()

    async def _add_lanes(self) -> None:
        without = {"state": "due", "lane": None}
        await self._deliveries.update_many(without, [{"$set": {"lane": delivery_lanes.LANE_OF_ROW}}])

    async def reserve_sequence(self, count: int) -> int:
        """The first of `count` fresh sequence numbers, which order events. Gaps are possible, repeats are not.

        Reserved outside of any transaction, because a counter inside one would make all of them wait for each other;
        and for all who ask meanwhile at once, because what happened before they asked has a lower number all the same.
        """
        return await self._sequence.submit(count)

    async def _reserve(self, counts: Sequence[int]) -> Sequence[int]:
        counter = await self._counters.find_one_and_update(
            {"_id": "events"}, {"$inc": {"value": sum(counts)}}, upsert=True, return_document=ReturnDocument.AFTER
        )
        return list(itertools.accumulate(counts[:-1], initial=int(counter["value"]) - sum(counts) + 1))

    async def record(
        self,
        session: Session | None,
        rows: Sequence[tuple[EventRow, Sequence[NewDelivery]]],
        first_sequence: int,
        *,
        vetoed: bool = False,
    ) -> None:
        """Write events with their deliveries, in the transaction of the change that they tell of.

        Those of a change that was `vetoed`, and those that are refused, are written for the log alone: nothing of them
        is due.
        """
        kept = await self._sent_events()
        events, parts, found = [], {}, []
        for sequence, (row, deliveries) in enumerate(rows, start=first_sequence):
            is_over = vetoed or row.is_refused
            if is_over and not kept.are_logged:
                continue
            body, parts[row.event_id] = self._bodies.members(row.event_id, row.body, is_sealed=row.holds_secrets)
            events.append({**event_document(row, deliveries, sequence, vetoed=is_over), **body})
            state = {"state": "vetoed"} if is_over else {}
            found += [delivery_document(row, one, sequence) | state for one in deliveries]
        if not events:
            return
        for stored in (*events, *found):
            self._keep(stored, kept)
        for stored in events:
            await self._bodies.add(stored, parts[stored["_id"]])
        await self._events.insert_many(events, session=session)
        if found:
            await self._deliveries.insert_many(found, session=session)

    async def lease(
        self,
        now: Instant,
        lease_seconds: float,
        room_of: Callable[[WebhookId], int],
        limit: int,
        *,
        since: Instant | None = None,
        before: Instant | None = None,
    ) -> list[DeliveryLease]:
        """Take due deliveries: at most `limit`, and of each webhook at most the room that there is for it.

        Only those whose time came at `since` or later, and before `before`, where these are given.

        Webhooks are served in random order, and the tenants of one in random order too, so that neither a webhook nor a
        tenant with a long backlog keeps the others waiting.
        """
        is_due = _due(now, since, before)
        choice = await self._lanes.due(is_due, room_of)
        if choice.has_strays:
            # Processes of an older version may still be running while this one has begun.
            await self._add_lanes()
        until = later(now, seconds=lease_seconds)
        for _ in range(_LOOKS_PER_LEASE):
            candidates = await delivery_lanes.candidates(self._deliveries, is_due, choice, limit)
            if not candidates:
                break
            if ids := await self._order.unblocked(candidates, now, until):
                return await self._take({row["_id"]: row for row in candidates}, ids, _due(now), until)
        return []

    async def _take(
        self, candidates: Mapping[str, Document], ids: Sequence[str], is_due: Document, until: Instant
    ) -> list[DeliveryLease]:
        """Lease these, as far as nobody else has done so meanwhile."""
        token = new_id()
        change = {"$set": {"lease": token, "nextAttempt": until}, "$unset": {"waits": ""}}
        # Before it is known which of them will be ours: reading one in vain costs less than waiting.
        event_ids = {event_of(one) for one in ids}
        result, events = await asyncio.gather(
            self._deliveries.update_many({"_id": {"$in": ids}, **is_due}, change), self._events_of(event_ids)
        )
        if result.modified_count == len(ids) and all(one in candidates for one in ids):
            return leases_of([candidates[one] for one in ids], events, token)
        ours = self._deliveries.find({"_id": {"$in": ids}, "lease": token}, delivery_lanes.LEASED_FIELDS)
        return leases_of(await ours.to_list(None), events, token)

    async def _events_of(self, event_ids: Iterable[EventId]) -> dict[str, Document | None]:
        """What a lease tells of each event that is still there; None of one that cannot be read now."""
        wanted, fields = {"_id": {"$in": list(event_ids)}}, {**_LEASED_BODY_FIELDS, **_TOLD_FIELDS}
        return {row["_id"]: await self._told(row) async for row in self._events.find(wanted, fields)}

    async def _told(self, row: Document) -> Document | None:
        """What a lease tells of its event."""
        trace, via = request_context.read(row)
        told: Document = {"type": row["type"], "trace": trace, "via": via, "body": None}
        if "parts" in row or "body" not in row:
            return {**told, "body_bytes": row["parts"] * PART_BYTES if "parts" in row else row["size"]}
        try:
            return {**told, "body": await self._bodies.opened(row), "body_bytes": row["size"]}
        except StartupError as error:
            # It must hold up nobody else, and is not lost: its lease runs out, and perhaps the key is back by then.
            _log.error("an event cannot be delivered as it cannot be read", event_id=row["_id"], error=str(error))
            return None

    async def body(self, event_id: EventId) -> bytes:
        """The body of an event, however large; empty when it is gone."""
        row = await self._events.find_one({"_id": event_id}, _BODY_FIELDS)
        return b"" if row is None else await self._bodies.opened(row)

    async def record_outcomes(self, outcomes: Sequence[DeliveryOutcome]) -> bool:
        """Write what became of leases, in one go; answers whether some are due now that waited for these.

        A success always counts. A failure counts only while the lease is still held: when it ran out, the delivery is
        somebody else's.
        """
        if outcomes:
            await asyncio.gather(self._write(outcomes), self._note(outcomes))
        # By the latest of an object: the time of the next has come then, by the same clock.
        ended = {(one.lease.webhook_id, one.lease.ordered_by): one.instant for one in outcomes if one.makes_way}
        return await self._order.let_follow(ended)

    async def _write(self, outcomes: Sequence[DeliveryOutcome]) -> None:
        """Write them together or, where MongoDB cannot keep one as it is, each by itself.

        What a receiver says must not be able to stop all that comes after it: such an attempt is kept without.
        """
        try:
            await self._deliveries.bulk_write([settlement(outcome) for outcome in outcomes], ordered=False)
        except _NOT_TO_BE_KEPT as error:
            _log.warning("outcomes of deliveries are written one by one", error=type(error).__name__)
            for outcome in outcomes:
                await self._write_one(outcome)

    async def _write_one(self, outcome: DeliveryOutcome) -> None:
        try:
            await self._deliveries.bulk_write([settlement(outcome)])
        except _NOT_TO_BE_KEPT:
            plain = dataclasses.replace(outcome, attempt=outcome.attempt and outcome.attempt.without_answer())
            await self._deliveries.bulk_write([settlement(plain, keep=KEPT_ATTEMPTS)])

    async def _note(self, outcomes: Sequence[DeliveryOutcome]) -> None:
        """Tell the events' own rows."""
        told: dict[EventId, list[DeliveryOutcome]] = {}
        for outcome in outcomes:
            if outcome.is_told:
                told.setdefault(outcome.lease.event_id, []).append(outcome)
        if told:
            await self._events.bulk_write([noted(*of_event) for of_event in told.items()], ordered=False)

    async def renew(self, leases: Sequence[DeliveryLease], until: Instant) -> None:
        """Hold on to leases whose receivers take their time."""
        await self._change_leases(leases, {"$set": {"nextAttempt": until}})

    async def release(self, leases: Sequence[DeliveryLease], now: Instant) -> None:
        """Make leased deliveries due again at once, for another process to take."""
        await self._change_leases(leases, {"$set": {"nextAttempt": now}, "$unset": {"lease": ""}})

    async def keep_due(self, now: Instant) -> int:
        """Put off the expiry of what is still to be delivered, with its event; answers of how many deliveries.

        A webhook that is paused, held back or limited, and an order, may keep a delivery for longer than any schedule.
        """
        soon = as_datetime(later(now, seconds=_LEAST_SECONDS))
        until, kept = later(now, seconds=_LEAST_SECONDS + _DAY), 0
        with time_limit(BULK_SECONDS):
            ending = self._deliveries.find({"state": "due", "expiresAt": {"$lt": soon}}, {"_id": 1}).hint("lanes")
            # As they are found: millions may wait for one that is paused, and must not all be in memory.
            while rows := await ending.to_list(CHUNK):
                await self._put_off_expiry([row["_id"] for row in rows], until)
                kept += len(rows)
        return kept

    async def _put_off_expiry(self, ids: Sequence[str], until: Instant) -> None:
        """The deliveries last: what is interrupted is found again by them."""
        change = {"$max": {"expiresAt": as_datetime(until)}}
        event_ids = list({event_of(one) for one in ids})
        await self._bodies.put_off_expiry(self._events, event_ids, change)
        await self._events.update_many({"_id": {"$in": event_ids}, "expiresAt": {"$exists": True}}, change)
        await self._deliveries.update_many({"_id": {"$in": list(ids)}, "expiresAt": {"$exists": True}}, change)

    async def backlog(self, now: Instant) -> DeliveryBacklog:
        """What is waiting, for the metrics: of very many it is only said that there are at least so many.

        Each question is answered by an index alone, whatever has piled up: one entry of each lane, and a count that
        ends.
        """
        is_due = {"state": "due", "nextAttempt": {"$lte": now}}
        due = await self._deliveries.count_documents(is_due, limit=_MOST_COUNTED, hint="lanes")
        waiting = await self._order.waiting(_MOST_COUNTED)
        if not due:
            return DeliveryBacklog(0, 0.0, waiting)
        oldest = self._deliveries.aggregate(
            [
                {"$match": {"state": "due"}},
                {"$sort": {"state": 1, "lane": 1, "nextAttempt": 1}},
                {"$group": {"_id": "$lane", "oldest": {"$first": "$nextAttempt"}}},
                {"$group": {"_id": None, "oldest": {"$min": "$oldest"}}},
            ],
            hint="lanes",
        )
        found = await oldest.to_list(1)
        return DeliveryBacklog(due, max(0, now - found[0]["oldest"]) / 1000 if found else 0.0, waiting)

    async def reseal(self) -> int:
        """Seal again what was sealed under an older master key; answers how many changed."""
        changed = 0
        async for row in self._events.find({"isSealed": True}, _BODY_FIELDS):
            fresh = self._bodies.resealed(row)
            if fresh is not None:
                where = {"_id": row["_id"], "body": row["body"]}
                changed += (await self._events.update_one(where, {"$set": {"body": fresh}})).modified_count
        return changed

    async def _change_leases(self, leases: Sequence[DeliveryLease], change: Mapping[str, Any]) -> None:
        by_token: dict[str, list[str]] = {}
        for lease in leases:
            by_token.setdefault(lease.token, []).append(lease.delivery_id)
        writes: list[UpdateMany] = [
            UpdateMany({"_id": {"$in": ids}, "lease": token, "state": "due"}, change) for token, ids in by_token.items()
        ]
        if writes:
            await self._deliveries.bulk_write(writes, ordered=False)

    def _keep(self, stored: Document, kept: SentEvents) -> None:
        """Say how long a row stays, and whether the log shows it."""
        seconds = kept.seconds()
        if seconds is not None:
            lasts = max(self._schedule_seconds + seconds, _LEAST_SECONDS)
            expiry = later(stored["insertInstant"], seconds=lasts)
            stored["expiresAt"] = as_datetime(expiry)
        if not kept.are_logged:
            stored["isHidden"] = True


def _due(now: Instant, since: Instant | None = None, before: Instant | None = None) -> Document:
    """What is due now, as far as its time came between these."""
    bounds = {"$lte": now} | ({} if since is None else {"$gte": since}) | ({} if before is None else {"$lt": before})
    return {"state": "due", "nextAttempt": bounds}
