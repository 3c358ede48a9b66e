"""The loop over a queue of jobs: lease what is due, do it, try again or give up.

A job is forgotten only when it is done or nobody will try again: who is killed in between does it once more after the
lease has run out.
"""

from __future__ import annotations

import abc
import asyncio
import collections
import contextlib
import dataclasses
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
from identity.store.mongo import STORE_ERRORS
from identity.store.wakeups import Wakeups
from identity.store.work_queue import Job, JobLease, WorkQueue

_log = structlog.get_logger(__name__)

_POLL_SECONDS = 1.0
_BACK_OFF_SECONDS = 1.0
_MARGIN_SECONDS = 15
"""How much longer than an attempt a lease lasts: room for writing what became of it."""
_SILENCE_SECONDS = 300
"""How long after an event log of a failed attempt none is written of another of the same lane."""
_CHANCE = random.SystemRandom()

J = TypeVar("J", bound=Job)


@dataclasses.dataclass(frozen=True, slots=True)
class Pace:
    """How long an attempt may take, how many are made at a time, in all and for each lane, and when the next follow."""

    timeout_seconds: float
    max_concurrency: int
    concurrency_per_lane: int
    schedule: RetrySchedule


class QueueWorker(abc.ABC, Generic[J]):
    """Takes jobs and does them, until it is told to stop."""

    name: str
    lane_word = "tenant"
    """What a lane is, in the words of the event log."""
    metric: tuple[str, str]
    """The counter of attempts by outcome: its name, and what it counts."""

    def __init__(
        self,
        services: Services,
        wakeups: Wakeups,
        registry: prometheus_client.CollectorRegistry,
        *,
        stop_seconds: float = 10.0,
    ) -> None:
        """`stop_seconds` is how long attempts under way may go on at the end."""
        self._services = services
        self._queue = self._jobs()
        self._wakeups = wakeups
        self._pace = self._own_pace()
        self._attempts = prometheus_client.Counter(*self.metric, ["outcome"], registry=registry)
        self._silences = LogThrottle(_SILENCE_SECONDS)
        self._stop_seconds = stop_seconds
        self._held: collections.Counter[str] = collections.Counter()
        self._under_way: set[asyncio.Task[None]] = set()
        self._loops: list[asyncio.Task[None]] = []
        self._taking: background_tasks.ShieldedTask[list[JobLease[J]]] = background_tasks.ShieldedTask()

    @abc.abstractmethod
    def _jobs(self) -> WorkQueue[J]:
        """Where the jobs are."""

    @abc.abstractmethod
    def _own_pace(self) -> Pace:
        """How fast they are done, and when what failed is tried again."""

    @abc.abstractmethod
    async def _attempt(self, lease: JobLease[J]) -> J | None:
        """Do a job once, and tell what went wrong: what is left of it to be done, or None."""

    async def start(self) -> None:
        """Begin."""
        self._loops = [background_tasks.start(self.name, self._work_for_ever)]

    async def stop(self) -> None:
        """Take nothing more, and let attempts under way end; what is cut off is handed back."""
        await background_tasks.end(self._loops)
        for leases in await self._taking.left(self._stop_seconds):
            for lease in leases:
                await self._hand_back(lease)
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=self._stop_seconds)
        await background_tasks.end(list(self._under_way))

    def _count(self, *, is_success: bool) -> None:
        self._attempts.labels("success" if is_success else "failure").inc()

    async def _note_failure(self, lease: JobLease[J], text: str) -> None:
        """Every job that is given up is told; of attempts that go on, only one in a while for each lane."""
        call = self._call(lease.job.tenant_id)
        if lease.attempts >= len(self._pace.schedule.delays_seconds):
            await event_logs.record(self._services, call, "Error", f"{text} It is given up.")
            return
        kept_back = self._silences.kept_back(lease.job.lane, call.now)
        if kept_back is not None:
            more = f" {kept_back} earlier failures of this {self.lane_word} were not written." if kept_back else ""
            await event_logs.record(self._services, call, "Error", f"{text} It will be tried again.{more}")

    def _call(self, tenant_id: TenantId) -> Call:
        return Call(tenant_id, AnonymousCaller(), self._services.clock.now(), Origin("127.0.0.1", "", "", ""))

    async def _work_for_ever(self) -> None:
        while True:
            self._wakeups.awake.clear()
            try:
                leases = await self._taking.take(self._lease())
            except STORE_ERRORS as error:
                _log.warning("jobs wait", queue=self.name, error=type(error).__name__)
                await asyncio.sleep(_BACK_OFF_SECONDS)
                continue
            for lease in leases:
                self._take(lease)
            if not leases:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_SECONDS):
                        await self._wakeups.awake.wait()

    async def _lease(self) -> list[JobLease[J]]:
        pace = self._pace
        room = pace.max_concurrency - len(self._under_way)
        if room <= 0:
            return []
        lease_seconds = pace.timeout_seconds + _MARGIN_SECONDS
        now = self._services.clock.now()
        return await self._queue.lease(now, lease_seconds, self._held, pace.concurrency_per_lane, room)

    def _take(self, lease: JobLease[J]) -> None:
        self._held[lease.job.lane] += 1
        task = asyncio.create_task(self._do(lease))
        self._under_way.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._under_way.discard(task)
            self._held[lease.job.lane] -= 1
            if self._held[lease.job.lane] <= 0:
                del self._held[lease.job.lane]
            self._wakeups.awake.set()  # there is room again
            if not task.cancelled() and task.exception() is not None:
                # Whatever it is, the job is tried again when its lease has run out.
                _log.error("a job failed inside", queue=self.name, job=lease.job.job_id, exc_info=task.exception())

        task.add_done_callback(ended)

    async def _do(self, lease: JobLease[J]) -> None:
        try:
            rest = await self._attempt(lease)
        except asyncio.CancelledError:
            await self._hand_back(lease)
            raise
        await self._settle(lease, rest)

    async def _hand_back(self, lease: JobLease[J]) -> None:
        with contextlib.suppress(*STORE_ERRORS):
            await self._queue.release(lease, self._services.clock.now())

    async def _settle(self, lease: JobLease[J], rest: J | None) -> None:
        """Write what became of it, as soon as MongoDB takes it.

        A job that was done is done twice if that cannot be written while the lease lasts, and never lost.
        """
        tries = _MARGIN_SECONDS // _BACK_OFF_SECONDS
        while True:
            try:
                return await self._write(lease, rest)
            except STORE_ERRORS:
                tries -= 1
                if tries <= 0:
                    raise
                await asyncio.sleep(_BACK_OFF_SECONDS)

    async def _write(self, lease: JobLease[J], rest: J | None) -> None:
        now, schedule = self._services.clock.now(), self._pace.schedule
        due = None if rest is None else schedule.next_attempt(now, lease.attempts + 1, _CHANCE.random())
        if rest is None or due is None:
            await self._queue.complete(lease)
        else:
            await self._queue.retry(lease, rest, due)
