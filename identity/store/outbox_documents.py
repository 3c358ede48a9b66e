"""How the outbox's events and deliveries lie in MongoDB: their rows, and the updates that outcomes make of them."""

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
    """The id of the one delivery of an event to a webhook."""
    return f"{event_id}:{webhook_id}"


def event_of(of_delivery: str) -> EventId:
    """The event that the delivery with this id tells of."""
    return EventId(of_delivery.partition(":")[0])


def event_document(row: EventRow, deliveries: Sequence[NewDelivery], sequence: int, *, vetoed: bool) -> Document:
    """The row of an event, all but its body."""
    untried = [] if vetoed else [one.webhook_id for one in deliveries if one.first is None]
    stored: Document = {
        "_id": row.event_id,
        "type": row.type,
        "sequence": sequence,
        "insertInstant": row.create_instant,
        "untried": untried,
        "result": "Failed" if vetoed else "Running" if untried else "Succeeded",
        **_of(row),
        **request_context.stored(row.trace, row.via),
    }
    if tried := [one.first.start_instant for one in deliveries if one.first is not None]:
        stored["lastAttemptInstant"] = max(tried)
    return stored


def _of(row: EventRow) -> Document:
    """What a row of either collection tells of whom the event concerns."""
    told = {"tenantId": row.tenant_id, "linkedObjectId": row.linked_object_id}
    return {name: value for name, value in told.items() if value is not None}


def delivery_document(row: EventRow, delivery: NewDelivery, sequence: int) -> Document:
    """The row of a delivery of that event."""
    stored: Document = {
        "_id": delivery_id(row.event_id, delivery.webhook_id),
        "eventId": row.event_id,
        "webhookId": delivery.webhook_id,
        "lane": lane_of(delivery.webhook_id, row.tenant_id),
        "state": _state(delivery.first, delivery.next_attempt),
        "attempts": [] if delivery.first is None else [delivery.first.to_document(delivery.next_attempt)],
        "insertInstant": row.create_instant,
        "sequence": sequence,
        **_of(row),
    }
    if delivery.next_attempt is not None:
        stored["nextAttempt"] = delivery.next_attempt
    if delivery.is_ordered and row.linked_object_id is not None:
        stored["isOrdered"] = True
    return stored


def leases_of(taken: Iterable[Document], events: Mapping[str, Document | None], token: str) -> list[DeliveryLease]:
    """The leases under this token of these rows, as far as their events can be read."""
    return [
        DeliveryLease(
            delivery_id=row["_id"],
            event_id=row["eventId"],
            webhook_id=row["webhookId"],
            attempts=len(row.get("attempts", ())) - row.get("base", 0),
            insert_instant=row["insertInstant"],
            token=token,
            is_manual=row.get("isManual", False),
            asked=row.get("asked"),
            ordered_by=row.get("linkedObjectId") if row.get("isOrdered") else None,
            **told,
        )
        for row in taken
        if (told := events.get(row["eventId"], {"type": "", "body": b""})) is not None
    ]


def _state(attempt: DeliveryAttempt | None, next_attempt: Instant | None) -> State:
    if next_attempt is not None:
        return "due"
    return "succeeded" if attempt is not None and attempt.succeeded else "given up"


def settlement(outcome: DeliveryOutcome, keep: int | None = None) -> UpdateOne:
    """The update of a delivery; of its attempts the last `keep` stay, or all of them."""
    state = _state(outcome.attempt, outcome.next_attempt)
    where: Document = {"_id": outcome.lease.delivery_id, "state": "due"}
    # A success counts though its lease ran out, but not for what was asked for since.
    where |= {"asked": outcome.lease.asked} if state == "succeeded" else {"lease": outcome.lease.token}
    change: Document = {"$set": {"state": state}, "$unset": {"lease": ""}}
    if outcome.next_attempt is not None:
        change["$set"]["nextAttempt"] = outcome.next_attempt
    else:
        change["$unset"]["nextAttempt"] = ""
    if outcome.attempt is not None:
        told = outcome.attempt.to_document(outcome.next_attempt, is_manual=outcome.lease.is_manual)
        change["$push"] = {"attempts": told if keep is None else {"$each": [told], "$slice": -keep}}
    return UpdateOne(where, change)


def noted(event_id: EventId, outcomes: Sequence[DeliveryOutcome]) -> UpdateOne:
    """What an event's own row learns of attempts; it may be told twice."""
    tried = [outcome.lease.webhook_id for outcome in outcomes]
    change: Document = {"untried": {"$setDifference": ["$untried", tried]}}
    instants = [outcome.attempt.start_instant for outcome in outcomes if outcome.attempt is not None]
    if instants:
        change["lastAttemptInstant"] = {"$max": ["$lastAttemptInstant", max(instants)]}
    result = {"$cond": [{"$eq": ["$untried", []]}, "Succeeded", "Running"]}
    return UpdateOne({"_id": event_id}, [{"$set": change}, {"$set": {"result": result}}])
