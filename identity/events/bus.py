"""Event bus: commits a change and its events in one transaction, after transactional webhooks approved it.

Before the commit, only approval requests leave the process. Events are stored in the transaction of the change, so no
event of a committed change is lost and none is sent for a change that was rolled back.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import orjson
import structlog

from identity.bulkhead import Bulkhead
from identity.call import Call, Document
from identity.domain.objects import event_info
from identity.domain.webhooks.retry_schedule import RetrySchedule
from identity.domain.webhooks.webhook_transactions import NONE, is_satisfied, stricter
from identity.errors import WebhookTransactionFailed
from identity.events.catalogue import EVENTS
from identity.events.changes import Change, Event
from identity.events.delivery import AttemptResult, Deliverer, DeliveryContext
from identity.events.delivery_failure_log import Consequence
from identity.events.subscriptions import SubscriptionIndex, transaction_type
from identity.ids import EventId, TenantId, WebhookId, new_id
from identity.instants import Instant
from identity.store.mongo import STORE_ERRORS, Database, Session
from identity.store.outbox import Outbox
from identity.store.outbox_rows import DeliveryAttempt, EventRow, NewDelivery
from identity.store.store_circuit_breaker import OPERATION_SECONDS
from identity.trace_context import TraceContext

_log = structlog.get_logger(__name__)

_RANDOM = random.SystemRandom()
MAX_APPROVAL_REQUESTS = 100
"""Concurrent approval requests of a process; at most half of them to one webhook, so that none can block the others."""
_MAX_QUEUED_APPROVAL_REQUESTS = 1000
"""Approval requests queued for one webhook; further ones fail at once."""
_VETO = "A transactional webhook rejected this change, failed or could not be reached. Nothing was changed."


@dataclasses.dataclass(frozen=True, slots=True)
class _Subscriptions:
    """The subscriptions in the tenants that a change concerns; `call_tenant_id` is the call's tenant."""

    index: SubscriptionIndex
    call_tenant_id: TenantId | None
    tenants: Mapping[TenantId, Document]

    def webhooks_for(self, event: Event) -> tuple[Document, ...]:
        """The webhooks subscribed to an event."""
        return self.index.webhooks_for(
            event.definition, event.tenant_id or self.call_tenant_id, self.tenant(event.tenant_id)
        )

    def tenant(self, tenant_id: TenantId | None) -> Document:
        """The tenant of an event that names one, else the call's; empty where there is none."""
        found_id = tenant_id or self.call_tenant_id
        return {} if found_id is None else self.tenants.get(found_id, {})

    def has_any(self) -> bool:
        """Whether a webhook subscribes to any event of the call's tenant or of the instance."""
        return self.index.has_any(self.call_tenant_id, self.tenant(None))


@dataclasses.dataclass(slots=True)
class _PendingEvent:
    """An event to be stored with its deliveries; `size_bytes` is the size of its body, even if that is not sent."""

    row: EventRow
    webhooks: tuple[Document, ...]
    deliveries: list[NewDelivery]
    transaction_type: str
    size_bytes: int

    @property
    def approval_requested(self) -> bool:
        """Whether approval requests were sent for it before the commit."""
        return not self.row.is_refused and any(delivery.first_attempt is not None for delivery in self.deliveries)


