"""The loop of back-channel logout: what is due is told to the application that joined the session."""

from __future__ import annotations

import prometheus_client

from identity.domain.delivery_schedule import Schedule
from identity.operations import back_channel_logout as operations
from identity.services import Services
from identity.store.logout_notices import LogoutNotice
from identity.store.wakeups import Wakeups
from identity.store.work_queue import Lease
from identity.workers.queue import Pace, QueueWorker

SCHEDULE_SECONDS = (5, 30, 120, 600, 1800, 3600, 7200)
"""Seconds between attempts: a receiver that is away for some hours hears of the logout, one that is gone is let be."""

_JITTER = 0.1
_CONCURRENCY_PER_APPLICATION = 4


class LogoutWorker(QueueWorker[LogoutNotice]):
    """Takes notices and sends them."""

    name = "logout"
    lane_word = "application"

    def __init__(
        self,
        services: Services,
        wakeups: Wakeups,
        registry: prometheus_client.CollectorRegistry,
        *,
        stop_seconds: float = 10.0,
    ) -> None:
        """`stop_seconds` is how long requests under way may go on at the end."""
        timeout_seconds = (operations.CONNECT_TIMEOUT_MS + operations.READ_TIMEOUT_MS) / 1000
        schedule = Schedule(SCHEDULE_SECONDS, _JITTER)
        pace = Pace(timeout_seconds, operations.MAX_CONCURRENCY, _CONCURRENCY_PER_APPLICATION, schedule)
        super().__init__(services, services.logout_notices, wakeups, pace, stop_seconds=stop_seconds)
        self._attempts = prometheus_client.Counter(
            "identity_back_channel_logout_attempts", "Logout tokens sent, by outcome", ["outcome"], registry=registry
        )

    async def _attempt(self, lease: Lease[LogoutNotice]) -> LogoutNotice | None:
        notice = lease.job
        failure = await operations.send(self._services, notice)
        self._attempts.labels("success" if failure is None else "failure").inc()
        if failure is None:
            return None
        what = f"Back-channel logout of the application [{notice.application_id}], attempt {lease.attempts + 1}"
        await self._note_failure(lease, f"{what}: {failure.url} has not taken the logout token: {failure.reason}.")
        return notice
