"""Mails on their way, each sealed: they hold links and codes that let people in."""

from __future__ import annotations

import dataclasses

from identity.call import Document
from identity.ids import MailId, TenantId
from identity.store.work_queue import WorkQueue


@dataclasses.dataclass(frozen=True, slots=True)
class Mail:
    """A mail as it goes out; `recipients` are those who have not got it yet."""

    mail_id: MailId
    tenant_id: TenantId
    sender: str
    recipients: tuple[str, ...]
    message: bytes = dataclasses.field(repr=False)

    @property
    def job_id(self) -> str:
        """The id of its row."""
        return self.mail_id

    @property
    def lane(self) -> str:
        """A tenant has one mail server."""
        return self.tenant_id


class Mails(WorkQueue[Mail]):
    """The collection `mails`."""

    name = "mails"
    lane_member = "tenantId"

    def _content(self, job: Mail) -> Document:
        return {"sender": job.sender, "recipients": job.recipients, "message": job.message.decode("ascii")}

    def _job(self, row: Document, content: Document) -> Mail:
        recipients, message = tuple(content["recipients"]), content["message"].encode("ascii")
        return Mail(MailId(row["_id"]), TenantId(row["tenantId"]), content["sender"], recipients, message)
