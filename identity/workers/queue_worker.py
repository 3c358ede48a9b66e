"""Worker of a job queue: lease due jobs, attempt them, and retry or give up.

Jobs are processed at least once: the job of a process that dies is leased again after its lease expires.
"""

from __future__ import annotations

import abc
import asyncio
import collections
import contextlib
import dataclasses
import functools
import random
from typing import Generic, TypeVar

import prometheus_client
import structlog

from identity import background_tasks
from identity.call import AnonymousCaller, Call, Origin
from identity.domain.objects.log_throttling import LogThrottle
from identity.domain.webhooks.retry_schedule import RetrySchedule
from identity.ids import TenantId
from identity.operations.objects import event_logs
from identity.services import Services
from identity.store import outages
from identity.store.mongo import STORE_ERRORS
from identity.store.wakeups import Wakeups
from identity.store.work_queues import Job, JobLease, WorkQueue

_log = structlog.get_logger(__name__)

_POLL_SECONDS = 1.0
_BACK_OFF_SECONDS = 1.0
_MARGIN_SECONDS = 15
"""How much longer than an attempt a lease lasts, to write the outcome."""
_THROTTLE_SECONDS = 300
"""The shortest time between two event log rows about failed attempts of the same lane."""
_RANDOM = random.SystemRandom()

J = TypeVar("J", bound=Job)


@dataclasses.dataclass(frozen=True, slots=True)
class QueueLimits:
    """The time limit of an attempt, concurrent attempts in all and per lane, and the schedule of retries."""

    timeout_seconds: float
    max_concurrency: int
    concurrency_per_lane: int
    schedule: RetrySchedule


class QueueWorker(abc.ABC, Generic[J]):
    """Processes jobs until it is stopped. A lane, such as a tenant, has its own limit of concurrent attempts."""

    name: str
    lane_name = "tenant"
    """What a lane is, in event log messages."""
    metric: tuple[str, str]
    """Name and help text of the counter of attempts by outcome."""
    _stop_seconds = 10.0
    """The time that attempts in progress get to finish when the worker is stopped."""

    def __init__(self, services: Services, wakeups: Wakeups, registry: prometheus_client.CollectorRegistry) -> None:
        self._services = services
        self._queue = self._job_queue()
        self._wakeups = wakeups
        self._limits = self._queue_limits()
        self._attempts = prometheus_client.Counter(*self.metric, ["outcome"], registry=registry)
        self._throttle = LogThrottle(_THROTTLE_SECONDS)
        self._held: collections.Counter[str] = collections.Counter()
        self._running: set[asyncio.Task[None]] = set()
        self._loops: list[asyncio.Task[None]] = []
        self._leasing: background_tasks.ShieldedTask[list[JobLease[J]]] = background_tasks.ShieldedTask()

    @abc.abstractmethod
    def _job_queue(self) -> WorkQueue[J]:
        """The queue to process."""

    @abc.abstractmethod
    def _queue_limits(self) -> QueueLimits:
        """The limits of this worker."""

    @abc.abstractmethod
    async def _attempt(self, lease: JobLease[J]) -> J | None:
        """Attempt a job and log failures; return the job that remains to be retried, or None."""

    async def start(self) -> None:
        """Start the loop."""
        self._loops = [background_tasks.start(self.name, self._work_forever)]

    async def stop(self) -> None:
        """Stop leasing and let attempts in progress finish; the leases of cancelled ones are released."""
        await background_tasks.end(self._loops)
        for leases in await self._leasing.unclaimed(self._stop_seconds):
            for lease in leases:
                await self._release(lease)
        if self._running:
            await asyncio.wait(self._running, timeout=self._stop_seconds)
        await background_tasks.end(list(self._running))

    def _count(self, *, is_success: bool) -> None:
        self._attempts.labels("success" if is_success else "failure").inc()

    async def _note_failure(self, lease: JobLease[J], text: str) -> None:
        """Log a failed attempt: always if the job is given up, throttled per lane if it will be retried."""
        call = self._call(lease.job.tenant_id)
        if lease.attempts >= len(self._limits.schedule.delays_seconds):
            await event_logs.record(self._services, call, "Error", f"{text} It is given up.")
            return
        suppressed = self._throttle.suppressed_count(lease.job.lane, call.now)
        if suppressed is not None:
            more = f" {suppressed} earlier failures of this {self.lane_name} were not written." if suppressed else ""
            await event_logs.record(self._services, call, "Error", f"{text} It will be tried again.{more}")

    def _call(self, tenant_id: TenantId) -> Call:
        return Call(tenant_id, AnonymousCaller(), self._services.clock.now(), Origin("127.0.0.1", "", "", ""))

    async def _work_forever(self) -> None:
        while True:
            self._wakeups.awake.clear()
            try:
                leases = await self._leasing.run(self._lease())
            except STORE_ERRORS as error:
                _log.warning("job queue unavailable", queue=self.name, outage=outages.reason(error))
                await asyncio.sleep(_BACK_OFF_SECONDS)
                continue
            for lease in leases:
                self._start_job(lease)
            if not leases:
                await self._wakeups.wait(_POLL_SECONDS)

    async def _lease(self) -> list[JobLease[J]]:
        limits = self._limits
        room = limits.max_concurrency - len(self._running)
        if room <= 0:
            return []
        lease_seconds = limits.timeout_seconds + _MARGIN_SECONDS
        now = self._services.clock.now()
        return await self._queue.lease(now, lease_seconds, self._held, limits.concurrency_per_lane, room)

    def _start_job(self, lease: JobLease[J]) -> None:
        self._held[lease.job.lane] += 1
        task = asyncio.create_task(self._process(lease))
        self._running.add(task)
        task.add_done_callback(functools.partial(self._finished, lease))

    def _finished(self, lease: JobLease[J], task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._held[lease.job.lane] -= 1
        if self._held[lease.job.lane] <= 0:
            del self._held[lease.job.lane]
        self._wakeups.awake.set()  # another job can be leased
        if not task.cancelled() and task.exception() is not None:
            # An unexpected error: the job is retried after its lease expires.
            _log.error("a job failed inside", queue=self.name, job=lease.job.job_id, exc_info=task.exception())

    async def _process(self, lease: JobLease[J]) -> None:
        try:
            remaining = await self._attempt(lease)
        except asyncio.CancelledError:
            await self._release(lease)
            raise
        await self._complete(lease, remaining)

    async def _release(self, lease: JobLease[J]) -> None:
        with contextlib.suppress(*STORE_ERRORS):
            await self._queue.release(lease, self._services.clock.now())

    async def _complete(self, lease: JobLease[J], remaining: J | None) -> None:
        """Write the outcome, repeatedly while MongoDB is unavailable.

        If the lease expires before, a completed job is processed a second time.
        """
        tries = _MARGIN_SECONDS // _BACK_OFF_SECONDS
        while True:
            try:
                return await self._write_outcome(lease, remaining)
            except STORE_ERRORS:
                tries -= 1
                if tries <= 0:
                    raise
                await asyncio.sleep(_BACK_OFF_SECONDS)

    async def _write_outcome(self, lease: JobLease[J], remaining: J | None) -> None:
        now, schedule = self._services.clock.now(), self._limits.schedule
        due = None if remaining is None else schedule.next_attempt(now, lease.attempts + 1, _RANDOM.random())
        if remaining is None or due is None:
            await self._queue.complete(lease)
        else:
            await self._queue.retry(lease, remaining, due)
