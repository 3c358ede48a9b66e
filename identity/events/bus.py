"""The bus: operations hand it a change and the events around it; it asks, writes and announces.

Nothing leaves the process for a change that did not commit, except the question to transactional webhooks whether it
may; nothing that committed is forgotten, because the events are written in the transaction of the change.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import orjson
import structlog

from identity.bulkhead import Bulkhead
from identity.call import Call, Document
from identity.domain.objects import event_info
from identity.domain.webhooks.retry_schedule import RetrySchedule
from identity.domain.webhooks.webhook_transactions import NONE, is_satisfied, stricter
from identity.errors import WebhookTransactionFailed
from identity.events.catalogue import EVENTS
from identity.events.changes import Change, Event, Write
from identity.events.delivery import Deliverer, DeliveryContext, Result
from identity.events.delivery_failure_log import Ending
from identity.events.subscriptions import SubscriptionIndex, transaction_type
from identity.ids import EventId, TenantId, WebhookId, new_id
from identity.instants import Instant
from identity.store.mongo import STORE_ERRORS, Database, Session
from identity.store.outbox import Outbox
from identity.store.outbox_rows import DeliveryAttempt, EventRow, NewDelivery
from identity.store.store_circuit_breaker import OPERATION_SECONDS
from identity.trace_context import TraceContext

_log = structlog.get_logger(__name__)

T = TypeVar("T")

_CHANCE = random.SystemRandom()
SYNCHRONOUS_AT_A_TIME = 100
"""How many questions a process asks at a time; of one webhook half of them, so that its silence is not everybody's."""
_MOST_WAITING = 1000
"""How many questions to one webhook wait for their turn; with more it is as good as away."""
_VETO = "A webhook that must agree to this change refused it, failed or could not be reached. Nothing was changed."


@dataclasses.dataclass(frozen=True, slots=True)
class _Gates:
    """Who hears of what in the tenants that a change concerns; `own` is the call's."""

    routes: SubscriptionIndex
    own: TenantId | None
    tenants: Mapping[TenantId, Document]

    def targets(self, event: Event) -> tuple[Document, ...]:
        """The webhooks that shall hear of an event."""
        return self.routes.to(event.kind, event.tenant_id or self.own, self.tenant(event.tenant_id))

    def tenant(self, tenant_id: TenantId | None) -> Document:
        """The tenant of an event that names one, else the call's; empty where there is none."""
        wanted = tenant_id or self.own
        return {} if wanted is None else self.tenants.get(wanted, {})

    def are_open(self) -> bool:
        """Whether any event at all of the call's tenant, or of the instance, would be heard."""
        return self.routes.are_open(self.own, self.tenant(None))


Announced = Sequence[Event] | Callable[[T], Sequence[Event]]


@dataclasses.dataclass(slots=True)
class _Outgoing:
    """An event on its way, with those who shall hear of it and what was already tried before the commit.

    `size` is that of its body in bytes, also where that is too large to go anywhere.
    """

    row: EventRow
    targets: tuple[Document, ...]
    deliveries: list[NewDelivery]
    transaction_type: str
    size: int

    @property
    def was_asked(self) -> bool:
        """Whether its receivers were asked about the change."""
        return not self.row.is_refused and any(delivery.first is not None for delivery in self.deliveries)


