"""Work queues of mails, text messages and logout notices: one document per job until the job is done or given up.

Leasing a job moves its next attempt into the future and stores a token of the lessee; the lease of a process that dies
expires. The content of a job is sealed, because mails and text messages contain links and codes that authenticate
users. Jobs belong to lanes, such as the mail server of a tenant or the receiver of an application, which are served in
random order, so that an unavailable one does not block the others.
"""

from __future__ import annotations

import abc
import dataclasses
import email.policy
import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import structlog
from pymongo import IndexModel, ReturnDocument, UpdateOne

from identity.call import Document
from identity.domain.users.personal_data import Traces
from identity.errors import StartupError
from identity.ids import ApplicationId, TenantId, UserId, fingerprint, new_id
from identity.instants import Instant, later
from identity.store import request_context
from identity.store.mongo import STORE_ERRORS, Collection, Database, Session, delete_many
from identity.store.sealed_members import reseal_member
from identity.store.vault import Vault
from identity.trace_context import TraceContext

_log = structlog.get_logger(__name__)


class Job(Protocol):
    """The members of every job."""

    @property
    def job_id(self) -> str:
        """The id of its document; adding a job with an existing id has no effect."""

    @property
    def tenant_id(self) -> TenantId:
        """The tenant of the job."""

    @property
    def lane(self) -> str:
        """The receiver that it is for."""


J = TypeVar("J", bound=Job)


@dataclasses.dataclass(frozen=True, slots=True)
class JobLease(Generic[J]):
    """A job that only this process may attempt until the lease expires; `attempts` were made before."""

    job: J
    attempts: int
    token: str


