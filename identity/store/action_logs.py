"""The actions that were taken on users, live or over: one document each, with its history.

`private.endsAt` is when a live action ends by itself; `private.lockOutOf` names the user whom a live action keeps out
after failed logins, of which there is one at the most.
"""

from __future__ import annotations

from pymongo import IndexModel

from identity.call import Document
from identity.ids import TenantId, UserId
from identity.instants import Instant
from identity.store.cache import ChangeStreamStatus
from identity.store.documents import Documents
from identity.store.mongo import Database, Session
from identity.store.vault import Vault

LOCK_OUT_INDEX = "lockOut"


class ActionLogs(Documents):
    """The actions of all tenants."""

    def __init__(self, database: Database, vault: Vault, freshness: ChangeStreamStatus) -> None:
        super().__init__(database, "action_logs", vault, freshness, tenant_scoped=True)

    def indexes(self) -> list[IndexModel]:
        """Those by which actions are listed and end, and that of the one lock-out that a user has."""
        has_end = {"private.endsAt": {"$exists": True}}
        is_lock_out = {"private.lockOutOf": {"$exists": True}}
        return [
            IndexModel([("tenantId", 1), ("actioneeUserId", 1), ("insertInstant", -1), ("_id", -1)], name="user"),
            IndexModel([("private.endsAt", 1)], name="ends", partialFilterExpression=has_end),
            IndexModel(
                [("tenantId", 1), ("private.lockOutOf", 1)],
                name=LOCK_OUT_INDEX,
                unique=True,
                partialFilterExpression=is_lock_out,
            ),
        ]

    async def find_lock_out(self, tenant_id: TenantId, user_id: UserId) -> Document | None:
        """The action that keeps a user out after failed logins; its time may be over, and its end not yet written."""
        return await self.find_where(tenant_id, {"private.lockOutOf": user_id})

    async def extend(self, tenant_id: TenantId, action_id: str, expiry: int, now: Instant) -> bool:
        """Let a live action end later; False when it has ended meanwhile."""
        where = {**self._of(tenant_id), "_id": action_id, "private.endsAt": {"$gt": now}}
        change = {"$max": {"expiry": expiry, "private.endsAt": expiry}, "$inc": {"lastUpdateInstant": 1}}
        result = await self._collection.update_one(where, change)
        self.invalidate(action_id)
        return result.matched_count == 1

    async def find_due_across_tenants(self, now: Instant, limit: int) -> list[Document]:
        """The live actions whose time is over, those that are so the longest first."""
        cursor = self._collection.find({"private.endsAt": {"$lte": now}}).sort("private.endsAt", 1).limit(limit)
        return [self._opened(stored) async for stored in cursor]

    async def end(
        self, tenant_id: TenantId, action_id: str, now: Instant, *, is_told: bool, session: Session | None = None
    ) -> bool:
        """Write that an action has ended by itself: of all callers one is told True."""
        where = {**self._of(tenant_id), "_id": action_id, "private.endsAt": {"$lte": now}}
        change = {
            "$set": {"endEventSent": is_told},
            "$unset": {"private.endsAt": "", "private.lockOutOf": ""},
            "$inc": {"lastUpdateInstant": 1},
        }
        result = await self._collection.update_one(where, change, session=session)
        self._invalidate(session, action_id)
        return result.modified_count == 1
