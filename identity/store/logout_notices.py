"""Notices of ended sessions on their way to the applications that joined them (OpenID Connect Back-Channel Logout)."""

from __future__ import annotations

import dataclasses

from identity.call import Document
from identity.ids import ApplicationId, TenantId, UserId, fingerprint
from identity.store import request_context
from identity.store.work_queue import WorkQueue
from identity.trace_context import TraceContext


@dataclasses.dataclass(frozen=True, slots=True)
class LogoutNotice:
    """That the session `session_id` of a user has ended, for one application; where to is asked when it is sent.

    `trace` and `via` are those of the request that ended it; of several that do, those of whichever was first.
    """

    tenant_id: TenantId
    application_id: ApplicationId
    user_id: UserId
    session_id: str
    trace: TraceContext | None = dataclasses.field(default=None, compare=False)
    via: tuple[str, ...] = dataclasses.field(default=(), compare=False)

    @property
    def job_id(self) -> str:
        """One for each session and application, however many end it at the same time."""
        return fingerprint(f"{self.tenant_id} {self.application_id} {self.session_id}")

    @property
    def lane(self) -> str:
        """Each application has a receiver of its own."""
        return self.application_id


class LogoutNotices(WorkQueue[LogoutNotice]):
    """The collection `logout_notices`."""

    name = "logout_notices"
    lane_member = "applicationId"

    def _content(self, job: LogoutNotice) -> Document:
        return {"userId": job.user_id, "sessionId": job.session_id, **request_context.stored(job.trace, job.via)}

    def _job(self, row: Document, content: Document) -> LogoutNotice:
        return LogoutNotice(
            TenantId(row["tenantId"]),
            ApplicationId(row["applicationId"]),
            UserId(content["userId"]),
            content["sessionId"],
            *request_context.read(content),
        )
