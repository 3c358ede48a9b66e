"""User actions applied to users, one document each with its history.

`private.endsAt` is when an active action expires. `private.lockOutOf` is the user locked by an active action after
failed logins; there is at most one per user.
"""

from __future__ import annotations

from pymongo import IndexModel

from identity.call import Document
from identity.ids import TenantId, UserId
from identity.instants import Instant
from identity.store.documents import TenantDocuments
from identity.store.mongo import Session

LOCK_OUT_INDEX = "lockOut"


class ActionLogs(TenantDocuments):
    """The actions of all tenants."""

    collection_name = "action_logs"

    def indexes(self) -> list[IndexModel]:
        """The indexes for lists and expiry, and the unique index on the lock-out of a user."""
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
        """The lock-out of a user after failed logins; it may have expired already."""
        return await self.find_where(tenant_id, {"private.lockOutOf": user_id})

    async def extend(self, tenant_id: TenantId, action_id: str, expiry: int, now: Instant) -> bool:
        """Extend an active action; False if it has ended."""
        change = {"$max": {"expiry": expiry, "private.endsAt": expiry}, "$inc": {"lastUpdateInstant": 1}}
        return await self._update_one(tenant_id, action_id, change, where={"private.endsAt": {"$gt": now}})

    async def find_due_across_tenants(self, now: Instant, limit: int) -> list[Document]:
        """The active actions that have expired, earliest first."""
        cursor = self._collection.find({"private.endsAt": {"$lte": now}}).sort("private.endsAt", 1).limit(limit)
        return [self._decode(stored) async for stored in cursor]

    async def end(
        self, tenant_id: TenantId, action_id: str, now: Instant, *, event_sent: bool, session: Session | None = None
    ) -> bool:
        """Mark an expired action as ended; True for only one of several callers."""
        change = {
            "$set": {"endEventSent": event_sent},
            "$unset": {"private.endsAt": "", "private.lockOutOf": ""},
            "$inc": {"lastUpdateInstant": 1},
        }
        return await self._update_one(tenant_id, action_id, change, session, where={"private.endsAt": {"$lte": now}})
