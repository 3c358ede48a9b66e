"""The loop of back-channel logout: what is due is told to the application that joined the session."""

from __future__ import annotations

from identity.domain.webhooks.retry_schedule import RetrySchedule
from identity.operations.sessions import back_channel_logout as operations
from identity.store.logout_notices import LogoutNotice
from identity.store.work_queue import JobLease, WorkQueue
from identity.workers.queue_worker import Pace, QueueWorker

SCHEDULE_SECONDS = (5, 30, 120, 600, 1800, 3600, 7200)
"""Seconds between attempts: a receiver that is away for some hours hears of the logout, one that is gone is let be."""

_JITTER = 0.1
_CONCURRENCY_PER_APPLICATION = 4


class LogoutWorker(QueueWorker[LogoutNotice]):
    """Takes notices and sends them."""

    name = "logout"
    lane_word = "application"
    metric = ("identity_back_channel_logout_attempts", "Logout tokens sent, by outcome")

    def _jobs(self) -> WorkQueue[LogoutNotice]:
        """The notices."""
        return self._services.logout_notices

    def _own_pace(self) -> Pace:
        """Slow enough for an application, and for some hours."""
        timeout_seconds = (operations.CONNECT_TIMEOUT_MS + operations.READ_TIMEOUT_MS) / 1000
        schedule = RetrySchedule(SCHEDULE_SECONDS, _JITTER)
        return Pace(timeout_seconds, operations.MAX_CONCURRENCY, _CONCURRENCY_PER_APPLICATION, schedule)

    async def _attempt(self, lease: JobLease[LogoutNotice]) -> LogoutNotice | None:
        notice = lease.job
        failure = await operations.send(self._services, notice)
        self._count(is_success=failure is None)
        if failure is None:
            return None
        what = f"Back-channel logout of the application [{notice.application_id}], attempt {lease.attempts + 1}"
        await self._note_failure(lease, f"{what}: {failure.url} has not taken the logout token: {failure.reason}.")
        return notice
