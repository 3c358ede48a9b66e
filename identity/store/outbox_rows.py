"""The values stored in the outbox and read from it: events, deliveries, attempts, leases and outcomes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from identity.call import Document
from identity.ids import EventId, TenantId, WebhookId, new_id
from identity.instants import Instant
from identity.trace_context import TraceContext


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
