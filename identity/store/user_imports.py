"""Imports under way: which users each has begun to write, so that none of them stays where it does not come to its end.

Ten thousand users are more than one transaction of MongoDB holds (decision 38). So they are written one batch after the
other, each marked with its import, and the import is done when its row here is removed, in the transaction of whatever
else belongs to it. Of the one who finishes an import and the one who takes it back, only one gets hold of the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymongo import IndexModel

from identity.ids import TenantId
from identity.instants import Instant
from identity.store.mongo import Collection, Database, Session


class UserImports:
    """The collection `user_imports`. An import may be into several tenants."""

    def __init__(self, database: Database) -> None:
        self._collection: Collection = database.collection("user_imports")

    async def ensure_indexes(self) -> None:
        """Create what is missing."""
        await self._collection.create_indexes([IndexModel([("until", 1)], name="until")])

    async def begin(
        self, tenant_ids: Sequence[TenantId], import_id: str, user_ids: Sequence[str], until: Instant
    ) -> None:
        """Say which users are about to be written; who does not go on with it before `until` has given it up."""
        await self._collection.insert_one(
            {
                "_id": import_id,
                "tenantIds": list(tenant_ids),
                "userIds": list(user_ids),
                "state": "writing",
                "until": until,
            }
        )

    async def extend(self, import_id: str, until: Instant) -> bool:
        """Say that more is being written; False when it was taken back meanwhile."""
        where = {"_id": import_id, "state": "writing"}
        return bool((await self._collection.update_one(where, {"$set": {"until": until}})).matched_count)

    async def finish(self, import_id: str, session: Session | None) -> bool:
        """Let all of it stay; False when it was taken back meanwhile."""
        result = await self._collection.delete_one({"_id": import_id, "state": "writing"}, session=session)
        return bool(result.deleted_count)

    async def begin_rollback(self, import_id: str) -> tuple[list[TenantId], list[str]] | None:
        """From now on it cannot be finished: its tenants and users, of whom none may stay. None when it was."""
        found: Any = await self._collection.find_one_and_update({"_id": import_id}, {"$set": {"state": "undoing"}})
        return None if found is None else (list(found["tenantIds"]), list(found["userIds"]))

    async def delete(self, import_id: str) -> None:
        """Nothing of it is left."""
        await self._collection.delete_one({"_id": import_id})

    async def list_abandoned(self, now: Instant) -> list[str]:
        """The imports that were interrupted."""
        return [str(found["_id"]) async for found in self._collection.find({"until": {"$lt": now}}, {"_id": 1})]
