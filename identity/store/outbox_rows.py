"""What goes into the outbox and what comes out of it: events, deliveries, attempts, leases and what became of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from identity.call import Document
from identity.ids import EventId, TenantId, WebhookId, new_id
from identity.instants import Instant
from identity.trace_context import TraceContext


@dataclasses.dataclass(frozen=True, slots=True)
class EventRow:
    """One event as it goes out: `body` is the same bytes for every receiver and every attempt.

    One that `holds_secrets`, such as a token, lies sealed in MongoDB. One that `is_refused` is for the log alone, and
    has a body that says no more than what it was. `trace` and `via` are those of the request that raised it.
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
    """One request to a webhook. `status` is None when there was no answer; `exception` says what failed.

    `answer` is the beginning of what the receiver said, `headers` the header of its answer.
    """

    start_instant: Instant
    end_instant: Instant
    url: str
    status: int | None = None
    exception: str | None = None
    answer: str = ""
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    attempt_id: str = dataclasses.field(default_factory=new_id)

    @property
    def succeeded(self) -> bool:
        """Whether the receiver took the event: a status from 200 to 299 and nothing else."""
        return self.exception is None and self.status is not None and 200 <= self.status < 300

    def without_answer(self) -> DeliveryAttempt:
        """The attempt with its status alone, where what was said cannot be kept."""
        failed = None if self.exception is None else "unreadable: what went wrong cannot be written down"
        return dataclasses.replace(self, exception=failed, answer="", headers={})

    def to_document(self, next_attempt: Instant | None = None, *, is_manual: bool = False) -> Document:
        """The attempt as it is stored, with the instant of the one that is to follow it."""
        document: Document = {
            "id": self.attempt_id,
            "startInstant": self.start_instant,
            "endInstant": self.end_instant,
            "url": self.url,
        }
        told = {
            "statusCode": self.status,
            "exception": self.exception,
            "responseBody": self.answer or None,
            "responseHeaders": dict(self.headers) or None,
            "nextAttemptInstant": next_attempt,
            "isManual": is_manual or None,
        }
        return document | {name: value for name, value in told.items() if value is not None}


@dataclasses.dataclass(frozen=True, slots=True)
class NewDelivery:
    """A delivery to be recorded with its event; with a `first` attempt when one was made before the commit.

    `next_attempt` None means that nothing remains to be done: the first attempt succeeded, or was the only one. An
    ordered one waits for the earlier ones about the same object.
    """

    webhook_id: WebhookId
    next_attempt: Instant | None
    first: DeliveryAttempt | None = None
    is_ordered: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class DeliveryLease:
    """A delivery that is this process's to make until the lease runs out.

    `body` is empty where the event is gone, and None where it is large and has to be fetched; `body_bytes` says how
    large it is about.
    `attempts` were made before, since it was last asked for; `is_manual`: somebody asked for it again, `asked` when.
    `ordered_by` is the object whose deliveries follow each other, where they do; `trace` and `via` are the event's.
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
    asked: Instant | None = None
    ordered_by: str | None = None
    trace: TraceContext | None = None
    via: tuple[str, ...] = ()
    body_bytes: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """What became of a lease: `next_attempt` None after a failure means that it is given up.

    Without an attempt and with a next one the delivery was only put off.
    """

    lease: DeliveryLease
    attempt: DeliveryAttempt | None
    next_attempt: Instant | None

    @property
    def is_told(self) -> bool:
        """Whether the delivery has ended: it succeeded, or was given up."""
        return self.attempt is not None or self.next_attempt is None

    @property
    def makes_way(self) -> bool:
        """Whether the next delivery about the same object has waited for this one."""
        return self.next_attempt is None and self.lease.ordered_by is not None

    @property
    def instant(self) -> Instant:
        """When it came about."""
        return self.lease.insert_instant if self.attempt is None else self.attempt.end_instant


@dataclasses.dataclass(frozen=True, slots=True)
class DeliveryBacklog:
    """How many deliveries are due, 10,000 for as many or more, and how long the oldest of them has been.

    `waiting`, counted so too, were put off for an earlier one about the same object.
    """

    due: int
    oldest_seconds: float
    waiting: int = 0
