"""The documents of events and deliveries in MongoDB, and the updates that outcomes of deliveries make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from pymongo import UpdateOne

from identity.call import Document
from identity.ids import EventId
from identity.instants import Instant
from identity.store import request_context
from identity.store.delivery_lanes import lane_of
from identity.store.outbox_rows import DeliveryAttempt, DeliveryLease, DeliveryOutcome, EventRow, NewDelivery

State = Literal["due", "succeeded", "given up", "vetoed"]


def delivery_id(event_id: str, webhook_id: str) -> str:
    """The id of the delivery of an event to a webhook."""
    return f"{event_id}:{webhook_id}"


def event_id_of(delivery_id: str) -> EventId:
    """The event of a delivery."""
    return EventId(delivery_id.partition(":")[0])


def event_document(row: EventRow, deliveries: Sequence[NewDelivery], sequence: int, *, vetoed: bool) -> Document:
    """The document of an event, without its body."""
    untried = [] if vetoed else [new.webhook_id for new in deliveries if new.first_attempt is None]
    document: Document = {
        "_id": row.event_id,
        "type": row.type,
        "sequence": sequence,
        "insertInstant": row.create_instant,
        "untried": untried,
        "result": "Failed" if vetoed else "Running" if untried else "Succeeded",
        **_subject(row),
        **request_context.stored(row.trace, row.via),
    }
    if attempts := [new.first_attempt.start_instant for new in deliveries if new.first_attempt is not None]:
        document["lastAttemptInstant"] = max(attempts)
    return document


def _subject(row: EventRow) -> Document:
    members = {"tenantId": row.tenant_id, "linkedObjectId": row.linked_object_id}
    return {name: value for name, value in members.items() if value is not None}


def delivery_document(row: EventRow, new: NewDelivery, sequence: int) -> Document:
    """The document of a delivery of an event."""
    attempt = new.first_attempt
    document: Document = {
        "_id": delivery_id(row.event_id, new.webhook_id),
        "eventId": row.event_id,
        "webhookId": new.webhook_id,
        "lane": lane_of(new.webhook_id, row.tenant_id),
        "state": _state(attempt, new.next_attempt),
        "attempts": [] if attempt is None else [attempt.to_document(new.next_attempt)],
        "insertInstant": row.create_instant,
        "sequence": sequence,
        **_subject(row),
    }
    if new.next_attempt is not None:
        document["nextAttempt"] = new.next_attempt
    if new.is_ordered and row.linked_object_id is not None:
        document["isOrdered"] = True
    return document


def leases_of(rows: Iterable[Document], events: Mapping[str, Document | None], token: str) -> list[DeliveryLease]:
    """The leases of these deliveries, except those whose event cannot be read now (None)."""
    return [
        DeliveryLease(
            delivery_id=row["_id"],
            event_id=row["eventId"],
            webhook_id=row["webhookId"],
            attempts=len(row.get("attempts", ())) - row.get("base", 0),
            insert_instant=row["insertInstant"],
            token=token,
            is_manual=row.get("isManual", False),
            request_instant=row.get("asked"),
            ordered_by=row.get("linkedObjectId") if row.get("isOrdered") else None,
            **event,
        )
        for row in rows
        if (event := events.get(row["eventId"], {"type": "", "body": b""})) is not None
    ]


def _state(attempt: DeliveryAttempt | None, next_attempt: Instant | None) -> State:
    if next_attempt is not None:
        return "due"
    return "succeeded" if attempt is not None and attempt.succeeded else "given up"


def outcome_update(outcome: DeliveryOutcome, max_attempts: int | None = None) -> UpdateOne:
    """The update of a delivery with its outcome; stores all attempts, or only the last `max_attempts`."""
    state = _state(outcome.attempt, outcome.next_attempt)
    where: Document = {"_id": outcome.lease.delivery_id, "state": "due"}
    # A success counts even if its lease has expired, but not if the delivery was requested again since.
    where |= {"asked": outcome.lease.request_instant} if state == "succeeded" else {"lease": outcome.lease.token}
    change: Document = {"$set": {"state": state}, "$unset": {"lease": ""}}
    if outcome.next_attempt is not None:
        change["$set"]["nextAttempt"] = outcome.next_attempt
    else:
        change["$unset"]["nextAttempt"] = ""
    if outcome.attempt is not None:
        attempt = outcome.attempt.to_document(outcome.next_attempt, is_manual=outcome.lease.is_manual)
        change["$push"] = {
            "attempts": attempt if max_attempts is None else {"$each": [attempt], "$slice": -max_attempts}
        }
    return UpdateOne(where, change)


def event_update(event_id: EventId, outcomes: Sequence[DeliveryOutcome]) -> UpdateOne:
    """The update of an event with the outcomes of its deliveries; it is idempotent."""
    tried = [outcome.lease.webhook_id for outcome in outcomes]
    change: Document = {"untried": {"$setDifference": ["$untried", tried]}}
    instants = [outcome.attempt.start_instant for outcome in outcomes if outcome.attempt is not None]
    if instants:
        change["lastAttemptInstant"] = {"$max": ["$lastAttemptInstant", max(instants)]}
    result = {"$cond": [{"$eq": ["$untried", []]}, "Succeeded", "Running"]}
    return UpdateOne({"_id": event_id}, [{"$set": change}, {"$set": {"result": result}}])