class WorkQueue(abc.ABC, Generic[J]):
    """A collection of jobs of one kind."""

    name: str
    lane_member: str
    """The member of a document that contains the lane."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._database = database
        self._collection: Collection = database.collection(self.name)
        self._vault = vault
        self._wake: Callable[[], None] | None = None

    @abc.abstractmethod
    def _content(self, job: J) -> Document:
        """The content of a job, which is stored sealed."""

    @abc.abstractmethod
    def _job(self, row: Document, content: Document) -> J:
        """The job of a document."""

    def on_enqueue(self, wake: Callable[[], None]) -> None:
        """Set the function that wakes the workers after jobs were added."""
        self._wake = wake

    async def ensure_indexes(self) -> None:
        """Create missing indexes."""
        indexes = [IndexModel([(self.lane_member, 1), ("nextAttempt", 1)], name="due")]
        if self.lane_member != "tenantId":
            indexes.append(IndexModel([("tenantId", 1)], name="tenant"))
        await self._collection.create_indexes(indexes)

    async def add(self, jobs: Sequence[J], now: Instant, session: Session | None = None) -> None:
        """Add jobs, due now. They are durable once this returns or, in a transaction, once it is committed."""
        if not jobs:
            return
        writes = [
            UpdateOne({"_id": job.job_id}, {"$setOnInsert": self._document(job, now)}, upsert=True) for job in jobs
        ]
        await self._collection.bulk_write(writes, ordered=False, session=session)
        if self._wake is not None:
            self._database.run_now_and_after_commit(session, self._wake)

    async def lease(
        self, now: Instant, lease_seconds: float, held: Mapping[str, int], per_lane: int, limit: int
    ) -> list[JobLease[J]]:
        """Lease at most `limit` due jobs, so that the process holds at most `per_lane` jobs of each lane.

        `held` is the number of leases per lane that the process holds already.
        """
        lanes: list[str] = await self._collection.distinct(self.lane_member, {"nextAttempt": {"$lte": now}})
        leases: list[JobLease[J]] = []
        for lane in random.sample(lanes, len(lanes)):
            count = min(per_lane - held.get(lane, 0), limit - len(leases))
            try:
                await self._lease_from_lane(lane, now, lease_seconds, count, leases)
            except STORE_ERRORS:
                if not leases:
                    raise
                break  # the jobs leased so far would otherwise be delayed until their leases expire
        return leases

    async def complete(self, lease: JobLease[J]) -> None:
        """Delete a job that is done or given up."""
        await self._collection.delete_one({"_id": lease.job.job_id})

    async def retry(self, lease: JobLease[J], rest: J, next_attempt: Instant) -> None:
        """Schedule the `rest` of a job for a retry, unless another process holds the lease now."""
        change = {
            "$set": {"nextAttempt": next_attempt, "content": self._sealed(rest)},
            "$inc": {"attempts": 1},
            "$unset": {"lease": ""},
        }
        await self._collection.update_one({"_id": lease.job.job_id, "lease": lease.token}, change)

    async def release(self, lease: JobLease[J], now: Instant) -> None:
        """Make a leased job due at once, for another process."""
        change = {"$set": {"nextAttempt": now}, "$unset": {"lease": ""}}
        await self._collection.update_one({"_id": lease.job.job_id, "lease": lease.token}, change)

    async def count(self, tenant_id: TenantId) -> int:
        """The number of jobs of a tenant."""
        return await self._collection.count_documents({"tenantId": tenant_id})

    async def delete_all(self, tenant_id: TenantId) -> None:
        """Delete all jobs of a tenant."""
        await delete_many(self._collection, {"tenantId": tenant_id})

    async def delete_of_persons(self, tenant_id: TenantId, traces: Traces) -> int:
        """Delete the jobs of a tenant that are addressed to a deleted user, or name one; return their number."""
        deleted = 0
        async for row in self._collection.find({"tenantId": tenant_id}):
            job = self._unsealed(row)
            if job is not None and any(map(traces.are_in, self._texts(job))):
                deleted += (await self._collection.delete_one({"_id": row["_id"]})).deleted_count
        return deleted

    def _texts(self, _job: J) -> Iterable[str]:
        """The texts of a job that may contain personal data."""
        return ()

    async def reseal(self) -> int:
        """Reseal jobs that are sealed under an older master key; returns the number of changed jobs."""
        return await reseal_member(self._collection, self._vault, "content", self._context, {})

    async def _lease_from_lane(
        self, lane: str, now: Instant, lease_seconds: float, count: int, leases: list[JobLease[J]]
    ) -> None:
        """Lease the oldest due jobs of a lane and add them to `leases`."""
        for _ in range(count):
            row: Document | None = await self._collection.find_one_and_update(
                {self.lane_member: lane, "nextAttempt": {"$lte": now}},
                {"$set": {"lease": new_id(), "nextAttempt": later(now, seconds=lease_seconds)}},
                sort=[("nextAttempt", 1)],
                return_document=ReturnDocument.AFTER,
            )
            if row is None:
                return
            if (job := self._unsealed(row)) is not None:
                leases.append(JobLease(job, row["attempts"], row["lease"]))

    def _unsealed(self, row: Document) -> J | None:
        """The job of a row; None if it cannot be read. It remains stored, perhaps until the master key is restored."""
        try:
            return self._job(row, json.loads(self._vault.unseal(row["content"], self._context(row["_id"]))))
        except StartupError as error:
            _log.error("a job cannot be done as it cannot be read", queue=self.name, job=row["_id"], error=str(error))
            return None

    def _document(self, job: J, now: Instant) -> Document:
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

    def _context(self, job_id: str) -> str:
        return f"{self.name}.{job_id}.content"


@dataclasses.dataclass(frozen=True, slots=True)
class Mail:
    """A mail to be sent; `recipients` are those to whom it has not been delivered yet.

    `by_console_server`: the mail server of the console sends it, not that of the tenant.
    """

    job_id: str
    tenant_id: TenantId
    sender: str
    recipients: tuple[str, ...]
    message: bytes = dataclasses.field(repr=False)
    by_console_server: bool = False

    @property
    def lane(self) -> str:
        """Each tenant has one mail server."""
        return self.tenant_id


class Mails(WorkQueue[Mail]):
    """The collection `mails`."""

    name = "mails"
    lane_member = "tenantId"

    def _content(self, job: Mail) -> Document:
        message = job.message.decode("ascii")
        content: Document = {"sender": job.sender, "recipients": job.recipients, "message": message}
        return {**content, "console": True} if job.by_console_server else content

    def _job(self, row: Document, content: Document) -> Mail:
        recipients, message = tuple(content["recipients"]), content["message"].encode("ascii")
        is_console = content.get("console", False)
        return Mail(row["_id"], TenantId(row["tenantId"]), content["sender"], recipients, message, is_console)

    def _texts(self, job: Mail) -> Iterable[str]:
        message = email.message_from_bytes(job.message, policy=email.policy.default)
        parts = (part for part in message.walk() if part.get_content_maintype() == "text")
        texts = (bytes(part.get_payload(decode=True) or b"").decode(errors="replace") for part in parts)
        return (*job.recipients, *map(str, message.values()), *texts)


@dataclasses.dataclass(frozen=True, slots=True)
class TextMessage:
    """A text message to be sent by a messenger; `trace` and `via` are those of the request that caused it."""

    job_id: str
    tenant_id: TenantId
    messenger_id: str
    phone_number: str = dataclasses.field(repr=False)
    text: str = dataclasses.field(repr=False)
    trace: TraceContext | None = None
    via: tuple[str, ...] = ()

    @property
    def lane(self) -> str:
        """Each messenger has its own receiver."""
        return self.messenger_id


class TextMessages(WorkQueue[TextMessage]):
    """The collection `text_messages`."""

    name = "text_messages"
    lane_member = "messengerId"

    def _content(self, job: TextMessage) -> Document:
        return {"phoneNumber": job.phone_number, "text": job.text, **request_context.stored(job.trace, job.via)}

    def _job(self, row: Document, content: Document) -> TextMessage:
        phone_number, text, context = content["phoneNumber"], content["text"], request_context.read(content)
        return TextMessage(row["_id"], TenantId(row["tenantId"]), row["messengerId"], phone_number, text, *context)

    def _texts(self, job: TextMessage) -> Iterable[str]:
        return job.phone_number, job.text


@dataclasses.dataclass(frozen=True, slots=True)
class LogoutNotice:
    """The end of a session of a user, for one application. Its URL is read when the notice is sent.

    `trace` and `via` are those of the first request that ended the session.
    """

    tenant_id: TenantId
    application_id: ApplicationId
    user_id: UserId
    session_id: str
    trace: TraceContext | None = dataclasses.field(default=None, compare=False)
    via: tuple[str, ...] = dataclasses.field(default=(), compare=False)

    @property
    def job_id(self) -> str:
        """One job per session and application, even if several requests end the session concurrently."""
        return fingerprint(f"{self.tenant_id} {self.application_id} {self.session_id}")

    @property
    def lane(self) -> str:
        """Each application has its own receiver."""
        return self.application_id


class LogoutNotices(WorkQueue[LogoutNotice]):
    """The collection `logout_notices`: notices to the applications of ended sessions (Back-Channel Logout)."""

    name = "logout_notices"
    lane_member = "applicationId"

    def _content(self, job: LogoutNotice) -> Document:
        return {"userId": job.user_id, "sessionId": job.session_id, **request_context.stored(job.trace, job.via)}

    def _job(self, row: Document, content: Document) -> LogoutNotice:
        tenant_id, application_id = TenantId(row["tenantId"]), ApplicationId(row["applicationId"])
        user_id, context = UserId(content["userId"]), request_context.read(content)
        return LogoutNotice(tenant_id, application_id, user_id, content["sessionId"], *context)
