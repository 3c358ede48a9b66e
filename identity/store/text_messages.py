"""The queue of text messages. Messages are sealed, because they contain codes that authenticate users."""

from __future__ import annotations

import dataclasses

from identity.call import Document
from identity.ids import TenantId
from identity.store import request_context
from identity.store.work_queue import WorkQueue
from identity.trace_context import TraceContext


@dataclasses.dataclass(frozen=True, slots=True)
class TextMessage:
    """A text message to be sent by a messenger; `trace` and `via` are those of the request that caused it."""

    message_id: str
    tenant_id: TenantId
    messenger_id: str
    phone_number: str = dataclasses.field(repr=False)
    text: str = dataclasses.field(repr=False)
    trace: TraceContext | None = None
    via: tuple[str, ...] = ()

    @property
    def job_id(self) -> str:
        """The id of its document."""
        return self.message_id

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
