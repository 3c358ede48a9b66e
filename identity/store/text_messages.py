"""Text messages on their way, each sealed: they hold codes that let people in."""

from __future__ import annotations

import dataclasses

from identity.call import Document
from identity.ids import TenantId
from identity.store import request_context
from identity.store.work_queue import WorkQueue
from identity.trace_context import TraceContext


@dataclasses.dataclass(frozen=True, slots=True)
class TextMessage:
    """What a messenger shall bring to a phone; `trace` and `via` are those of the request that asked for it."""

    message_id: str
    tenant_id: TenantId
    messenger_id: str
    phone_number: str = dataclasses.field(repr=False)
    text: str = dataclasses.field(repr=False)
    trace: TraceContext | None = None
    via: tuple[str, ...] = ()

    @property
    def job_id(self) -> str:
        """The id of its row."""
        return self.message_id

    @property
    def lane(self) -> str:
        """Each messenger has a receiver of its own."""
        return self.messenger_id


class TextMessages(WorkQueue[TextMessage]):
    """The collection `text_messages`."""

    name = "text_messages"
    lane_member = "messengerId"

    def _content(self, job: TextMessage) -> Document:
        return {"phoneNumber": job.phone_number, "text": job.text, **request_context.stored(job.trace, job.via)}

    def _job(self, row: Document, content: Document) -> TextMessage:
        tenant_id = TenantId(row["tenantId"])
        return TextMessage(
            row["_id"],
            tenant_id,
            row["messengerId"],
            content["phoneNumber"],
            content["text"],
            *request_context.read(content),
        )
