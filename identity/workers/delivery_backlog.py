"""Drain the delivery backlog at a bounded rate, separately from live events."""

from __future__ import annotations

from time import monotonic

from identity.config.sections import Webhooks
from identity.domain.objects.token_bucket import TokenBucket
from identity.ids import WebhookId
from identity.instants import Clock, later
from identity.store.outbox import Outbox
from identity.store.outbox_rows import DeliveryLease
from identity.workers.delivery_leases import BACKLOG_AGE_SECONDS, DeliveryLeases


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
