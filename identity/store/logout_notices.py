"""The queue of logout notices to the applications of ended sessions (OpenID Connect Back-Channel Logout)."""

from __future__ import annotations

import dataclasses

from identity.call import Document
from identity.ids import ApplicationId, TenantId, UserId, fingerprint
from identity.store import request_context
from identity.store.work_queue import WorkQueue
from identity.trace_context import TraceContext


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
    """The collection `logout_notices`."""

    name = "logout_notices"
    lane_member = "applicationId"

    def _content(self, job: LogoutNotice) -> Document:
        return {"userId": job.user_id, "sessionId": job.session_id, **request_context.stored(job.trace, job.via)}

    def _job(self, row: Document, content: Document) -> LogoutNotice:
        tenant_id, application_id = TenantId(row["tenantId"]), ApplicationId(row["applicationId"])
        user_id, context = UserId(content["userId"]), request_context.read(content)
        return LogoutNotice(tenant_id, application_id, user_id, content["sessionId"], *context)
