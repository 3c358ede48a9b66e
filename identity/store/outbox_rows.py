"""The values of the outbox (events, deliveries, attempts, leases and outcomes), and their documents in MongoDB."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from pymongo import UpdateOne

from identity.call import Document
from identity.ids import EventId, TenantId, WebhookId, new_id
from identity.instants import Instant
from identity.store import request_context
from identity.store.delivery_selection import lane_of
from identity.trace_context import TraceContext

State = Literal["due", "succeeded", "given up", "vetoed"]


@dataclasses.dataclass(frozen=True, slots=True)
class EventRow:
    """An event. Every receiver and every attempt gets the same bytes as `body`.

    If it `holds_secrets`, such as a token, the body is sealed in MongoDB. If it `is_refused`, it exists only for the
    log, with a body that contains no details. `trace` and `via` are those of the request that raised it.
    """

    event_id: EventId
    type: str
    tenant_id: TenantId | None
    linked_object_id: str | None
    body: bytes
    create_instant: Instant
    holds_secrets: bool = False
    is_refused: bool = False
    trace: TraceContext | None = None
    via: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class DeliveryAttempt:
    """A request to a webhook. Without a response `status` is None and `exception` contains the reason.

    `response_body` is the beginning of the body.
    """

    start_instant: Instant
    end_instant: Instant
    url: str
    status: int | None = None
    exception: str | None = None
    response_body: str = ""
    response_headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    attempt_id: str = dataclasses.field(default_factory=new_id)

    @property
    def succeeded(self) -> bool:
        """Whether the receiver accepted the event with a status from 200 to 299."""
        return self.exception is None and self.status is not None and 200 <= self.status < 300

    def without_response(self) -> DeliveryAttempt:
        """The attempt with only the status of its response, if the rest cannot be stored."""
        exception = None if self.exception is None else "unreadable: the error message cannot be stored"
        return dataclasses.replace(self, exception=exception, response_body="", response_headers={})

    def to_document(self, next_attempt: Instant | None = None, *, is_manual: bool = False) -> Document:
        """The stored form of the attempt, with the instant of the next one."""
        members = {
            "id": self.attempt_id,
            "startInstant": self.start_instant,
            "endInstant": self.end_instant,
            "url": self.url,
            "statusCode": self.status,
            "exception": self.exception,
            "responseBody": self.response_body or None,
            "responseHeaders": dict(self.response_headers) or None,
            "nextAttemptInstant": next_attempt,
            "isManual": is_manual or None,
        }
        return {name: value for name, value in members.items() if value is not None}


@dataclasses.dataclass(frozen=True, slots=True)
class NewDelivery:
    """A delivery to be recorded with its event; `first_attempt` is one that was made before the commit.

    `next_attempt` is None if no attempt remains: the first succeeded, or was the only one. An ordered delivery waits
    for earlier ones about the same object.
    """

    webhook_id: WebhookId
    next_attempt: Instant | None
    first_attempt: DeliveryAttempt | None = None
    is_ordered: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class DeliveryLease:
    """A delivery that only this process may attempt until the lease expires.

    `body` is empty if the event no longer exists, and None if it is large and must be read separately; `body_bytes` is
    the approximate size. `attempts` counts since the delivery was last requested. `is_manual` means that it was
    requested again, at `request_instant`. `ordered_by` is the object whose deliveries are ordered, if they are; `trace`
    and `via` are those of the event.
    """

    delivery_id: str
    event_id: EventId
    webhook_id: WebhookId
    attempts: int
    type: str
    body: bytes | None
    insert_instant: Instant
    token: str
    is_manual: bool = False
    request_instant: Instant | None = None
    ordered_by: str | None = None
    trace: TraceContext | None = None
    via: tuple[str, ...] = ()
    body_bytes: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """The outcome of a lease. A failure without `next_attempt` is final: the delivery is given up.

    Without an attempt and with a next one, the delivery was only postponed.
    """

    lease: DeliveryLease
    attempt: DeliveryAttempt | None
    next_attempt: Instant | None

    @property
    def is_attempted_or_final(self) -> bool:
        """Whether the event has to record it: everything but a postponement."""
        return self.attempt is not None or self.next_attempt is None

    @property
    def unblocks_next(self) -> bool:
        """Whether the next delivery about the same object was waiting for this one."""
        return self.next_attempt is None and self.lease.ordered_by is not None

    @property
    def instant(self) -> Instant:
        """The end of the attempt or, without one, the instant of the event."""
        return self.lease.insert_instant if self.attempt is None else self.attempt.end_instant


@dataclasses.dataclass(frozen=True, slots=True)
class DeliveryBacklog:
    """The number of due deliveries and how long the oldest has been due.

    `waiting` deliveries are postponed behind an earlier one about the same object. 10,000 means "as many or more".
    """

    due: int
    oldest_seconds: float
    waiting: int = 0


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