class Bus:
    """Commits changes together with their events."""

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
        """`webhooks` and `tenant` read from a cache on every change; `wake` notifies the delivery workers.

        `locate` returns the location of an IP address for `event.info`.
        """
        self._database = database
        self._outbox = outbox
        self._deliverer = deliverer
        self._schedule = schedule
        self._webhooks = webhooks
        self._tenant = tenant
        self._wake = wake
        self._locate = locate
        self._approval_requests = Bulkhead(MAX_APPROVAL_REQUESTS, MAX_APPROVAL_REQUESTS // 2)
        self._index = SubscriptionIndex()
        self._building = asyncio.Lock()

    async def commit(self, call: Call, change: Change, *, limit_seconds: float = OPERATION_SECONDS) -> list[Any]:
        """Commit a change after its transactional webhooks approved it; return the results of its writes in order.

        A single write gets None in place of a session when no event is stored with it. Transient conflicts are retried
        for at most `limit_seconds`.

        Raises:
            WebhookTransactionFailed: too few of the transactional webhooks approved; nothing was written.
        """
        subscriptions = await self._subscriptions(call, change.before_commit)
        before = await self._approved(call, change.before_commit, subscriptions)
        is_late = callable(change.after_commit)
        after = [] if callable(change.after_commit) else self._pending(call, change.after_commit, subscriptions)
        if not before and not after and not (is_late and subscriptions.has_any()):
            return await self._database.execute(change.writes, limit_seconds=limit_seconds)

        stored = [*before, *after]
        write = functools.partial(self._write, call, change, subscriptions, stored, len(stored))
        try:
            results = await self._database.in_transaction(write, limit_seconds)
        except Exception:
            # Log the approval requests although nothing was written. If the commit did happen, they are stored already.
            await self._log_approval_requests([pending for pending in before if pending.approval_requested])
            raise
        self._wake()
        await self._report_stored(stored, "recorded")
        return results

    async def has_subscribers(self, tenant_id: TenantId, event_type: str) -> bool:
        """Whether any webhook would receive an event: for payloads that are expensive to build."""
        event = Event(event_type, {}, tenant_id)
        return bool((await self._subscriptions(None, [event])).webhooks_for(event))

    async def request_approval(self, call: Call, events: Sequence[Event]) -> None:
        """Have transactional webhooks approve what is not written here, such as a login; others receive it later.

        Raises:
            WebhookTransactionFailed: too few of the transactional webhooks approved.
        """
        await self.commit(call, Change(before_commit=events))

    async def announce(self, call: Call, events: Sequence[Event]) -> None:
        """Queue events that cannot be vetoed, whatever their type."""
        await self.commit(call, Change(after_commit=events))

    async def _subscriptions(self, call: Call | None, events: Sequence[Event]) -> _Subscriptions:
        index = await self._current_index(await self._webhooks())
        call_tenant_id = None if call is None else call.tenant_id
        tenant_ids = {call_tenant_id, *(event.tenant_id for event in events)}
        tenants = {tenant_id: await self._tenant(tenant_id) or {} for tenant_id in tenant_ids if tenant_id is not None}
        return _Subscriptions(index, call_tenant_id, tenants)

    async def _current_index(self, webhooks: Sequence[Document]) -> SubscriptionIndex:
        """The index of these webhooks, built once after each change of any webhook."""
        if webhooks is not self._index.webhooks:
            async with self._building:
                if webhooks is not self._index.webhooks:
                    self._index = await SubscriptionIndex.built(webhooks)
        return self._index

    def _pending(self, call: Call, events: Sequence[Event], subscriptions: _Subscriptions) -> list[_PendingEvent]:
        """The events that have subscribers, with deliveries that are due now."""
        pending_events = []
        for event in events:
            if webhooks := subscriptions.webhooks_for(event):
                deliveries = [_delivery(webhook, call.now) for webhook in webhooks]
                row = _row(call, event, self._locate, self._trace(call, event))
                pending = _PendingEvent(row, webhooks, deliveries, event.transaction_type, len(row.body))
                is_oversized = pending.size_bytes > self._deliverer.limits.max_bytes
                pending_events.append(self._refused(pending, event) if is_oversized else pending)
        return pending_events

    def _trace(self, call: Call, event: Event) -> TraceContext | None:
        """The trace of the request; without one, begin a trace that all attempts of the event belong to."""
        if call.origin.trace is not None:
            return call.origin.trace
        span = self._deliverer.tracer.begin(f"raise {event.type}", "producer", None)
        if span is None:
            return None
        span.end({"identity.event.type": event.type})
        return span.context

    def _refused(self, pending: _PendingEvent, event: Event) -> _PendingEvent:
        """An oversized event: it is logged without its body and not delivered."""
        row, limit = pending.row, self._deliverer.limits.max_bytes
        reason = f"payload: the event has {pending.size_bytes} bytes, more than the {limit} allowed"
        deliveries = [_delivery(webhook, None, _failed_attempt(row, webhook, reason)) for webhook in pending.webhooks]
        body = _outline(row, row.tenant_id or event.tenant_id)
        row = dataclasses.replace(row, body=body, is_refused=True)
        return dataclasses.replace(pending, row=row, deliveries=deliveries)

    async def _approved(
        self, call: Call, events: Sequence[Event], subscriptions: _Subscriptions
    ) -> list[_PendingEvent]:
        """Request approval in the order of the events, of all webhooks of an event at once; stop at the first veto."""
        pending_events = self._pending(call, events, subscriptions)
        requested: list[_PendingEvent] = []
        for pending in pending_events:
            row = pending.row
            configured = transaction_type(EVENTS[row.type], subscriptions.tenant(row.tenant_id))
            required = stricter(configured, pending.transaction_type)
            if required == NONE:
                continue
            self._deliverer.quiescence.require_approval(row.type)
            requested.append(pending)
            failures = _oversized(pending) if row.is_refused else await self._send_approval_requests(pending, required)
            if failures is not None:
                await self._log_approval_requests(requested)
                await self._report_stored(requested, "vetoed")
                raise WebhookTransactionFailed(_VETO, log_detail=f"{row.type}: {failures}")
        return pending_events

    async def _send_approval_requests(self, pending: _PendingEvent, required: str) -> dict[str, str] | None:
        """Send an event to all its webhooks; return the failures by webhook id if too few approved, else None."""
        row = pending.row
        context = DeliveryContext(row.type, 1, row.trace, row.via)
        results = await asyncio.gather(*(self._send(webhook, row, context) for webhook in pending.webhooks))
        for result in results:
            self._deliverer.metrics.observe_approval_request(result.attempt)
        pending.deliveries = [
            self._attempted_delivery(webhook, result) for webhook, result in zip(pending.webhooks, results, strict=True)
        ]
        is_approved = is_satisfied(required, sum(result.attempt.succeeded for result in results), len(results))
        await self._report_failures(pending, results, "will be tried again" if is_approved else "stopped a change")
        if is_approved:
            return None
        failures = _failures(pending.webhooks, results)
        _log.warning(
            "webhooks vetoed a change", event_id=row.event_id, type=row.type, transaction=required, failures=failures
        )
        return failures

    async def _send(self, webhook: Document, row: EventRow, context: DeliveryContext) -> AttemptResult:
        if self._approval_requests.queue_length(webhook["id"]) >= _MAX_QUEUED_APPROVAL_REQUESTS:
            reason = "busy: too many approval requests are queued for this webhook"
            return AttemptResult(_failed_attempt(row, webhook, reason))
        async with self._approval_requests.held(webhook["id"]):
            return await self._deliverer.attempt(webhook, row.event_id, row.body, context)

    def _attempted_delivery(self, webhook: Document, result: AttemptResult) -> NewDelivery:
        """The delivery after its approval request; if that failed, it is due again by the schedule."""
        due = None
        if not result.attempt.succeeded:
            due = self._schedule.next_attempt(
                result.attempt.end_instant,
                1,
                _RANDOM.random(),
                at_least_seconds=result.wait_seconds,
                approval_requested=True,
            )
        return _delivery(webhook, due, result.attempt)

    async def _write(
        self,
        call: Call,
        change: Change,
        subscriptions: _Subscriptions,
        stored: list[_PendingEvent],
        known: int,
        session: Session,
    ) -> list[Any]:
        """Run the writes and store the events. Of `stored`, the first `known` do not depend on the results."""
        results = await self._database.execute(change.writes, session)
        if callable(change.after_commit):
            stored[known:] = self._pending(call, change.after_commit(results), subscriptions)
        if stored:
            first = await self._outbox.reserve_sequence(len(stored))
            await self._outbox.record(session, [(pending.row, pending.deliveries) for pending in stored], first)
        return results

    async def _log_approval_requests(self, requested: Sequence[_PendingEvent]) -> None:
        """Store the approval requests of a change that was not made, for the log; nothing is delivered."""
        if not requested:
            return
        for pending in requested:
            pending.deliveries = [dataclasses.replace(delivery, next_attempt=None) for delivery in pending.deliveries]
        rows = [(pending.row, pending.deliveries) for pending in requested]
        try:
            first = await self._outbox.reserve_sequence(len(rows))
            await self._outbox.record(None, rows, first, vetoed=True)
        except STORE_ERRORS as error:
            _log.warning("approval requests could not be written to the log", error=type(error).__name__)

    async def _report_stored(self, stored: Sequence[_PendingEvent], outcome: str) -> None:
        """Count stored events and report those with a large body."""
        for pending in stored:
            self._deliverer.metrics.events.labels(outcome).inc()
            if pending.size_bytes > self._deliverer.limits.warn_bytes:
                await self._report_size(pending)

    async def _report_size(self, pending: _PendingEvent) -> None:
        row, is_refused, limits = pending.row, pending.row.is_refused, self._deliverer.limits
        limit = limits.max_bytes if is_refused else limits.warn_bytes
        self._deliverer.metrics.oversized.labels("refused" if is_refused else "warned").inc()
        is_logged = await self._deliverer.failures.oversized(row, pending.size_bytes, limit, is_refused=is_refused)
        if is_logged or is_refused:
            fields = {"type": row.type, "event_id": row.event_id, "bytes": pending.size_bytes, "limit": limit}
            _log.warning("event too large to be delivered" if is_refused else "event with a large body", **fields)

    async def _report_failures(
        self, pending: _PendingEvent, results: Sequence[AttemptResult], consequence: Consequence
    ) -> None:
        row = pending.row
        for webhook, result in zip(pending.webhooks, results, strict=True):
            if not result.attempt.succeeded:
                await self._deliverer.failures.failed(webhook, row.type, row.event_id, result.attempt, consequence)


def _delivery(webhook: Document, due: Instant | None, first: DeliveryAttempt | None = None) -> NewDelivery:
    return NewDelivery(WebhookId(webhook["id"]), due, first, is_ordered=webhook.get("ordered", False))


def _failed_attempt(row: EventRow, webhook: Document, reason: str) -> DeliveryAttempt:
    """The record of an attempt that failed without a request."""
    return DeliveryAttempt(row.create_instant, row.create_instant, webhook["url"], exception=reason)


def _oversized(pending: _PendingEvent) -> dict[str, str]:
    """The failures of an event that is too large to be sent: without a request there is no approval."""
    return {webhook["id"]: "payload: too large" for webhook in pending.webhooks}


def _outline(row: EventRow, tenant_id: TenantId | None) -> bytes:
    """The body logged for an oversized event: its type and the ids that it concerns."""
    members = {
        "createInstant": row.create_instant,
        "id": row.event_id,
        "linkedObjectId": row.linked_object_id,
        "tenantId": tenant_id,
        "type": row.type,
    }
    return orjson.dumps({"event": _without_nulls(members)})


def _failures(webhooks: Sequence[Document], results: Sequence[AttemptResult]) -> dict[str, str]:
    return {
        webhook["id"]: result.attempt.exception or f"status {result.attempt.status}"
        for webhook, result in zip(webhooks, results, strict=True)
        if not result.attempt.succeeded
    }


def _row(call: Call, event: Event, locate: event_info.Locate | None, trace: TraceContext | None) -> EventRow:
    """The row of an event, with the members common to all events; its body is the exact bytes to be sent."""
    definition = event.definition
    tenant_id = None if definition.is_of_instance else event.tenant_id or call.tenant_id
    body_tenant_id = event.tenant_id if definition.is_of_instance else tenant_id
    event_id = EventId(new_id())
    linked_object_id = definition.linked_object_id(event.payload)
    members: Document = {
        **event.payload,
        "createInstant": call.now,
        "id": event_id,
        "info": event_info.build(call, locate) if definition.has_info else None,
        "linkedObjectId": linked_object_id,
        "tenantId": body_tenant_id,
        "type": definition.name,
    }
    if definition.repeats_ip_address:
        members["ipAddress"] = members["info"].get("ipAddress")
    body = orjson.dumps({"event": _without_nulls(members)}, option=orjson.OPT_SORT_KEYS)
    return EventRow(
        event_id, definition.name, tenant_id, linked_object_id, body, call.now, definition.holds_secrets,
        trace=trace, via=call.via,
    )  # fmt: skip


def _without_nulls(value: Any) -> Any:
    """The value without null members; arrays keep null, so that the other items keep their positions."""
    if isinstance(value, Mapping):
        return {name: _without_nulls(member) for name, member in value.items() if member is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(item) for item in value]
    return value
