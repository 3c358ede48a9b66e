"""The message loop: what is due is handed to the messenger it is for."""

from __future__ import annotations

from identity.domain.webhooks.retry_schedule import RetrySchedule
from identity.operations.messaging import text_messages as operations
from identity.operations.objects import event_logs
from identity.store.text_messages import TextMessage
from identity.store.work_queue import JobLease, WorkQueue
from identity.workers.queue_worker import Pace, QueueWorker

SCHEDULE_SECONDS = (2, 5, 15, 30, 60, 120)
"""Seconds between attempts: most messages hold a code that is good for some minutes."""

_JITTER = 0.1
_LONGEST_ATTEMPT_SECONDS = 240.0
"""Connecting and reading may take two minutes each, if a messenger says so."""
_CONCURRENCY = 32
_CONCURRENCY_PER_MESSENGER = 16


class MessageWorker(QueueWorker[TextMessage]):
    """Takes text messages and hands them over."""

    name = "messages"
    lane_word = "messenger"
    metric = ("identity_message_attempts", "Text messages handed to messengers, by outcome")

    def _jobs(self) -> WorkQueue[TextMessage]:
        """The text messages."""
        return self._services.text_messages

    def _own_pace(self) -> Pace:
        """Fast: a code is no good later."""
        schedule = RetrySchedule(SCHEDULE_SECONDS, _JITTER)
        return Pace(_LONGEST_ATTEMPT_SECONDS, _CONCURRENCY, _CONCURRENCY_PER_MESSENGER, schedule)

    async def _attempt(self, lease: JobLease[TextMessage]) -> TextMessage | None:
        message = lease.job
        failure = await operations.deliver(self._services, message)
        self._count(is_success=failure is None)
        where = f"Messenger [{message.messenger_id}], message [{message.message_id}]"
        what = f"{where} of the tenant [{message.tenant_id}], attempt {lease.attempts + 1}"
        if failure is None:
            await self._note_success(message, what)
            return None
        await self._note_failure(lease, f"{what}: {failure.url} has not taken it: {failure.reason}.")
        return message

    async def _note_success(self, message: TextMessage, what: str) -> None:
        """The event log hears of a message that was taken only where the messenger wants that."""
        messenger = await self._services.documents["messengers"].find_cached(None, message.messenger_id)
        if messenger is not None and messenger["debug"]:
            text = f"{what}: {messenger['url']} has taken it."
            await event_logs.record(self._services, self._call(message.tenant_id), "Debug", text)
