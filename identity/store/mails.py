"""Mails on their way: one row each until a mail server has taken it or nobody will try again.

A row is leased by moving its next attempt into the future under a token of the lessee's own; a lessee that dies stops
moving it. What a mail says is sealed: it holds links and codes that let people in.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable, Mapping

from pymongo import IndexModel, ReturnDocument

from identity.call import Document
from identity.ids import MailId, TenantId, new_id
from identity.instants import Instant, later
from identity.store.guard import within
from identity.store.mongo import BULK_SECONDS, Collection, Database
from identity.store.vault import Vault


@dataclasses.dataclass(frozen=True, slots=True)
class Mail:
    """A mail as it goes out; `recipients` are those who have not got it yet."""

    mail_id: MailId
    tenant_id: TenantId
    sender: str
    recipients: tuple[str, ...]
    message: bytes = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Lease:
    """A mail that is this process's to send until the lease runs out; `attempts` were made before."""

    mail: Mail
    attempts: int
    token: str


class Mails:
    """The collection `mails`."""

    name = "mails"

    def __init__(self, database: Database, vault: Vault) -> None:
        self._collection: Collection = database.collection(self.name)
        self._vault = vault
        self._wake: Callable[[], None] | None = None

    def on_new(self, wake: Callable[[], None]) -> None:
        """Have `wake` called, which rouses the workers, whenever there is a new mail."""
        self._wake = wake

    async def ensure_indexes(self) -> None:
        """Create what is missing."""
        await self._collection.create_indexes([IndexModel([("tenantId", 1), ("nextAttempt", 1)], name="due")])

    async def add(self, mail: Mail, now: Instant) -> None:
        """Take a mail, to be sent from now on. When this returns, it is not lost any more."""
        row = {
            "_id": mail.mail_id,
            "tenantId": mail.tenant_id,
            "attempts": 0,
            "insertInstant": now,
            "nextAttempt": now,
            "content": self._sealed(mail),
        }
        await self._collection.insert_one(row)
        if self._wake is not None:
            self._wake()

    async def lease(
        self, now: Instant, lease_seconds: float, held: Mapping[TenantId, int], per_tenant: int, limit: int
    ) -> list[Lease]:
        """Take due mails: at most `limit`, and none that would give a tenant more than `per_tenant`.

        Tenants are served in random order, so that one with a dead mail server cannot keep the others waiting.
        """
        waiting: list[TenantId] = await self._collection.distinct("tenantId", {"nextAttempt": {"$lte": now}})
        leases: list[Lease] = []
        for tenant_id in random.sample(waiting, len(waiting)):
            room = min(per_tenant - held.get(tenant_id, 0), limit - len(leases))
            for _ in range(room):
                lease = await self._lease_one(tenant_id, now, lease_seconds)
                if lease is None:
                    break
                leases.append(lease)
        return leases

    async def settle(self, lease: Lease) -> None:
        """The mail was taken, or is given up: forget it."""
        await self._collection.delete_one({"_id": lease.mail.mail_id})

    async def retry(self, lease: Lease, recipients: tuple[str, ...], next_attempt: Instant) -> None:
        """Try again later, for those who have not got it; nothing happens when the lease is somebody else's by now."""
        mail = dataclasses.replace(lease.mail, recipients=recipients)
        change = {
            "$set": {"nextAttempt": next_attempt, "content": self._sealed(mail)},
            "$inc": {"attempts": 1},
            "$unset": {"lease": ""},
        }
        await self._collection.update_one({"_id": mail.mail_id, "lease": lease.token}, change)

    async def hand_back(self, lease: Lease, now: Instant) -> None:
        """Let another process send it at once."""
        change = {"$set": {"nextAttempt": now}, "$unset": {"lease": ""}}
        await self._collection.update_one({"_id": lease.mail.mail_id, "lease": lease.token}, change)

    async def count(self, tenant_id: TenantId) -> int:
        """How many mails of a tenant are on their way."""
        return await self._collection.count_documents({"tenantId": tenant_id})

    async def delete_all(self, tenant_id: TenantId) -> None:
        """Forget every mail of a tenant."""
        with within(BULK_SECONDS):
            await self._collection.delete_many({"tenantId": tenant_id})

    async def reseal(self) -> int:
        """Seal again what was sealed under an older master key; answers how many changed."""
        changed = 0
        async for row in self._collection.find({}, {"content": 1}):
            if not self._vault.is_current(row["content"]):
                context = _context(row["_id"])
                fresh = self._vault.seal(self._vault.unseal(row["content"], context), context)
                where = {"_id": row["_id"], "content": row["content"]}
                result = await self._collection.update_one(where, {"$set": {"content": fresh}})
                changed += result.modified_count
        return changed

    async def _lease_one(self, tenant_id: TenantId, now: Instant, lease_seconds: float) -> Lease | None:
        token = new_id()
        row = await self._collection.find_one_and_update(
            {"tenantId": tenant_id, "nextAttempt": {"$lte": now}},
            {"$set": {"lease": token, "nextAttempt": later(now, seconds=lease_seconds)}},
            sort=[("nextAttempt", 1)],
            return_document=ReturnDocument.AFTER,
        )
        return Lease(self._opened(row), row["attempts"], token) if row else None

    def _sealed(self, mail: Mail) -> str:
        content = {"sender": mail.sender, "recipients": mail.recipients, "message": mail.message.decode("ascii")}
        return self._vault.seal(json.dumps(content), _context(mail.mail_id))

    def _opened(self, row: Document) -> Mail:
        content = json.loads(self._vault.unseal(row["content"], _context(row["_id"])))
        recipients, message = tuple(content["recipients"]), content["message"].encode("ascii")
        return Mail(MailId(row["_id"]), TenantId(row["tenantId"]), content["sender"], recipients, message)


def _context(mail_id: str) -> str:
    return f"mails.{mail_id}.content"
