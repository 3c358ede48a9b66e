"""Scope consents, one document per user and application, until they expire.

`approved` and `declined` are scopes. Consents are never cached, so that a revocation takes effect immediately.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pymongo import IndexModel, ReturnDocument

from identity.call import Document
from identity.ids import ApplicationId, TenantId, UserId
from identity.instants import Instant, as_datetime
from identity.store.documents import ExpiringDocuments
from identity.store.mongo import Session


class ScopeConsents(ExpiringDocuments):
    """The consents of all tenants."""

    collection_name = "scope_consents"

    def indexes(self) -> list[IndexModel]:
        """The indexes by expiry, user and application."""
        return [*super().indexes(), IndexModel([("tenantId", 1), ("applicationId", 1)], name="application")]

    async def find_live(
        self, tenant_id: TenantId, user_id: UserId, application_id: ApplicationId, now: Instant
    ) -> Document | None:
        """The unexpired consent of a user to an application."""
        where = {"_id": _id(tenant_id, user_id, application_id), "expiresAt": {"$gt": as_datetime(now)}}
        return await self.find_where(tenant_id, where)

    async def find_of_user(self, tenant_id: TenantId, user_id: UserId, now: Instant) -> list[Document]:
        """All unexpired consents of a user."""
        where = {"userId": user_id, "expiresAt": {"$gt": as_datetime(now)}}
        return await self.find_unordered(tenant_id, where)

    async def decide(
        self,
        tenant_id: TenantId,
        user_id: UserId,
        application_id: ApplicationId,
        approved: Collection[str],
        declined: Collection[str],
        *,
        now: Instant,
        expires: Instant,
    ) -> Document:
        """Atomically merge a decision into the consent: other scopes keep their decision unless it had expired."""
        decided = [*approved, *declined]
        change = {
            "approved": _merged("approved", approved, decided, now),
            "declined": _merged("declined", declined, decided, now),
            "applicationId": application_id,
            "expiresAt": as_datetime(expires),
            "insertInstant": {"$ifNull": ["$insertInstant", now]},
            "lastUpdateInstant": now,
            "tenantId": tenant_id,
            "userId": user_id,
        }
        # Filter by id only: then MongoDB retries the second of two concurrent upserts as an update.
        stored: Any = await self._collection.find_one_and_update(
            {"_id": _id(tenant_id, user_id, application_id)},
            [{"$set": change}],
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
        return self._decode(stored)

    async def remove_scope(self, tenant_id: TenantId, application_id: ApplicationId, scope: str) -> None:
        """Remove all decisions on a scope of an application."""
        where = {"applicationId": application_id, "$or": [{"approved": scope}, {"declined": scope}]}
        await self.update(tenant_id, where, {"$pull": {"approved": scope, "declined": scope}})

    async def remove(
        self, tenant_id: TenantId, user_id: UserId, application_id: ApplicationId, session: Session | None = None
    ) -> bool:
        """Delete the consent of a user to an application; False if there was none."""
        return await self.delete(tenant_id, _id(tenant_id, user_id, application_id), session)


def _id(tenant_id: TenantId, user_id: UserId, application_id: ApplicationId) -> str:
    return f"{tenant_id} {user_id} {application_id}"


def _merged(member: str, fresh: Collection[str], decided: Collection[str], now: Instant) -> Document:
    """The unexpired scopes of a list without the `decided` ones, plus the `fresh` ones."""
    is_live = {"$gt": ["$expiresAt", as_datetime(now)]}
    before = {"$cond": [is_live, {"$ifNull": [f"${member}", []]}, []]}
    # Literals, because a scope may begin with a dollar sign.
    return {"$setUnion": [{"$setDifference": [before, {"$literal": [*decided]}]}, {"$literal": [*fresh]}]}
