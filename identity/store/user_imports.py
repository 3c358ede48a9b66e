"""User imports in progress: the users that each import writes, so that an interrupted import leaves none of them.

An import may exceed the size of a MongoDB transaction (decision 38). Its users are therefore inserted in batches and
marked with the import. The import is complete when its document here is deleted, in the transaction of its other
writes. Completing and rolling back an import exclude each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymongo import IndexModel

from identity.ids import TenantId
from identity.instants import Instant
from identity.store.mongo import Collection, Database, Session


class UserImports:
    """The collection `user_imports`. An import may concern several tenants."""

    def __init__(self, database: Database) -> None:
        self._collection: Collection = database.collection("user_imports")

    async def ensure_indexes(self) -> None:
        """Create missing indexes."""
        await self._collection.create_indexes([IndexModel([("until", 1)], name="until")])

    async def begin(
        self, tenant_ids: Sequence[TenantId], import_id: str, user_ids: Sequence[str], until: Instant
    ) -> None:
        """Store the users that are about to be inserted; an import not extended by `until` counts as abandoned."""
        members = {"tenantIds": list(tenant_ids), "userIds": list(user_ids), "state": "writing", "until": until}
        await self._collection.insert_one({"_id": import_id, **members})

    async def extend(self, import_id: str, until: Instant) -> bool:
        """Extend an import; False if it was rolled back meanwhile."""
        where = {"_id": import_id, "state": "writing"}
        return bool((await self._collection.update_one(where, {"$set": {"until": until}})).matched_count)

    async def finish(self, import_id: str, session: Session | None) -> bool:
        """Complete an import; False if it was rolled back meanwhile."""
        result = await self._collection.delete_one({"_id": import_id, "state": "writing"}, session=session)
        return bool(result.deleted_count)

    async def begin_rollback(self, import_id: str) -> tuple[list[TenantId], list[str]] | None:
        """Prevent the completion of an import and return its tenants and users; None if it is complete."""
        found: Any = await self._collection.find_one_and_update({"_id": import_id}, {"$set": {"state": "undoing"}})
        return None if found is None else (list(found["tenantIds"]), list(found["userIds"]))

    async def delete(self, import_id: str) -> None:
        """Delete the document of an import whose users have been deleted."""
        await self._collection.delete_one({"_id": import_id})

    async def list_abandoned(self, now: Instant) -> list[str]:
        """The imports that were interrupted."""
        return [str(found["_id"]) async for found in self._collection.find({"until": {"$lt": now}}, {"_id": 1})]
