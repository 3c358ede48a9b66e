"""The delivery loop: lease what is due, send it, write what became of it.

Every process runs one. Each webhook has its own queue and its own bound on requests at a time, so that a slow receiver
holds up nobody but itself; what a process holds is bounded too, so that an outage fills MongoDB and not the memory.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import functools
import random
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Protocol, TypeVar

import prometheus_client
import structlog

from identity import background_tasks
from identity.bulkhead import Bulkhead
from identity.call import Document
from identity.config import Webhooks
from identity.domain.objects.token_bucket import TokenBucket
from identity.domain.webhooks.prefetch_window import PrefetchHorizon, PrefetchWindow
from identity.domain.webhooks.retry_schedule import RetrySchedule
from identity.domain.webhooks.webhook_health import DISABLED, GONE, PAUSED
from identity.events.delivery import AttemptResult, Deliverer, DeliveryContext
from identity.events.delivery_failure_log import Consequence
from identity.ids import WebhookId
from identity.instants import Clock, later
from identity.store.mongo import STORE_ERRORS
from identity.store.outbox import Outbox
from identity.store.outbox_rows import DeliveryAttempt, DeliveryLease, DeliveryOutcome
from identity.store.wakeups import Wakeups
from identity.workers.circuit_breakers import CircuitBreakers
from identity.workers.delivery_metrics import DeliveryMetrics

_log = structlog.get_logger(__name__)

T = TypeVar("T")

_POLL_SECONDS = 1.0
LATE_SECONDS = 10
"""What should have been made so long ago belongs to a backlog, and goes as fast as that may."""
_DRAIN_SECONDS = 0.1
"""How often more of a backlog is taken: what is taken together is sent, and written down, together."""
_BACK_OFF_SECONDS = 1.0
_BACKLOG_SECONDS = 15.0
_KEEP_SECONDS = 600.0
_FRESH_SECONDS = 60
"""An event is not gone so soon."""
_MOST_LARGE_BYTES = 64 * 2**20
"""How much of large bodies is in memory at a time, however much is due; of one webhook half of it."""
_AT_HAND = 2
"""How many times as much a process has at hand as it may have under way."""
_KEPT_PART = 4
"""A fourth of the places, and of what is at hand, is for webhooks with little of it: many that hang hold up nobody."""
_LITTLE = 2
_CHANCE = random.SystemRandom()


class Watch(Protocol):
    """Who looks after the webhooks themselves."""

    async def webhooks(self) -> Sequence[Document]:
        """Every webhook, from memory."""

    async def webhook_now(self, webhook_id: WebhookId) -> Document | None:
        """A webhook as MongoDB has it now: what is in memory may not have heard of it yet."""

    async def wait_seconds(self, webhook: Document) -> float:
        """How long a delivery to this webhook has to wait for its turn; 0 when it may go."""

    async def look(self, outcomes: Sequence[DeliveryOutcome]) -> None:
        """Draw conclusions from outcomes that are written."""


class DeliveryWorker:
    """Takes deliveries and makes them, until it is told to stop."""

    def __init__(
        self,
        outbox: Outbox,
        deliverer: Deliverer,
        wakeups: Wakeups,
        clock: Clock,
        settings: Webhooks,
        registry: prometheus_client.CollectorRegistry,
        *,
        watch: Watch,
        stop_seconds: float = 10.0,
    ) -> None:
        """`stop_seconds` is how long attempts under way may finish in at the end."""
        self._outbox = outbox
        self._deliverer = deliverer
        self._wakeups = wakeups
        self._clock = clock
        self._settings = settings
        self._schedule = RetrySchedule(settings.schedule, settings.jitter, settings.is_published)
        self._metrics = DeliveryMetrics(registry)
        self._watch = watch
        self._breakers = CircuitBreakers(settings, self._metrics)
        self._stop_seconds = stop_seconds
        self._held: dict[str, DeliveryLease] = {}
        self._counts: collections.Counter[WebhookId] = collections.Counter()
        self._horizon = PrefetchHorizon()
        self._appetites: dict[WebhookId, PrefetchWindow] = {}
        self._behind: set[WebhookId] = set()
        self._backlog = TokenBucket(settings.backlog_per_second)
        self._known: Sequence[Document] = ()
        self._by_id: dict[str, Document] = {}
        self._places = Bulkhead(
            settings.max_concurrency,
            settings.max_concurrency,
            kept=settings.max_concurrency // _KEPT_PART,
            little=_LITTLE,
        )
        self._large = Bulkhead(_MOST_LARGE_BYTES, _MOST_LARGE_BYTES // 2)
        self._is_stopping = False
        self._turns: dict[WebhookId, asyncio.Semaphore] = {}
        self._under_way: set[asyncio.Task[None]] = set()
        self._outcomes: list[DeliveryOutcome] = []
        self._has_outcomes = asyncio.Event()
        self._loops: list[asyncio.Task[None]] = []
        self._taking: background_tasks.ShieldedTask[list[DeliveryLease] | None] = background_tasks.ShieldedTask()
        self._is_reachable = True

    async def start(self) -> None:
        """Begin."""
        self._loops = [
            background_tasks.start("deliver-lease", self._lease_for_ever),
            background_tasks.start("deliver-drain", self._drain_for_ever),
            background_tasks.start("deliver-settle", self._settle_for_ever),
            background_tasks.start("deliver-renew", self._renew_for_ever),
            background_tasks.start("deliver-measure", self._measure_for_ever),
            background_tasks.start("deliver-keep", self._keep_for_ever),
        ]

    async def stop(self) -> None:
        """Take nothing more, let attempts under way finish, and hand back everything else."""
        self._is_stopping = True
        await background_tasks.end(self._loops)
        for leases in await self._taking.left(self._stop_seconds):
            self._held |= {lease.delivery_id: lease for lease in leases or ()}
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=self._stop_seconds)
        await background_tasks.end(list(self._under_way))
        try:
            await self._settle()
            await self._outbox.release(list(self._held.values()), self._clock.now())
        except STORE_ERRORS as error:
            _log.warning("leases could not be handed back; they run out by themselves", error=type(error).__name__)
        self._held.clear()

    # Taking.

    async def _lease_for_ever(self) -> None:
        while True:
            self._wakeups.awake.clear()
            try:
                leases = await self._taking.take(self._lease())
                self._note(reachable=True)
            except STORE_ERRORS as error:
                self._note(reachable=False, error=error)
                await asyncio.sleep(_BACK_OFF_SECONDS)
                continue
            self._take_all(leases or ())
            if not leases:
                await self._wait_for_work()

    async def _lease(self) -> list[DeliveryLease]:
        """As many due deliveries as there is room for, of each webhook as many as it will soon have taken."""
        settings = self._settings
        room = self._room()
        if room <= 0:
            return []
        await self._know_webhooks()
        self._behind.clear()
        now = self._clock.now()
        since, began = later(now, seconds=-LATE_SECONDS), monotonic()
        leases = await self._outbox.lease(now, settings.lease_seconds, self._room_of, room, since=since)
        self._horizon.note(monotonic() - began)
        return leases

    async def _drain_for_ever(self) -> None:
        """What piled up goes by itself, so that nothing that happens now waits until it is looked through."""
        while True:
            try:
                leases = await self._taking.take(self._late())
            except STORE_ERRORS as error:
                self._note(reachable=False, error=error)
                await asyncio.sleep(_BACK_OFF_SECONDS)
                continue
            self._take_all(leases or ())
            # Not in step with other processes, or all of them would go for the same ones.
            await asyncio.sleep((_POLL_SECONDS if leases == [] else _DRAIN_SECONDS) * (0.5 + _CHANCE.random()))

    async def _late(self) -> list[DeliveryLease] | None:
        """As many of a backlog as may go now, None where none may; half of a webhook's room is left to what is new."""
        settings = self._settings
        await self._know_webhooks()
        limit = min(self._room(), self._backlog.room(monotonic()))
        if limit <= 0:
            return None
        now = self._clock.now()
        leases = await self._outbox.lease(
            now, settings.lease_seconds, self._late_room_of, limit, before=later(now, seconds=-LATE_SECONDS)
        )
        self._backlog.use(len(leases))
        return leases

    def _late_room_of(self, webhook_id: WebhookId) -> int:
        return -(-self._room_of(webhook_id) // 2)

    def _room(self) -> int:
        return _AT_HAND * self._settings.max_concurrency - len(self._held)

    def _room_of(self, webhook_id: WebhookId) -> int:
        """How many more deliveries to a webhook, of which some are due, may be taken now."""
        held = self._counts[webhook_id]
        webhook = self._by_id.get(webhook_id)
        if webhook is not None and webhook.get("status") == PAUSED:
            return 0
        # What waits for one that is disabled is given up: its receiver is not asked any more, down or not.
        is_disabled = webhook is not None and webhook.get("status") == DISABLED
        room = None if is_disabled else self._breakers.room(webhook_id, held)
        if room is None:
            room = self._appetite(webhook_id).room(monotonic(), held, self._horizon.seconds)
        room = min(room, max(self._room() - self._kept_room(), _LITTLE - held))
        if room <= 0:
            self._behind.add(webhook_id)
        return room

    def _kept_room(self) -> int:
        return _AT_HAND * self._settings.max_concurrency // _KEPT_PART

    def _appetite(self, webhook_id: WebhookId) -> PrefetchWindow:
        found = self._appetites.get(webhook_id)
        if found is None:
            settings = self._settings
            # Half of what a process has at hand at the most: see _room.
            found = PrefetchWindow(settings.concurrency_per_webhook, settings.max_concurrency)
            self._appetites[webhook_id] = found
        return found

    async def _wait_for_work(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_POLL_SECONDS):
                await self._wakeups.awake.wait()

    def _take_all(self, leases: Sequence[DeliveryLease]) -> None:
        for lease in leases:
            self._take(lease)
        self._metrics.held.set(len(self._held))

    def _take(self, lease: DeliveryLease) -> None:
        is_under_way = lease.delivery_id in self._held
        self._held[lease.delivery_id] = lease
        if is_under_way:
            # Its lease ran out because MongoDB was away, or we stood still: what comes of it goes by the new one.
            return
        self._counts[lease.webhook_id] += 1
        task = asyncio.create_task(self._deliver(lease))
        self._under_way.add(task)
        task.add_done_callback(functools.partial(self._ended, lease))

    def _ended(self, lease: DeliveryLease, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            # Whatever it is, this delivery must neither stop the others nor be held for ever.
            _log.error("delivery failed inside", event_id=lease.event_id, webhook_id=lease.webhook_id, exc_info=error)
            now = self._clock.now()
            failed = DeliveryAttempt(now, now, "", exception="internal: the attempt could not be made")
            self._add(self._judged(lease, AttemptResult(failed)))

    # Sending.

    async def _deliver(self, lease: DeliveryLease) -> None:
        turn = self._turns.setdefault(lease.webhook_id, asyncio.Semaphore(self._settings.concurrency_per_webhook))
        async with turn, self._places.held(lease.webhook_id):
            if self._is_stopping:
                return
            outcome = await self._outcome(lease)
        self._add(outcome)
        await self._tell(outcome)

    async def _tell(self, outcome: DeliveryOutcome) -> None:
        """Put a failure into the event log; after the attempt is noted, and when its place is free again."""
        lease, attempt = outcome.lease, outcome.attempt
        webhook = self._by_id.get(lease.webhook_id)
        if webhook is not None and attempt is not None and not attempt.succeeded:
            consequence: Consequence = "was given up" if outcome.next_attempt is None else "will be tried again"
            await self._deliverer.failures.failed(webhook, lease.type, lease.event_id, attempt, consequence)

    def _add(self, outcome: DeliveryOutcome) -> None:
        self._outcomes.append(outcome)
        self._has_outcomes.set()

    async def _outcome(self, lease: DeliveryLease) -> DeliveryOutcome:
        webhook = await self._webhook(lease.webhook_id)
        if webhook is None or webhook.get("status") == DISABLED:
            return self._dropped(lease)
        if lease.body == b"":
            return self._without_event(lease)
        wait_seconds = await self._watch.wait_seconds(webhook)
        if wait_seconds or webhook.get("status") == PAUSED:
            self._deliverer.metrics.postponed.labels("rate limit" if wait_seconds else "paused").inc()
            return DeliveryOutcome(lease, None, later(self._clock.now(), seconds=wait_seconds or _POLL_SECONDS))
        if lease.body is not None:
            return await self._sent(webhook, lease, lease.body)
        async with self._large.held(lease.webhook_id, lease.body_bytes):
            body = await self._patiently(lambda: self._outbox.body(lease.event_id))
            return await self._sent(webhook, lease, body) if body else self._dropped(lease)

    def _without_event(self, lease: DeliveryLease) -> DeliveryOutcome:
        """What becomes of a delivery whose event was not found; of a fresh one it is asked for once more.

        One is read from one place and the other from another: while MongoDB elects a server, or where it has several
        shards, a moment may lie between what the two tell.
        """
        now = self._clock.now()
        if now - lease.insert_instant >= _FRESH_SECONDS * 1000:
            return self._dropped(lease)
        return DeliveryOutcome(lease, None, later(now, seconds=_POLL_SECONDS))

    def _dropped(self, lease: DeliveryLease) -> DeliveryOutcome:
        _log.warning("delivery dropped: webhook or event is gone", event_id=lease.event_id, webhook_id=lease.webhook_id)
        self._metrics.attempts.labels("dropped").inc()
        return DeliveryOutcome(lease, None, None)

    async def _sent(self, webhook: Document, lease: DeliveryLease, body: bytes) -> DeliveryOutcome:
        delivery_context = DeliveryContext(lease.type, lease.attempts + 1, lease.trace, lease.via)
        return self._judged(lease, await self._deliverer.attempt(webhook, lease.event_id, body, delivery_context))

    async def _webhook(self, webhook_id: WebhookId) -> Document | None:
        """The webhook of a delivery; nothing is given up by what is in memory alone.

        A process hears of events through Redis sooner than of webhooks through the change stream: one that another
        process has just made, or enabled, is no reason to drop what happened right after it.
        """
        await self._patiently(self._know_webhooks)
        known = self._by_id.get(webhook_id)
        if known is not None and known.get("status") != DISABLED:
            return known
        return await self._patiently(lambda: self._watch.webhook_now(webhook_id))

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What MongoDB answers, as soon as it does."""
        while True:
            try:
                return await ask()
            except STORE_ERRORS as error:
                self._note(reachable=False, error=error)
                await asyncio.sleep(_BACK_OFF_SECONDS)

    async def _know_webhooks(self) -> None:
        webhooks = await self._watch.webhooks()
        if webhooks is not self._known:
            self._known, self._by_id = webhooks, {webhook["id"]: webhook for webhook in webhooks}
            self._breakers.keep(self._by_id)
            self._appetites = {key: one for key, one in self._appetites.items() if key in self._by_id}
            self._metrics.note_states(webhooks)

    def _judged(self, lease: DeliveryLease, result: AttemptResult) -> DeliveryOutcome:
        attempt = result.attempt
        self._measure(lease, attempt)
        self._breakers.note(lease.webhook_id, success=attempt.succeeded)
        metrics = self._deliverer.metrics
        if attempt.succeeded:
            return DeliveryOutcome(lease, attempt, None)
        if attempt.status == GONE:
            metrics.given_up.inc()
            return DeliveryOutcome(lease, attempt, None)
        due = self._schedule.next_attempt(
            attempt.end_instant, lease.attempts + 1, _CHANCE.random(), at_least_seconds=result.wait_seconds
        )
        (metrics.given_up if due is None else metrics.retries).inc()
        if due is None:
            _log.error(
                "delivery given up",
                event_id=lease.event_id,
                webhook_id=lease.webhook_id,
                attempts=lease.attempts + 1,
                reason=attempt.exception or f"status {attempt.status}",
            )
        return DeliveryOutcome(lease, attempt, due)

    def _measure(self, lease: DeliveryLease, attempt: DeliveryAttempt) -> None:
        self._metrics.attempts.labels("success" if attempt.succeeded else "failure").inc()
        self._metrics.seconds.observe((attempt.end_instant - attempt.start_instant) / 1000)
        if lease.attempts == 0:
            self._metrics.wait_seconds.observe(max(0, attempt.start_instant - lease.insert_instant) / 1000)

    # Writing.

    async def _settle_for_ever(self) -> None:
        while True:
            await self._has_outcomes.wait()
            try:
                await self._settle()
            except STORE_ERRORS as error:
                self._note(reachable=False, error=error)
                await asyncio.sleep(_BACK_OFF_SECONDS)

    async def _settle(self) -> None:
        """Write all outcomes so far; they are held until they are written."""
        self._has_outcomes.clear()
        # Under the leases that we have by now: see `_take`.
        outcomes = [dataclasses.replace(one, lease=self._held.get(one.lease.delivery_id, one.lease))
                    for one in self._outcomes]  # fmt: skip
        try:
            others_follow = await self._outbox.record_outcomes(outcomes)
        except BaseException:
            self._has_outcomes.set()  # whatever it was: they are still to be written
            raise
        del self._outcomes[: len(outcomes)]
        was_full = self._room() <= 0
        for outcome in outcomes:
            self._release(outcome)
        self._metrics.held.set(len(self._held))
        if was_full or others_follow or any(self._room_of(webhook_id) > 0 for webhook_id in tuple(self._behind)):
            self._wakeups.awake.set()  # there is more where these came from
        await self._watch.look(outcomes)

    def _release(self, outcome: DeliveryOutcome) -> None:
        lease = outcome.lease
        held = self._held.pop(lease.delivery_id, None)
        if held is None:
            return  # the second outcome of one that failed after its first
        self._counts[lease.webhook_id] -= 1
        if outcome.attempt is not None:
            self._appetite(lease.webhook_id).note(monotonic())
        if self._counts[lease.webhook_id] <= 0:
            del self._counts[lease.webhook_id]
            self._turns.pop(lease.webhook_id, None)
        if held is not lease:
            self._take(held)  # it was due again, and leased, while we wrote what came of it

    # Holding on.

    async def _renew_for_ever(self) -> None:
        """A receiver may take longer than a lease: what is held is renewed well before it runs out."""
        while True:
            await asyncio.sleep(self._settings.lease_seconds / 3)
            try:
                until = later(self._clock.now(), seconds=self._settings.lease_seconds)
                await self._outbox.renew(list(self._held.values()), until)
            except STORE_ERRORS as error:
                self._note(reachable=False, error=error)

    async def _keep_for_ever(self) -> None:
        """Nothing that is due may expire."""
        while True:
            await self._patiently(lambda: self._outbox.keep_due(self._clock.now()))
            await asyncio.sleep(_KEEP_SECONDS)

    async def _measure_for_ever(self) -> None:
        while True:
            try:
                backlog = await self._outbox.backlog(self._clock.now())
                self._metrics.due.set(backlog.due)
                self._metrics.oldest_seconds.set(backlog.oldest_seconds)
                self._metrics.waiting.set(backlog.waiting)
            except STORE_ERRORS as error:
                self._note(reachable=False, error=error)
            await asyncio.sleep(_BACKLOG_SECONDS)

    def _note(self, *, reachable: bool, error: Exception | None = None) -> None:
        """Log an outage once, and its end."""
        if reachable == self._is_reachable:
            return
        self._is_reachable = reachable
        if reachable:
            _log.info("MongoDB is back: deliveries go on")
        else:
            _log.warning("MongoDB is away: deliveries wait", error=type(error).__name__)
