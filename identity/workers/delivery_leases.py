"""The deliveries leased by this process, and how many more it may lease, in all and per webhook.

The limits bound memory, so that an outage of a receiver fills MongoDB and not the process; and they leave room for
other webhooks when one is slow. The prefetch window of a webhook is sized from its recent throughput. Its times are
seconds of a monotonic clock.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Final

from identity.call import Document
from identity.config.sections import Webhooks
from identity.domain.webhooks.webhook_health import DISABLED, PAUSED
from identity.ids import WebhookId
from identity.instants import Clock, later
from identity.operations.webhooks.webhook_monitoring import WebhookMonitor
from identity.store.outbox import Outbox
from identity.store.outbox_rows import DeliveryLease, DeliveryOutcome
from identity.workers.circuit_breakers import CircuitBreakers
from identity.workers.delivery_metrics import DeliveryMetrics

BACKLOG_AGE_SECONDS: Final = 10
"""Deliveries that have been due for longer belong to the backlog, which is drained separately."""
RESERVED_SHARE: Final = 4
"""One in so many requests, and held leases, is reserved for webhooks that use few of them."""
FEW: Final = 2
"""The number of requests, or leases, up to which a webhook may use the reserved ones."""
_PREFETCH_FACTOR = 2
"""Held leases as a multiple of concurrent requests."""


_AVERAGE_SECONDS = 1.0
_MIN_HORIZON_SECONDS = 0.5
_MAX_HORIZON_SECONDS = 5.0
_LEASES_AHEAD = 3
_MIN_ROUNDS = 2
_MAX_ROUNDS = 20
"""Limits in multiples of the concurrency: deliveries held by a process that dies arrive late."""


class PrefetchHorizon:
    """How long the held deliveries should last: several times as long as a lease query takes.

    A slow query (a busy process or a busy MongoDB) would otherwise leave fast receivers idle.
    """

    def __init__(self) -> None:
        self._lease_seconds = 0.0

    def note(self, lease_seconds: float) -> None:
        """Record the duration of a lease query in the moving average (weight one half)."""
        self._lease_seconds = (self._lease_seconds + lease_seconds) / 2

    @property
    def seconds(self) -> float:
        """The horizon, within its limits."""
        return min(max(_MIN_HORIZON_SECONDS, _LEASES_AHEAD * self._lease_seconds), _MAX_HORIZON_SECONDS)


class PrefetchWindow:
    """The recent throughput of one webhook and the window that follows from it."""

    def __init__(self, concurrency: int, maximum: int) -> None:
        """`concurrency`: concurrent requests to the webhook; `maximum`: held deliveries, to leave room for others."""
        self._minimum = _MIN_ROUNDS * concurrency
        self._maximum = max(self._minimum, min(_MAX_ROUNDS * concurrency, maximum))
        self._rate = 0.0
        self._noted_at = 0.0

    def note(self, now: float) -> None:
        """Record a finished attempt, whatever its outcome."""
        self._rate = self._current_rate(now) + 1
        self._noted_at = now

    def room(self, now: float, held: int, horizon_seconds: float = _MIN_HORIZON_SECONDS) -> int:
        """How many more to lease while `held` are held; 0 until half of the window is free, to lease in batches."""
        window = round(self._current_rate(now) * horizon_seconds / _AVERAGE_SECONDS)
        window = min(max(self._minimum, window), self._maximum)
        return window - held if 2 * held <= window else 0

    def _current_rate(self, now: float) -> float:
        """Attempts per second, as an exponentially decaying average."""
        return self._rate * math.exp((self._noted_at - now) / _AVERAGE_SECONDS)


class DeliveryLeases:
    """The leases held by this process."""

    def __init__(
        self,
        outbox: Outbox,
        clock: Clock,
        settings: Webhooks,
        breakers: CircuitBreakers,
        monitor: WebhookMonitor,
        metrics: DeliveryMetrics,
    ) -> None:
        self.held: dict[str, DeliveryLease] = {}
        self.counts: collections.Counter[WebhookId] = collections.Counter()
        self.webhooks: Mapping[str, Document] = {}
        self._outbox = outbox
        self._clock = clock
        self._settings = settings
        self._breakers = breakers
        self._monitor = monitor
        self._metrics = metrics
        self._maximum = _PREFETCH_FACTOR * settings.max_concurrency
        self._horizon = PrefetchHorizon()
        self._windows: dict[WebhookId, PrefetchWindow] = {}
        self._full: set[WebhookId] = set()
        self._cached: Sequence[Document] = ()

    async def refresh_webhooks(self) -> None:
        """Read the cached webhooks, and discard state of webhooks that were deleted."""
        webhooks = await self._monitor.webhooks()
        if webhooks is not self._cached:
            self._cached, self.webhooks = webhooks, {webhook["id"]: webhook for webhook in webhooks}
            self._breakers.keep(self.webhooks)
            self._windows = {key: window for key, window in self._windows.items() if key in self.webhooks}
            self._metrics.set_webhooks(webhooks)

    async def acquire(self) -> list[DeliveryLease]:
        """Lease due deliveries, except those of the backlog, within the limits."""
        limit = self.query_limit()
        if limit <= 0:
            return []
        await self.refresh_webhooks()
        self._full.clear()
        now = self._clock.now()
        since, began = later(now, seconds=-BACKLOG_AGE_SECONDS), monotonic()
        leases = await self._outbox.lease(now, self._settings.lease_seconds, self.room_for, limit, since=since)
        self._horizon.note(monotonic() - began)
        return leases

    def room(self) -> int:
        """How many more leases the process may hold."""
        return self._maximum - len(self.held)

    def query_limit(self) -> int:
        """How many deliveries the next query may lease; the reserved leases only when no others remain.

        `room_for` considers each webhook by itself: together, those of one query could take the reserve as well.
        """
        return self._unreserved_room() or self.room()

    def room_for(self, webhook_id: WebhookId) -> int:
        """How many more deliveries of a webhook, some of which are due, may be leased."""
        held = self.counts[webhook_id]
        webhook = self.webhooks.get(webhook_id)
        if webhook is not None and webhook.get("status") == PAUSED:
            return 0
        # Deliveries to a disabled webhook are dropped without a request, so its circuit breaker does not apply.
        is_disabled = webhook is not None and webhook.get("status") == DISABLED
        room = None if is_disabled else self._breakers.room(webhook_id, held)
        if room is None:
            room = self._window(webhook_id).room(monotonic(), held, self._horizon.seconds)
        room = min(room, max(self._unreserved_room(), FEW - held))
        if room <= 0:
            self._full.add(webhook_id)
        return room

    def _unreserved_room(self) -> int:
        return max(0, self.room() - self._maximum // RESERVED_SHARE)

    def add(self, lease: DeliveryLease) -> bool:
        """Hold a lease; return False if the delivery is held already, under a lease that expired."""
        is_new = lease.delivery_id not in self.held
        self.held[lease.delivery_id] = lease
        if is_new:
            self.counts[lease.webhook_id] += 1
            self._metrics.held.set(len(self.held))
        return is_new

    def remove(self, outcome: DeliveryOutcome) -> DeliveryLease | None:
        """Stop holding a delivery; return its newer lease if it was leased again while the outcome was written."""
        lease = outcome.lease
        held = self.held.pop(lease.delivery_id, None)
        if held is None:
            return None  # the second outcome of an attempt that failed after its first
        self.counts[lease.webhook_id] -= 1
        if outcome.attempt is not None:
            self._window(lease.webhook_id).note(monotonic())
        if self.counts[lease.webhook_id] <= 0:
            del self.counts[lease.webhook_id]
        self._metrics.held.set(len(self.held))
        return None if held is lease else held

    def with_current_lease(self, outcome: DeliveryOutcome) -> DeliveryOutcome:
        """The outcome under the lease that is held now: an expired one may have been replaced during the attempt."""
        lease = outcome.lease
        return dataclasses.replace(outcome, lease=self.held.get(lease.delivery_id, lease))

    def has_room_again(self) -> bool:
        """Whether a webhook that had no room at the last query has room now."""
        return any(self.room_for(webhook_id) > 0 for webhook_id in tuple(self._full))

    async def renew(self) -> None:
        """Extend the held leases."""
        until = later(self._clock.now(), seconds=self._settings.lease_seconds)
        await self._outbox.renew(list(self.held.values()), until)

    async def release(self) -> None:
        """Return all leases, for other processes."""
        await self._outbox.release(list(self.held.values()), self._clock.now())

    def _window(self, webhook_id: WebhookId) -> PrefetchWindow:
        window = self._windows.get(webhook_id)
        if window is None:
            settings = self._settings
            # At most half of the leases that a process may hold.
            window = PrefetchWindow(settings.concurrency_per_webhook, settings.max_concurrency)
            self._windows[webhook_id] = window
        return window
