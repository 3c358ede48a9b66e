"""The transactional outbox: events, and a delivery of each event to each subscribed webhook.

An event document contains the body once. A delivery is `due` until it has `succeeded` or is `given up`; deliveries of a
rejected change are `vetoed` from the beginning. Leasing a due delivery moves its next attempt into the future and
stores a token of the lessee. One index serves queries and leases, and the lease of a process that dies expires.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import structlog
from bson.errors import InvalidBSON, InvalidDocument
from pymongo import IndexModel, ReturnDocument, UpdateMany
from pymongo.errors import BulkWriteError

from identity.call import Document
from identity.domain.objects.system_configuration import SentEvents
from identity.errors import Invalid, StartupError
from identity.ids import EventId, WebhookId, new_id
from identity.instants import Instant, as_datetime, later
from identity.store import delivery_selection, outbox_rows, request_context
from identity.store.delivery_selection import DeliveryLanes, DeliveryOrder
from identity.store.event_bodies import PART_BYTES, EventBodies
from identity.store.mongo import BULK_SECONDS, CHUNK, TTL_INDEX, Collection, Database, Session, drop_obsolete_index
from identity.store.outbox_rows import DeliveryBacklog, DeliveryLease, DeliveryOutcome, EventRow, NewDelivery
from identity.store.request_coalescing import RequestCoalescer
from identity.store.store_circuit_breaker import time_limit
from identity.store.vault import Vault

_log = structlog.get_logger(__name__)

_MAX_COUNTED = 10_000
"""The limit of the counts in `backlog`, which the metrics query regularly."""
_UNSTORABLE = (BulkWriteError, Invalid, InvalidBSON, InvalidDocument, UnicodeError)
"""The errors of a document that MongoDB rejects or that is too large."""
_BODY_FIELDS = {"body": 1, "isSealed": 1, "parts": 1, "edition": 1}
MAX_LEASED_BODY_BYTES: Final = 65_536
"""Leases do not include larger bodies, because a process holds many leases; it reads such a body when it sends it."""
_SIZE = {"$binarySize": "$body"}
_LEASED_EVENT_FIELDS = {
    **_BODY_FIELDS, "size": _SIZE, "body": {"$cond": [{"$lte": [_SIZE, MAX_LEASED_BODY_BYTES]}, "$body", "$$REMOVE"]},
    "type": 1, "trace": 1, "traceState": 1, "via": 1,
}  # fmt: skip
MAX_STORED_ATTEMPTS: Final = 50
"""The number of attempts that remain stored when a delivery is requested again."""
_DAY = 86_400
_MIN_RETENTION_SECONDS = 3 * _DAY
"""The minimum retention of due deliveries: how long all processes may be down without loss."""
_MAX_QUERIES_PER_LEASE = 8
"""How often to query again while all candidates are blocked by earlier deliveries."""


async def _default_sent_events() -> SentEvents:
    return SentEvents()


class Outbox:
    """The collections `events` and `deliveries`."""

    def __init__(
        self,
        database: Database,
        vault: Vault,
        *,
        schedule_seconds: float,
        sent_events: Callable[[], Awaitable[SentEvents]] = _default_sent_events,
    ) -> None:
        """`schedule_seconds` is the longest time from an event to its last attempt; retention begins after it."""
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
        """Create missing indexes and upgrade the deliveries of earlier versions, which had no lanes."""
        newest = IndexModel([("insertInstant", -1), ("_id", -1)], name="newest")
        # Most events are about a user, who may be deleted.
        by_object = IndexModel([("linkedObjectId", 1)], name="object", sparse=True)
        await self._events.create_indexes([TTL_INDEX, newest, by_object])
        by_event = IndexModel([("eventId", 1)], name="event")
        by_attempt = IndexModel([("attempts.id", 1)], name="attempt")
        await self._deliveries.create_indexes(
            [
                delivery_selection.LANES_INDEX,
                by_event,
                by_attempt,
                delivery_selection.ORDER_INDEX,
                delivery_selection.WAITING_INDEX,
                TTL_INDEX,
            ]
        )
        await drop_obsolete_index(self._deliveries, "due")
        await self._add_lanes()
        await self._bodies.ensure_indexes()

    async def _add_lanes(self) -> None:
        without_lane = {"state": "due", "lane": None}
        await self._deliveries.update_many(without_lane, [{"$set": {"lane": delivery_selection.LANE_EXPRESSION}}])

    async def reserve_sequence(self, count: int) -> int:
        """The first of `count` new sequence numbers, which order events. Numbers may be skipped, but never repeat.

        Reserved outside transactions, which would conflict on the counter. Concurrent callers share one update: events
        that precede the call have lower numbers in any case.
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
        """Insert events with their deliveries, in the transaction of the change that raised them.

        Events of a `vetoed` change, and refused events, are inserted only for the log: none of their deliveries is due.
        """
        retention = await self._sent_events()
        events, parts, deliveries = [], {}, []
        for sequence, (row, new_deliveries) in enumerate(rows, start=first_sequence):
            is_final = vetoed or row.is_refused
            if is_final and not retention.are_logged:
                continue
            body, parts[row.event_id] = self._bodies.members(row.event_id, row.body, is_sealed=row.holds_secrets)
            events.append({**outbox_rows.event_document(row, new_deliveries, sequence, vetoed=is_final), **body})
            state = {"state": "vetoed"} if is_final else {}
            deliveries += [outbox_rows.delivery_document(row, new, sequence) | state for new in new_deliveries]
        if not events:
            return
        for document in (*events, *deliveries):
            self._set_retention(document, retention)
        for event in events:
            await self._bodies.add(event, parts[event["_id"]])
        await self._events.insert_many(events, session=session)
        if deliveries:
            await self._deliveries.insert_many(deliveries, session=session)

    async def lease(
        self,
        now: Instant,
        lease_seconds: float,
        capacity_of: Callable[[WebhookId], int],
        limit: int,
        *,
        since: Instant | None = None,
        before: Instant | None = None,
    ) -> list[DeliveryLease]:
        """Lease at most `limit` due deliveries, and for each webhook at most its capacity.

        `since` (inclusive) and `before` (exclusive) bound the instant from which a delivery has been due. Webhooks, and
        the tenants of a webhook, are served in random order, so that none with a long backlog blocks the others.
        """
        is_due = _due(now, since, before)
        due_lanes = await self._lanes.find_due(is_due, capacity_of)
        if due_lanes.has_rows_without_lane:
            # During a rolling upgrade, processes of an earlier version insert deliveries without a lane.
            await self._add_lanes()
        until = later(now, seconds=lease_seconds)
        for _ in range(_MAX_QUERIES_PER_LEASE):
            candidates = await self._lanes.find_candidates(is_due, due_lanes, limit)
            if not candidates:
                break
            if ids := await self._order.find_unblocked(candidates, now, until):
                return await self._acquire({row["_id"]: row for row in candidates}, ids, _due(now), until)
        return []

    async def _acquire(
        self, candidates: Mapping[str, Document], ids: Sequence[str], is_due: Document, until: Instant
    ) -> list[DeliveryLease]:
        """Lease those deliveries that no other process has leased meanwhile."""
        token = new_id()
        change = {"$set": {"lease": token, "nextAttempt": until}, "$unset": {"waits": ""}}
        # Read the events concurrently: reading some in vain costs less than a second round trip.
        event_ids = {outbox_rows.event_id_of(delivery_id) for delivery_id in ids}
        result, events = await asyncio.gather(
            self._deliveries.update_many({"_id": {"$in": ids}, **is_due}, change), self._leased_events(event_ids)
        )
        if result.modified_count == len(ids) and all(delivery_id in candidates for delivery_id in ids):
            return outbox_rows.leases_of([candidates[delivery_id] for delivery_id in ids], events, token)
        leased = self._deliveries.find({"_id": {"$in": ids}, "lease": token}, delivery_selection.LEASED_FIELDS)
        return outbox_rows.leases_of(await leased.to_list(None), events, token)

    async def _leased_events(self, event_ids: Iterable[EventId]) -> dict[str, Document | None]:
        """The members of a lease from each stored event; None if the event cannot be unsealed."""
        cursor = self._events.find({"_id": {"$in": list(event_ids)}}, _LEASED_EVENT_FIELDS)
        return {row["_id"]: await self._leased_event(row) async for row in cursor}

    async def _leased_event(self, row: Document) -> Document | None:
        trace, via = request_context.read(row)
        members: Document = {"type": row["type"], "trace": trace, "via": via, "body": None}
        if "parts" in row or "body" not in row:
            return {**members, "body_bytes": row["parts"] * PART_BYTES if "parts" in row else row["size"]}
        try:
            return {**members, "body": await self._bodies.read(row), "body_bytes": row["size"]}
        except StartupError as error:
            # Other deliveries continue; this one is leased again later, perhaps with the master key restored.
            _log.error("an event cannot be delivered as it cannot be read", event_id=row["_id"], error=str(error))
            return None

    async def body(self, event_id: EventId) -> bytes:
        """The body of an event of any size; empty if the event no longer exists."""
        row = await self._events.find_one({"_id": event_id}, _BODY_FIELDS)
        return b"" if row is None else await self._bodies.read(row)

    async def record_outcomes(self, outcomes: Sequence[DeliveryOutcome]) -> bool:
        """Store the outcomes of leases in one batch; True if they made blocked deliveries due.

        A success always counts. A failure counts only under the current lease: after it expired, the delivery may
        belong to another process.
        """
        if outcomes:
            await asyncio.gather(self._update_deliveries(outcomes), self._update_events(outcomes))
        # The last outcome per object determines when the next delivery is due, by the same clock.
        ended = {(one.lease.webhook_id, one.lease.ordered_by): one.instant for one in outcomes if one.unblocks_next}
        return await self._order.unblock_next(ended)

    async def _update_deliveries(self, outcomes: Sequence[DeliveryOutcome]) -> None:
        """Store the outcomes together or, if MongoDB rejects one of them, separately.

        A response that cannot be stored must not block other deliveries: its attempt is stored without it.
        """
        try:
            await self._deliveries.bulk_write(
                [outbox_rows.outcome_update(outcome) for outcome in outcomes], ordered=False
            )
        except _UNSTORABLE as error:
            _log.warning("outcomes of deliveries are written one by one", error=type(error).__name__)
            for outcome in outcomes:
                await self._update_delivery(outcome)

    async def _update_delivery(self, outcome: DeliveryOutcome) -> None:
        try:
            await self._deliveries.bulk_write([outbox_rows.outcome_update(outcome)])
        except _UNSTORABLE:
            attempt = outcome.attempt and outcome.attempt.without_response()
            plain = dataclasses.replace(outcome, attempt=attempt)
            await self._deliveries.bulk_write([outbox_rows.outcome_update(plain, max_attempts=MAX_STORED_ATTEMPTS)])

    async def _update_events(self, outcomes: Sequence[DeliveryOutcome]) -> None:
        by_event: dict[EventId, list[DeliveryOutcome]] = collections.defaultdict(list)
        for outcome in outcomes:
            if outcome.is_attempted_or_final:
                by_event[outcome.lease.event_id].append(outcome)
        if by_event:
            await self._events.bulk_write([outbox_rows.event_update(*item) for item in by_event.items()], ordered=False)

    async def renew(self, leases: Sequence[DeliveryLease], until: Instant) -> None:
        """Extend leases whose receivers are slow."""
        await self._update_leased(leases, {"$set": {"nextAttempt": until}})

    async def release(self, leases: Sequence[DeliveryLease], now: Instant) -> None:
        """Make leased deliveries due at once, for other processes."""
        await self._update_leased(leases, {"$set": {"nextAttempt": now}, "$unset": {"lease": ""}})

    async def extend_retention_of_due(self, now: Instant) -> int:
        """Postpone the expiry of due deliveries and their events; returns the number of deliveries.

        A paused or rate-limited webhook, an open circuit or an ordered webhook may delay them beyond any schedule.
        """
        soon = as_datetime(later(now, seconds=_MIN_RETENTION_SECONDS))
        until, extended = later(now, seconds=_MIN_RETENTION_SECONDS + _DAY), 0
        with time_limit(BULK_SECONDS):
            expiring = self._deliveries.find({"state": "due", "expiresAt": {"$lt": soon}}, {"_id": 1}).hint("lanes")
            # In chunks: a paused webhook may have millions of deliveries.
            while rows := await expiring.to_list(CHUNK):
                await self._extend_retention([row["_id"] for row in rows], until)
                extended += len(rows)
        return extended

    async def _extend_retention(self, ids: Sequence[str], until: Instant) -> None:
        """Update the deliveries last, because an interrupted run is resumed from them."""
        change = {"$max": {"expiresAt": as_datetime(until)}}
        event_ids = list({outbox_rows.event_id_of(delivery_id) for delivery_id in ids})
        await self._bodies.extend_retention(self._events, event_ids, change)
        await self._events.update_many({"_id": {"$in": event_ids}, "expiresAt": {"$exists": True}}, change)
        await self._deliveries.update_many({"_id": {"$in": list(ids)}, "expiresAt": {"$exists": True}}, change)

    async def backlog(self, now: Instant) -> DeliveryBacklog:
        """The size and age of the backlog, for the metrics; counts stop at `_MAX_COUNTED`.

        Indexes answer each query at bounded cost: one entry per lane, and limited counts.
        """
        is_due = {"state": "due", "nextAttempt": {"$lte": now}}
        due = await self._deliveries.count_documents(is_due, limit=_MAX_COUNTED, hint="lanes")
        waiting = await self._order.count_waiting(_MAX_COUNTED)
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
        """Reseal bodies that are sealed under an older master key; returns the number of changed events."""
        return await self._bodies.reseal(self._events)

    async def _update_leased(self, leases: Sequence[DeliveryLease], change: Mapping[str, Any]) -> None:
        by_token: dict[str, list[str]] = collections.defaultdict(list)
        for lease in leases:
            by_token[lease.token].append(lease.delivery_id)
        writes: list[UpdateMany] = [
            UpdateMany({"_id": {"$in": ids}, "lease": token, "state": "due"}, change) for token, ids in by_token.items()
        ]
        if writes:
            await self._deliveries.bulk_write(writes, ordered=False)

    def _set_retention(self, document: Document, retention: SentEvents) -> None:
        """Set when a document expires, and whether the log shows it."""
        seconds = retention.seconds()
        if seconds is not None:
            lifetime_seconds = max(self._schedule_seconds + seconds, _MIN_RETENTION_SECONDS)
            document["expiresAt"] = as_datetime(later(document["insertInstant"], seconds=lifetime_seconds))
        if not retention.are_logged:
            document["isHidden"] = True


def _due(now: Instant, since: Instant | None = None, before: Instant | None = None) -> Document:
    """The filter of deliveries that are due now, optionally bounded by the instant from which they are."""
    bounds = {"$lte": now, "$gte": since, "$lt": before}
    return {"state": "due", "nextAttempt": {name: bound for name, bound in bounds.items() if bound is not None}}
