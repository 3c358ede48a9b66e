"""The queue of mails. Mails are sealed, because they contain links and codes that authenticate users."""

from __future__ import annotations

import dataclasses

from identity.call import Document
from identity.ids import MailId, TenantId
from identity.store.work_queue import WorkQueue


@dataclasses.dataclass(frozen=True, slots=True)
class Mail:
    """A mail to be sent; `recipients` are those to whom it has not been delivered yet."""

    mail_id: MailId
    tenant_id: TenantId
    sender: str
    recipients: tuple[str, ...]
    message: bytes = dataclasses.field(repr=False)

    @property
    def job_id(self) -> str:
        """The id of its document."""
        return self.mail_id

    @property
    def lane(self) -> str:
        """Each tenant has one mail server."""
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
