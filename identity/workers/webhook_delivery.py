"""The delivery worker: lease due deliveries, send them, and write their outcomes.

Every process runs one. A webhook has its own limit of concurrent requests, so that a slow receiver delays only its own
deliveries. delivery_leases.py and delivery_backlog.py select deliveries, delivery_retries.py schedules retries.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import prometheus_client
import structlog

from identity import background_tasks
from identity.bulkhead import Bulkhead
from identity.call import Document
from identity.config.sections import Webhooks
from identity.domain.webhooks.webhook_health import DISABLED, PAUSED
from identity.events.delivery import AttemptResult, Deliverer, DeliveryContext
from identity.events.delivery_failure_log import Consequence
from identity.ids import WebhookId
from identity.instants import Clock, later
from identity.operations.webhooks.webhook_monitoring import WebhookMonitor
from identity.store.mongo import STORE_ERRORS
from identity.store.outbox import Outbox
from identity.store.outbox_rows import DeliveryAttempt, DeliveryLease, DeliveryOutcome
from identity.store.wakeups import Wakeups
from identity.workers.circuit_breakers import CircuitBreakers
from identity.workers.delivery_backlog import BacklogDrain
from identity.workers.delivery_leases import FEW, RESERVED_SHARE, DeliveryLeases
from identity.workers.delivery_metrics import DeliveryMetrics
from identity.workers.delivery_retries import DeliveryRetries

_log = structlog.get_logger(__name__)

T = TypeVar("T")

_POLL_SECONDS = 1.0
_DRAIN_SECONDS = 0.1
"""The interval between leases of the backlog; a batch is sent, and its outcomes are written, together."""
_BACK_OFF_SECONDS = 1.0
_BACKLOG_METRICS_SECONDS = 15.0
_EXTEND_EXPIRY_SECONDS = 600.0
_MIN_EVENT_AGE_SECONDS = 60
"""A delivery of a more recent event is not dropped when the event is not found."""
_MAX_LARGE_BODY_BYTES = 64 * 2**20
"""Memory for large bodies, at most half of it for one webhook."""
_RANDOM = random.SystemRandom()


class DeliveryWorker:
    """Delivers events until it is stopped."""

    def __init__(
        self,
        outbox: Outbox,
        deliverer: Deliverer,
        wakeups: Wakeups,
        clock: Clock,
        settings: Webhooks,
        registry: prometheus_client.CollectorRegistry,
        *,
        monitor: WebhookMonitor,
        stop_seconds: float = 10.0,
    ) -> None:
        """`stop_seconds` is the time that attempts in progress get to finish when the worker is stopped."""
        self._outbox = outbox
        self._deliverer = deliverer
        self._wakeups = wakeups
        self._clock = clock
        self._settings = settings
        self._metrics = DeliveryMetrics(registry)
        self._monitor = monitor
        self._breakers = CircuitBreakers(settings, self._metrics)
        self._leases = DeliveryLeases(outbox, clock, settings, self._breakers, monitor, self._metrics)
        self._backlog = BacklogDrain(outbox, clock, settings, self._leases)
        self._retries = DeliveryRetries(settings, deliverer.metrics)
        self._stop_seconds = stop_seconds
        maximum = settings.max_concurrency
        self._requests = Bulkhead(maximum, maximum, reserved=maximum // RESERVED_SHARE, reserved_per_owner=FEW)
        self._large_bodies = Bulkhead(_MAX_LARGE_BODY_BYTES, _MAX_LARGE_BODY_BYTES // 2)
        self._is_stopping = False
        self._semaphores: dict[WebhookId, asyncio.Semaphore] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._outcomes: list[DeliveryOutcome] = []
        self._has_outcomes = asyncio.Event()
        self._loops: list[asyncio.Task[None]] = []
        self._leasing: background_tasks.ShieldedTask[list[DeliveryLease] | None] = background_tasks.ShieldedTask()
        self._is_reachable = True

    async def start(self) -> None:
        """Start the loops."""
        self._loops = [
            background_tasks.start("deliver-lease", self._lease_forever),
            background_tasks.start("deliver-drain", self._drain_forever),
            background_tasks.start("deliver-settle", self._write_outcomes_forever),
            # Leases are renewed before they expire: an attempt may take longer than a lease.
            self._start_periodic("deliver-renew", self._leases.renew, self._settings.lease_seconds / 3),
            self._start_periodic("deliver-measure", self._measure_backlog, _BACKLOG_METRICS_SECONDS),
            self._start_periodic("deliver-keep", self._extend_expiry, _EXTEND_EXPIRY_SECONDS),
        ]

    async def stop(self) -> None:
        """Stop leasing, let attempts in progress finish, and release all other leases."""
        self._is_stopping = True
        await background_tasks.end(self._loops)
        for leases in await self._leasing.unclaimed(self._stop_seconds):
            self._leases.held |= {lease.delivery_id: lease for lease in leases or ()}
        if self._running:
            await asyncio.wait(self._running, timeout=self._stop_seconds)
        await background_tasks.end(list(self._running))
        try:
            await self._write_outcomes()
            await self._leases.release()
        except STORE_ERRORS as error:
            _log.warning("leases could not be released; they expire by themselves", error=type(error).__name__)
        self._leases.held.clear()

    # Leasing.

    async def _lease_forever(self) -> None:
        while True:
            self._wakeups.awake.clear()
            leases = await self._until_reachable(lambda: self._leasing.run(self._leases.acquire()))
            self._log_reachability(is_reachable=True)
            self._start_all(leases or ())
            if not leases:
                await self._wakeups.wait(_POLL_SECONDS)

    async def _drain_forever(self) -> None:
        while True:
            leases = await self._until_reachable(lambda: self._leasing.run(self._backlog.acquire()))
            self._start_all(leases or ())
            # The jitter keeps processes from competing for the same deliveries.
            await asyncio.sleep((_POLL_SECONDS if leases == [] else _DRAIN_SECONDS) * (0.5 + _RANDOM.random()))

    def _start_all(self, leases: Sequence[DeliveryLease]) -> None:
        for lease in leases:
            self._start(lease)

    def _start(self, lease: DeliveryLease) -> None:
        if self._leases.add(lease):
            task = asyncio.create_task(self._deliver(lease))
            self._running.add(task)
            task.add_done_callback(functools.partial(self._finished, lease))

    def _finished(self, lease: DeliveryLease, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            # An unexpected error must neither stop other deliveries nor leave this one held forever.
            _log.error("delivery failed inside", event_id=lease.event_id, webhook_id=lease.webhook_id, exc_info=error)
            now = self._clock.now()
            attempt = DeliveryAttempt(now, now, "", exception="internal: the attempt could not be made")
            self._add_outcome(self._assessed(lease, AttemptResult(attempt)))

    # Sending.

    async def _deliver(self, lease: DeliveryLease) -> None:
        limit = asyncio.Semaphore(self._settings.concurrency_per_webhook)
        async with self._semaphores.setdefault(lease.webhook_id, limit), self._requests.held(lease.webhook_id):
            if self._is_stopping:
                return
            outcome = await self._outcome(lease)
        self._add_outcome(outcome)
        await self._log_failure(outcome)

    async def _outcome(self, lease: DeliveryLease) -> DeliveryOutcome:
        webhook = await self._webhook(lease.webhook_id)
        if webhook is None or webhook.get("status") == DISABLED:
            return self._dropped(lease)
        if lease.body == b"":
            return self._without_event(lease)
        wait_seconds = await self._monitor.rate_limit_seconds(webhook)
        if wait_seconds or webhook.get("status") == PAUSED:
            self._deliverer.metrics.postponed.labels("rate limit" if wait_seconds else "paused").inc()
            return DeliveryOutcome(lease, None, later(self._clock.now(), seconds=wait_seconds or _POLL_SECONDS))
        if lease.body is not None:
            return await self._sent(webhook, lease, lease.body)
        async with self._large_bodies.held(lease.webhook_id, lease.body_bytes):
            body = await self._until_reachable(functools.partial(self._outbox.body, lease.event_id))
            return await self._sent(webhook, lease, body) if body else self._dropped(lease)

    def _without_event(self, lease: DeliveryLease) -> DeliveryOutcome:
        """Drop a delivery whose event does not exist; if the event is recent, retry instead.

        Delivery and event are read separately: during an election, or from different shards, the event may become
        visible later than the delivery.
        """
        now = self._clock.now()
        if now - lease.insert_instant >= _MIN_EVENT_AGE_SECONDS * 1000:
            return self._dropped(lease)
        return DeliveryOutcome(lease, None, later(now, seconds=_POLL_SECONDS))

    def _dropped(self, lease: DeliveryLease) -> DeliveryOutcome:
        _log.warning("delivery dropped: webhook or event is gone", event_id=lease.event_id, webhook_id=lease.webhook_id)
        self._metrics.attempts.labels("dropped").inc()
        return DeliveryOutcome(lease, None, None)

    async def _sent(self, webhook: Document, lease: DeliveryLease, body: bytes) -> DeliveryOutcome:
        context = DeliveryContext(lease.type, lease.attempts + 1, lease.trace, lease.via)
        return self._assessed(lease, await self._deliverer.attempt(webhook, lease.event_id, body, context))

    def _assessed(self, lease: DeliveryLease, result: AttemptResult) -> DeliveryOutcome:
        attempt = result.attempt
        self._metrics.attempts.labels("success" if attempt.succeeded else "failure").inc()
        self._metrics.seconds.observe((attempt.end_instant - attempt.start_instant) / 1000)
        if lease.attempts == 0:
            self._metrics.wait_seconds.observe(max(0, attempt.start_instant - lease.insert_instant) / 1000)
        self._breakers.note(lease.webhook_id, success=attempt.succeeded)
        return self._retries.outcome(lease, result)

    async def _webhook(self, webhook_id: WebhookId) -> Document | None:
        """The webhook of a delivery, read from MongoDB if the cache has none that is enabled.

        Wakeups (Redis) may arrive before the change stream updates the cache: no delivery is dropped because another
        process has just created or enabled its webhook.
        """
        await self._until_reachable(self._leases.refresh_webhooks)
        cached = self._leases.webhooks.get(webhook_id)
        if cached is not None and cached.get("status") != DISABLED:
            return cached
        return await self._until_reachable(functools.partial(self._monitor.find_webhook, webhook_id))

    async def _log_failure(self, outcome: DeliveryOutcome) -> None:
        """Write a failure to the event log, outside of the concurrency limits."""
        lease, attempt = outcome.lease, outcome.attempt
        webhook = self._leases.webhooks.get(lease.webhook_id)
        if webhook is not None and attempt is not None and not attempt.succeeded:
            consequence: Consequence = "was given up" if outcome.next_attempt is None else "will be tried again"
            await self._deliverer.failures.failed(webhook, lease.type, lease.event_id, attempt, consequence)

    # Writing.

    def _add_outcome(self, outcome: DeliveryOutcome) -> None:
        self._outcomes.append(outcome)
        self._has_outcomes.set()

    async def _write_outcomes_forever(self) -> None:
        while True:
            await self._has_outcomes.wait()
            await self._until_reachable(self._write_outcomes)

    async def _write_outcomes(self) -> None:
        """Write all outcomes so far, then release their leases; keep them if that fails."""
        self._has_outcomes.clear()
        outcomes = [self._leases.with_current_lease(outcome) for outcome in self._outcomes]
        try:
            has_successors = await self._outbox.record_outcomes(outcomes)
        except BaseException:
            self._has_outcomes.set()  # the outcomes are still to be written
            raise
        del self._outcomes[: len(outcomes)]
        was_full = self._leases.room() <= 0
        for outcome in outcomes:
            self._release(outcome)
        if was_full or has_successors or self._leases.has_room_again():
            self._wakeups.awake.set()
        await self._monitor.record(outcomes)

    def _release(self, outcome: DeliveryOutcome) -> None:
        newer_lease = self._leases.remove(outcome)
        webhook_id = outcome.lease.webhook_id
        if webhook_id not in self._leases.counts:
            self._semaphores.pop(webhook_id, None)
        if newer_lease is not None:
            self._start(newer_lease)

    # Maintenance.

    def _start_periodic(
        self, name: str, work: Callable[[], Awaitable[None]], interval_seconds: float
    ) -> asyncio.Task[None]:
        return background_tasks.start(name, functools.partial(self._repeat_forever, work, interval_seconds))

    async def _repeat_forever(self, work: Callable[[], Awaitable[None]], interval_seconds: float) -> None:
        while True:
            await self._until_reachable(work)
            await asyncio.sleep(interval_seconds)

    async def _extend_expiry(self) -> None:
        await self._outbox.extend_retention_of_due(self._clock.now())

    async def _measure_backlog(self) -> None:
        self._metrics.set_backlog(await self._outbox.backlog(self._clock.now()))

    async def _until_reachable(self, query: Callable[[], Awaitable[T]]) -> T:
        """The result of a query, repeated while MongoDB is unavailable."""
        while True:
            try:
                return await query()
            except STORE_ERRORS as error:
                self._log_reachability(is_reachable=False, error=error)
                await asyncio.sleep(_BACK_OFF_SECONDS)

    def _log_reachability(self, *, is_reachable: bool, error: Exception | None = None) -> None:
        """Log the beginning and the end of an outage of MongoDB, each once."""
        if is_reachable == self._is_reachable:
            return
        self._is_reachable = is_reachable
        if is_reachable:
            _log.info("MongoDB is reachable again: deliveries continue")
        else:
            _log.warning("MongoDB is unreachable: deliveries are suspended", error=type(error).__name__)