class Bus:
    """Brings changes and their events together."""

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        deliverer: Deliverer,
        schedule: RetrySchedule,
        *,
        webhooks: Callable[[], Awaitable[Sequence[Document]]],
        tenant: Callable[[TenantId], Awaitable[Document | None]],
        wake: Callable[[], None],
        locate: event_info.Locate | None = None,
    ) -> None:
        """`webhooks` and `tenant` answer from memory: both are asked for every change. `wake` rouses the workers.

        `locate` finds the place of an address, for events to tell.
        """
        self._database = database
        self._outbox = outbox
        self._deliverer = deliverer
        self._schedule = schedule
        self._webhooks = webhooks
        self._tenant = tenant
        self._wake = wake
        self._locate = locate
        self._questions = Bulkhead(SYNCHRONOUS_AT_A_TIME, SYNCHRONOUS_AT_A_TIME // 2)
        self._routes = SubscriptionIndex()
        self._building = asyncio.Lock()

    async def perform(
        self,
        call: Call,
        write: Write[T],
        offered: Sequence[Event] = (),
        announced: Announced[T] = (),
        *,
        patience_seconds: float = OPERATION_SECONDS,
    ) -> T:
        """Commit one write with its events and return its result."""
        after = announced if not callable(announced) else functools.partial(_after_one, announced)
        (result,) = await self.commit(call, Change([write], offered, after), patience_seconds=patience_seconds)
        return cast(T, result)

    async def commit(self, call: Call, change: Change, *, patience_seconds: float = OPERATION_SECONDS) -> list[Any]:
        """Commit a change after its transactional webhooks approved it; return the results of its writes in order.

        A single write gets None in place of a session when no event is stored with it. Writes, and a commit that meets
        a transient conflict, may take `patience_seconds` in all.

        Raises:
            WebhookTransactionFailed: too few of the transactional webhooks approved; nothing was written.
        """
        gates = await self._gates(call, change.before_commit)
        asked = await self._offer(call, change.before_commit, gates)
        after = [] if callable(change.after_commit) else self._outgoing(call, change.after_commit, gates)
        if not asked and not after and not (callable(change.after_commit) and gates.are_open()):
            return await self._database.execute(change.writes, patience_seconds=patience_seconds)

        recorded: list[_Outgoing] = []

        async def write(session: Session) -> list[Any]:
            results = await self._database.execute(change.writes, session)
            late = after
            if callable(change.after_commit):
                late = self._outgoing(call, change.after_commit(results), gates)
            recorded[:] = [*asked, *late]
            await self._record(session, recorded)
            return results

        try:
            results = await self._database.in_transaction(write, patience_seconds)
        except Exception:
            # What they were asked is told, though nothing came of it; where it did after all, it is told already.
            await self._record_veto([one for one in asked if one.was_asked])
            raise
        self._wake()
        await self._note(recorded, "recorded")
        return results

    async def has_subscribers(self, tenant_id: TenantId, event_type: str) -> bool:
        """Whether any webhook would receive an event: for payloads that are expensive to build."""
        event = Event(event_type, {}, tenant_id)
        return bool((await self._gates(None, [event])).targets(event))

    async def request_approval(self, call: Call, events: Sequence[Event]) -> None:
        """Have transactional webhooks approve what is not written here, such as a login; others receive it later.

        Raises:
            WebhookTransactionFailed: too few of the transactional webhooks approved.
        """
        await self.commit(call, Change(before_commit=events))

    async def announce(self, call: Call, events: Sequence[Event]) -> None:
        """Queue events that cannot be vetoed, whatever their type."""
        await self.commit(call, Change(after_commit=events))

    async def _gates(self, call: Call | None, events: Sequence[Event]) -> _Gates:
        webhooks = await self._webhooks()
        routes = await self._routes_to(webhooks)
        own = None if call is None else call.tenant_id
        concerned = {own, *(event.tenant_id for event in events)}
        tenants = {one: await self._tenant(one) or {} for one in concerned if one is not None}
        return _Gates(routes, own, tenants)

    async def _routes_to(self, webhooks: Sequence[Document]) -> SubscriptionIndex:
        """Built once for all who ask after a change of any webhook."""
        if webhooks is not self._routes.webhooks:
            async with self._building:
                if webhooks is not self._routes.webhooks:
                    self._routes = await SubscriptionIndex.built(webhooks)
        return self._routes

    def _outgoing(self, call: Call, events: Sequence[Event], gates: _Gates) -> list[_Outgoing]:
        """The events that anybody shall hear of, each to be delivered from now on."""
        outgoing = []
        for event in events:
            if targets := gates.targets(event):
                deliveries = [_delivery(webhook, call.now) for webhook in targets]
                row = _row(call, event, self._locate, self._trace(call, event))
                one = _Outgoing(row, targets, deliveries, event.transaction_type, len(row.body))
                outgoing.append(self._refused(one, event) if one.size > self._deliverer.bounds.max_bytes else one)
        return outgoing

    def _trace(self, call: Call, event: Event) -> TraceContext | None:
        """The trace of the request; what the service does by itself begins one, for all attempts to be in."""
        if call.origin.trace is not None:
            return call.origin.trace
        span = self._deliverer.tracer.begin(f"raise {event.type}", "producer", None)
        if span is None:
            return None
        span.end({"identity.event.type": event.type})
        return span.context

    def _refused(self, outgoing: _Outgoing, event: Event) -> _Outgoing:
        """An event that is too large: nobody gets it, and the log has it without its body."""
        row = outgoing.row
        reason = (
            f"payload: the event has {outgoing.size} bytes, more than the {self._deliverer.bounds.max_bytes} allowed"
        )
        deliveries = [
            _delivery(
                webhook, None, DeliveryAttempt(row.create_instant, row.create_instant, webhook["url"], exception=reason)
            )
            for webhook in outgoing.targets
        ]
        body = _outline(row, row.tenant_id or event.tenant_id)
        return dataclasses.replace(
            outgoing, row=dataclasses.replace(row, body=body, is_refused=True), deliveries=deliveries
        )

    async def _offer(self, call: Call, events: Sequence[Event], gates: _Gates) -> list[_Outgoing]:
        """Ask in the order of the events, of each event all webhooks at once; the first veto ends it."""
        outgoing = self._outgoing(call, events, gates)
        asked: list[_Outgoing] = []
        for one in outgoing:
            kind = stricter(
                transaction_type(EVENTS[one.row.type], gates.tenant(one.row.tenant_id)), one.transaction_type
            )
            if kind == NONE:
                continue
            asked.append(one)
            failures = _too_large(one) if one.row.is_refused else await self._ask(one, kind)
            if failures is not None:
                await self._record_veto(asked)
                await self._note(asked, "vetoed")
                raise WebhookTransactionFailed(_VETO, log_detail=f"{one.row.type}: {failures}")
        return outgoing

    async def _ask(self, outgoing: _Outgoing, kind: str) -> dict[str, str] | None:
        """Ask all webhooks of one event; answers who failed and how, where too few agreed."""
        row = outgoing.row
        delivery_context = DeliveryContext(row.type, 1, row.trace, row.via)
        results = await asyncio.gather(
            *(self._question(webhook, row, delivery_context) for webhook in outgoing.targets)
        )
        for result in results:
            self._deliverer.metrics.note_question(result.attempt)
        outgoing.deliveries = [
            self._after_first(webhook, result) for webhook, result in zip(outgoing.targets, results, strict=True)
        ]
        agreed = is_satisfied(kind, sum(result.attempt.succeeded for result in results), len(results))
        await self._tell(outgoing, results, "will be tried again" if agreed else "stopped a change")
        if agreed:
            return None
        failures = _failures(outgoing.targets, results)
        _log.warning(
            "webhooks vetoed a change", event_id=row.event_id, type=row.type, transaction=kind, failures=failures
        )
        return failures

    async def _question(self, webhook: Document, row: EventRow, delivery_context: DeliveryContext) -> Result:
        if self._questions.waiting(webhook["id"]) >= _MOST_WAITING:
            reason = "busy: too many questions wait for this receiver"
            return Result(DeliveryAttempt(row.create_instant, row.create_instant, webhook["url"], exception=reason))
        async with self._questions.held(webhook["id"]):
            return await self._deliverer.attempt(webhook, row.event_id, row.body, delivery_context)

    async def _record_veto(self, asked: Sequence[_Outgoing]) -> None:
        """Write for the log what was asked about a change that is not made."""
        if not asked:
            return
        for one in asked:
            one.deliveries = [dataclasses.replace(delivery, next_attempt=None) for delivery in one.deliveries]
        try:
            first = await self._outbox.reserve_sequence(len(asked))
            await self._outbox.record(None, [(one.row, one.deliveries) for one in asked], first, vetoed=True)
        except STORE_ERRORS as error:
            _log.warning("questions could not be written to the log", error=type(error).__name__)

    async def _note(self, outgoing: Sequence[_Outgoing], outcome: str) -> None:
        """Count events that are written, and tell of those that are large; what was vetoed may be tried again."""
        metrics = self._deliverer.metrics
        for one in outgoing:
            metrics.events.labels(outcome).inc()
            if one.size > self._deliverer.bounds.warn_bytes:
                await self._tell_of_size(one)

    async def _tell_of_size(self, outgoing: _Outgoing) -> None:
        row, is_refused = outgoing.row, outgoing.row.is_refused
        limit = self._deliverer.bounds.max_bytes if is_refused else self._deliverer.bounds.warn_bytes
        self._deliverer.metrics.oversized.labels("refused" if is_refused else "warned").inc()
        is_told = await self._deliverer.failures.oversized(row, outgoing.size, limit, is_refused=is_refused)
        if is_told or is_refused:
            about = {"type": row.type, "event_id": row.event_id, "bytes": outgoing.size, "limit": limit}
            _log.warning("event too large to be delivered" if is_refused else "event with a large body", **about)

    async def _tell(self, outgoing: _Outgoing, results: Sequence[Result], ending: Ending) -> None:
        row = outgoing.row
        for webhook, result in zip(outgoing.targets, results, strict=True):
            if not result.attempt.succeeded:
                await self._deliverer.failures.failed(webhook, row.type, row.event_id, result.attempt, ending)

    def _after_first(self, webhook: Document, result: Result) -> NewDelivery:
        due = None
        if not result.attempt.succeeded:
            due = self._schedule.next_attempt(
                result.attempt.end_instant,
                1,
                _CHANCE.random(),
                at_least_seconds=result.wait_seconds,
                was_asked=True,
            )
        return _delivery(webhook, due, result.attempt)

    async def _record(self, session: Session, outgoing: Sequence[_Outgoing]) -> None:
        if outgoing:
            first = await self._outbox.reserve_sequence(len(outgoing))
            await self._outbox.record(session, [(one.row, one.deliveries) for one in outgoing], first)


def _after_one(announced: Callable[[T], Sequence[Event]], results: Sequence[Any]) -> Sequence[Event]:
    return announced(results[0])


def _delivery(webhook: Document, due: Instant | None, first: DeliveryAttempt | None = None) -> NewDelivery:
    return NewDelivery(WebhookId(webhook["id"]), due, first, is_ordered=webhook.get("ordered", False))


def _too_large(outgoing: _Outgoing) -> dict[str, str]:
    """Who was not asked about an event that cannot be sent: silence is no agreement."""
    return {webhook["id"]: "payload: too large" for webhook in outgoing.targets}


def _outline(row: EventRow, tenant_id: TenantId | None) -> bytes:
    """The body of an event that is too large: what it was, and about whom."""
    members = {
        "createInstant": row.create_instant,
        "id": row.event_id,
        "linkedObjectId": row.linked_object_id,
        "tenantId": tenant_id,
        "type": row.type,
    }
    return orjson.dumps({"event": _without_nulls(members)})


def _failures(targets: Sequence[Document], results: Sequence[Result]) -> dict[str, str]:
    return {
        webhook["id"]: result.attempt.exception or f"status {result.attempt.status}"
        for webhook, result in zip(targets, results, strict=True)
        if not result.attempt.succeeded
    }


def _row(call: Call, event: Event, locate: event_info.Locate | None, trace: TraceContext | None) -> EventRow:
    """The event with the members that all events have, as the bytes that go out."""
    kind = event.kind
    tenant_id = None if kind.is_of_instance else event.tenant_id or call.tenant_id
    body_tenant_id = event.tenant_id if kind.is_of_instance else tenant_id
    event_id = EventId(new_id())
    linked_object_id = kind.linked_object_id(event.payload)
    members: Document = {
        **event.payload,
        "createInstant": call.now,
        "id": event_id,
        "info": event_info.of(call, locate) if kind.has_info else None,
        "linkedObjectId": linked_object_id,
        "tenantId": body_tenant_id,
        "type": kind.name,
    }
    if kind.repeats_ip_address:
        members["ipAddress"] = members["info"].get("ipAddress")
    body = orjson.dumps({"event": _without_nulls(members)}, option=orjson.OPT_SORT_KEYS)
    return EventRow(
        event_id, kind.name, tenant_id, linked_object_id, body, call.now, kind.holds_secrets,
        trace=trace, via=call.via,
    )  # fmt: skip


def _without_nulls(value: Any) -> Any:
    """The value without null members; arrays keep null, so that the other items keep their positions."""
    if isinstance(value, Mapping):
        return {name: _without_nulls(member) for name, member in value.items() if member is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(item) for item in value]
    return value
