"""Drain the delivery backlog at a bounded rate, a token bucket with a small burst, separately from live events."""

from __future__ import annotations

from time import monotonic

from identity.config.sections import Webhooks
from identity.ids import WebhookId
from identity.instants import Clock, later
from identity.store.outbox import Outbox
from identity.store.outbox_rows import DeliveryLease
from identity.workers.delivery_leases import BACKLOG_AGE_SECONDS, DeliveryLeases

_BURST_SECONDS = 0.25
_UNLIMITED = 1_000_000_000


class TokenBucket:
    """A rate limit; `per_second` 0 is unlimited, and `now` is of a monotonic clock."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._capacity = max(1.0, per_second * _BURST_SECONDS)
        self._tokens = self._capacity
        self._updated_at: float | None = None

    def available(self, now: float) -> int:
        """Return how many tokens are available."""
        if not self._per_second:
            return _UNLIMITED
        passed = 0.0 if self._updated_at is None else max(0.0, now - self._updated_at)
        self._updated_at = now
        self._tokens = min(self._capacity, self._tokens + passed * self._per_second)
        return int(self._tokens)

    def consume(self, count: int) -> None:
        """Consume tokens."""
        self._tokens -= count


class BacklogDrain:
    """Leases deliveries of the backlog."""

    def __init__(self, outbox: Outbox, clock: Clock, settings: Webhooks, leases: DeliveryLeases) -> None:
        self._outbox = outbox
        self._clock = clock
        self._settings = settings
        self._leases = leases
        self._bucket = TokenBucket(settings.backlog_per_second)

    async def acquire(self) -> list[DeliveryLease] | None:
        """Lease as much of the backlog as rate and limits allow; None if they allow nothing now."""
        await self._leases.refresh_webhooks()
        limit = min(self._leases.query_limit(), self._bucket.available(monotonic()))
        if limit <= 0:
            return None
        now = self._clock.now()
        before = later(now, seconds=-BACKLOG_AGE_SECONDS)
        leases = await self._outbox.lease(now, self._settings.lease_seconds, self._room_for, limit, before=before)
        self._bucket.consume(len(leases))
        return leases

    def _room_for(self, webhook_id: WebhookId) -> int:
        """Half of the room of a webhook, rounded up; the rest is for live events."""
        return -(-self._leases.room_for(webhook_id) // 2)
