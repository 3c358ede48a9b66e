"""The work queue of erasures: deleted users and tenants whose data is still in logs, events and queues.

A row is stored in the transaction of the deletion, so that no interruption loses the erasure. It contains the addresses
to search for, encrypted, and exists until nothing remains to be erased.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

import structlog
from pymongo import IndexModel

from identity.call import Document
from identity.domain.users.personal_data import Person
from identity.errors import StartupError
from identity.ids import EventId, TenantId
from identity.instants import Instant
from identity.store.mongo import Collection, Database, Session
from identity.store.sealed_members import reseal_member
from identity.store.vault import Vault

_log = structlog.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Erasure:
    """The erasure of a deleted user.

    `pending` are events that are yet to be delivered; if there are any, the rest is erased already.
    """

    person: Person
    pending: tuple[EventId, ...]


class Erasures:
    """The collection `erasures`."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._collection: Collection = database.collection("erasures")
        self._vault = vault

    async def ensure_indexes(self) -> None:
        """Create missing indexes."""
        await self._collection.create_indexes([IndexModel([("deleteInstant", 1)], name="age")])

    async def add_user(self, person: Person, now: Instant, session: Session | None = None) -> None:
        """Store that the data of a user must be erased, in the transaction of the deletion."""
        content = json.dumps([person.addresses, person.ip_addresses])
        row = {
            "tenantId": person.tenant_id,
            "deleteInstant": now,
            "content": self._vault.seal(content, _context(person.user_id)),
        }
        await self._collection.update_one({"_id": person.user_id}, {"$set": row}, upsert=True, session=session)

    async def add_tenant(self, tenant_id: TenantId, now: Instant) -> None:
        """Store that the data of a tenant must be erased."""
        row = {"tenantId": tenant_id, "deleteInstant": now, "isTenant": True}
        await self._collection.update_one({"_id": tenant_id}, {"$set": row}, upsert=True)

    async def find_users_across_tenants(self, before: Instant, limit: int, after: str = "") -> list[Erasure]:
        """Return users who were deleted before an instant, in the order of their ids, from after an id.

        A row that cannot be unsealed is left out, and remains until the master key is restored.
        """
        where = {"isTenant": None, "deleteInstant": {"$lt": before}, "_id": {"$gt": after}}
        found: list[Erasure] = []
        async for row in self._collection.find(where).sort("_id", 1):
            try:
                found.append(self._erasure(row))
            except StartupError as error:
                _log.error("a deleted user cannot be erased", user_id=row["_id"], error=str(error))
            if len(found) == limit:
                break
        return found

    async def find_tenants_across_tenants(self, before: Instant) -> list[TenantId]:
        """Return the tenants that were deleted before an instant."""
        where = {"isTenant": True, "deleteInstant": {"$lt": before}}
        return [TenantId(row["_id"]) async for row in self._collection.find(where, {"_id": 1})]

    async def keep(self, tenant_id: TenantId, user_id: str, pending: Sequence[EventId]) -> None:
        """Store the events that are yet to be delivered, and forget the addresses, which are erased elsewhere."""
        where = {"_id": user_id, "tenantId": tenant_id}
        await self._collection.update_one(where, {"$set": {"pending": list(pending)}, "$unset": {"content": ""}})

    async def finish(self, tenant_id: TenantId, erased_id: str) -> None:
        """Delete the row of a user or a tenant of whom nothing remains."""
        await self._collection.delete_one({"_id": erased_id, "tenantId": tenant_id})

    async def count(self, tenant_id: TenantId) -> int:
        """Return the number of erasures of a tenant that are not finished."""
        return await self._collection.count_documents({"tenantId": tenant_id})

    async def reseal(self) -> int:
        """Reseal rows that are sealed under an older master key; return the number of changed rows."""
        return await reseal_member(self._collection, self._vault, "content", _context, {"content": {"$exists": True}})

    def _erasure(self, row: Document) -> Erasure:
        content = row.get("content")
        addresses, ips = json.loads(self._vault.unseal(content, _context(row["_id"]))) if content else ((), ())
        person = Person(row["tenantId"], row["_id"], tuple(addresses), tuple(ips))
        return Erasure(person, tuple(row.get("pending", ())))


def _context(user_id: str) -> str:
    return f"erasures.{user_id}.content"
