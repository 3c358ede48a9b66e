"""The text message worker: sends queued messages to their messengers."""

from __future__ import annotations

from identity.domain.webhooks.retry_schedule import RetrySchedule
from identity.operations.messaging import text_messages
from identity.operations.objects import event_logs
from identity.store.work_queues import JobLease, TextMessage, WorkQueue
from identity.workers.queue_worker import QueueLimits, QueueWorker

SCHEDULE_SECONDS = (2, 5, 15, 30, 60, 120)
"""Seconds between attempts: most messages carry a code that is valid for some minutes."""

_JITTER = 0.1
_MAX_ATTEMPT_SECONDS = 240.0
"""A messenger may configure up to two minutes each for connecting and for reading."""
_CONCURRENCY = 32
_CONCURRENCY_PER_MESSENGER = 16


class MessageWorker(QueueWorker[TextMessage]):
    """Sends queued text messages."""

    name = "messages"
    lane_name = "messenger"
    metric = ("identity_message_attempts", "Text messages handed to messengers, by outcome")

    def _job_queue(self) -> WorkQueue[TextMessage]:
        return self._services.outbound.text_messages

    def _queue_limits(self) -> QueueLimits:
        schedule = RetrySchedule(SCHEDULE_SECONDS, _JITTER)
        return QueueLimits(_MAX_ATTEMPT_SECONDS, _CONCURRENCY, _CONCURRENCY_PER_MESSENGER, schedule)

    async def _attempt(self, lease: JobLease[TextMessage]) -> TextMessage | None:
        message = lease.job
        failure = await text_messages.deliver(self._services, message)
        self._count(is_success=failure is None)
        subject = f"Messenger [{message.messenger_id}], message [{message.job_id}]"
        prefix = f"{subject} of the tenant [{message.tenant_id}], attempt {lease.attempts + 1}"
        if failure is None:
            await self._log_success(message, prefix)
            return None
        await self._note_failure(lease, f"{prefix}: {failure.url} has not taken it: {failure.reason}.")
        return message

    async def _log_success(self, message: TextMessage, prefix: str) -> None:
        """Write a success to the event log if the messenger enables `debug`."""
        messenger = await self._services.outbound.messengers.find_cached(None, message.messenger_id)
        if messenger is not None and messenger["debug"]:
            text = f"{prefix}: {messenger['url']} has taken it."
            await event_logs.record(self._services, self._call(message.tenant_id), "Debug", text)
