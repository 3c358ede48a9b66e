"""The back-channel logout worker: sends logout tokens to the applications of an ended session."""

from __future__ import annotations

from identity.domain.webhooks.retry_schedule import RetrySchedule
from identity.operations.sessions import back_channel_logout
from identity.store.work_queues import JobLease, LogoutNotice, WorkQueue
from identity.workers.queue_worker import QueueLimits, QueueWorker

SCHEDULE_SECONDS = (5, 30, 120, 600, 1800, 3600, 7200)
"""Seconds between attempts: an application may be unavailable for some hours."""

_JITTER = 0.1
_CONCURRENCY_PER_APPLICATION = 4


class LogoutWorker(QueueWorker[LogoutNotice]):
    """Sends queued logout tokens."""

    name = "logout"
    lane_name = "application"
    metric = ("identity_back_channel_logout_attempts", "Logout tokens sent, by outcome")

    def _job_queue(self) -> WorkQueue[LogoutNotice]:
        return self._services.sessions.logout_notices

    def _queue_limits(self) -> QueueLimits:
        timeout_seconds = (back_channel_logout.CONNECT_TIMEOUT_MS + back_channel_logout.READ_TIMEOUT_MS) / 1000
        schedule = RetrySchedule(SCHEDULE_SECONDS, _JITTER)
        return QueueLimits(timeout_seconds, back_channel_logout.MAX_CONCURRENCY, _CONCURRENCY_PER_APPLICATION, schedule)

    async def _attempt(self, lease: JobLease[LogoutNotice]) -> LogoutNotice | None:
        notice = lease.job
        failure = await back_channel_logout.send(self._services, notice)
        self._count(is_success=failure is None)
        if failure is None:
            return None
        prefix = f"Back-channel logout of the application [{notice.application_id}], attempt {lease.attempts + 1}"
        await self._note_failure(lease, f"{prefix}: {failure.url} has not taken the logout token: {failure.reason}.")
        return notice
