"""Jobs on their way: one row each until the job is done or given up.

A row is leased by moving its next attempt into the future under a token of the lessee's own; a lessee that dies stops
moving it. What a job says is sealed. Rows belong to lanes, such as a tenant's mail server or an application's receiver,
which are served in random order, so that a dead one cannot keep the others waiting.
"""

from __future__ import annotations

import abc
import dataclasses
import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import structlog
from pymongo import IndexModel, ReturnDocument, UpdateOne

from identity.call import Document
from identity.errors import StartupError
from identity.ids import TenantId, new_id
from identity.instants import Instant, later
from identity.store.mongo import BULK_SECONDS, STORE_ERRORS, Collection, Database, Session
from identity.store.store_circuit_breaker import time_limit
from identity.store.vault import Vault

_log = structlog.get_logger(__name__)


class Job(Protocol):
    """What every job has: an id of its own, a tenant, and a lane."""

    @property
    def job_id(self) -> str:
        """Its id, and that of its row: a job that is there already is not taken twice."""

    @property
    def tenant_id(self) -> TenantId:
        """Whose it is."""

    @property
    def lane(self) -> str:
        """Whom it waits for."""


J = TypeVar("J", bound=Job)


@dataclasses.dataclass(frozen=True, slots=True)
class JobLease(Generic[J]):
    """A job that is this process's to do until the lease runs out; `attempts` were made before."""

    job: J
    attempts: int
    token: str


class WorkQueue(abc.ABC, Generic[J]):
    """A collection of jobs of one kind."""

    name: str
    lane_member: str
    """The member of a row that holds its lane."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._database = database
        self._collection: Collection = database.collection(self.name)
        self._vault = vault
        self._wake: Callable[[], None] | None = None

    @abc.abstractmethod
    def _content(self, job: J) -> Document:
        """What the row of a job keeps sealed."""

    @abc.abstractmethod
    def _job(self, row: Document, content: Document) -> J:
        """The job of a row."""

    def on_enqueue(self, wake: Callable[[], None]) -> None:
        """Have `wake` called, which rouses the workers, whenever there is a new job."""
        self._wake = wake

    async def ensure_indexes(self) -> None:
        """Create what is missing."""
        indexes = [IndexModel([(self.lane_member, 1), ("nextAttempt", 1)], name="due")]
        if self.lane_member != "tenantId":
            indexes.append(IndexModel([("tenantId", 1)], name="tenant"))
        await self._collection.create_indexes(indexes)

    async def add(self, jobs: Sequence[J], now: Instant, session: Session | None = None) -> None:
        """Take jobs, to be done from now on: after this, or the commit of the transaction, none is lost any more."""
        if not jobs:
            return
        rows = [UpdateOne({"_id": job.job_id}, {"$setOnInsert": self._row(job, now)}, upsert=True) for job in jobs]
        await self._collection.bulk_write(rows, ordered=False, session=session)
        if self._wake is not None:
            self._database.run_now_and_after_commit(session, self._wake)

    async def lease(
        self, now: Instant, lease_seconds: float, held: Mapping[str, int], per_lane: int, limit: int
    ) -> list[JobLease[J]]:
        """Take due jobs: at most `limit`, and none that would give a lane more than `per_lane`; `held` are had now."""
        waiting: list[str] = await self._collection.distinct(self.lane_member, {"nextAttempt": {"$lte": now}})
        leases: list[JobLease[J]] = []
        for lane in random.sample(waiting, len(waiting)):
            room = min(per_lane - held.get(lane, 0), limit - len(leases))
            try:
                await self._lease_some(lane, now, lease_seconds, room, leases)
            except STORE_ERRORS:
                if not leases:
                    raise
                break  # those that are leased would wait until that runs out
        return leases

    async def complete(self, lease: JobLease[J]) -> None:
        """The job was taken, or is given up: forget it."""
        await self._collection.delete_one({"_id": lease.job.job_id})

    async def retry(self, lease: JobLease[J], rest: J, next_attempt: Instant) -> None:
        """Try again later what is left of the job; nothing happens when the lease has passed to another process."""
        change = {
            "$set": {"nextAttempt": next_attempt, "content": self._sealed(rest)},
            "$inc": {"attempts": 1},
            "$unset": {"lease": ""},
        }
        await self._collection.update_one({"_id": lease.job.job_id, "lease": lease.token}, change)

    async def release(self, lease: JobLease[J], now: Instant) -> None:
        """Let another process do it at once."""
        change = {"$set": {"nextAttempt": now}, "$unset": {"lease": ""}}
        await self._collection.update_one({"_id": lease.job.job_id, "lease": lease.token}, change)

    async def count(self, tenant_id: TenantId) -> int:
        """How many jobs of a tenant are on their way."""
        return await self._collection.count_documents({"tenantId": tenant_id})

    async def delete_all(self, tenant_id: TenantId) -> None:
        """Forget every job of a tenant."""
        with time_limit(BULK_SECONDS):
            await self._collection.delete_many({"tenantId": tenant_id})

    async def reseal(self) -> int:
        """Seal again what was sealed under an older master key; answers how many changed."""
        changed = 0
        async for row in self._collection.find({}, {"content": 1}):
            if not self._vault.is_current(row["content"]):
                context = self._context(row["_id"])
                fresh = self._vault.seal(self._vault.unseal(row["content"], context), context)
                where = {"_id": row["_id"], "content": row["content"]}
                result = await self._collection.update_one(where, {"$set": {"content": fresh}})
                changed += result.modified_count
        return changed

    async def _lease_some(
        self, lane: str, now: Instant, lease_seconds: float, room: int, leases: list[JobLease[J]]
    ) -> None:
        """Add the oldest of a lane to the leases."""
        for _ in range(room):
            row = await self._lease_one(lane, now, lease_seconds)
            if row is None:
                return
            try:
                leases.append(JobLease(self._opened(row), row["attempts"], row["lease"]))
            except StartupError as error:
                # It must hold up nobody else, and is not lost: its lease runs out, and perhaps the key is back by then.
                _log.error(
                    "a job cannot be done as it cannot be read", queue=self.name, job=row["_id"], error=str(error)
                )

    async def _lease_one(self, lane: str, now: Instant, lease_seconds: float) -> Document | None:
        token = new_id()
        row = await self._collection.find_one_and_update(
            {self.lane_member: lane, "nextAttempt": {"$lte": now}},
            {"$set": {"lease": token, "nextAttempt": later(now, seconds=lease_seconds)}},
            sort=[("nextAttempt", 1)],
            return_document=ReturnDocument.AFTER,
        )
        return dict(row) if row else None

    def _row(self, job: J, now: Instant) -> Document:
        return {
            "tenantId": job.tenant_id,
            self.lane_member: job.lane,
            "attempts": 0,
            "insertInstant": now,
            "nextAttempt": now,
            "content": self._sealed(job),
        }

    def _sealed(self, job: J) -> str:
        return self._vault.seal(json.dumps(self._content(job)), self._context(job.job_id))

    def _opened(self, row: Document) -> J:
        return self._job(row, json.loads(self._vault.unseal(row["content"], self._context(row["_id"]))))

    def _context(self, job_id: str) -> str:
        return f"{self.name}.{job_id}.content"
