"""What users allowed applications: one document for each user and application, until it is forgotten.

`approved` and `declined` name scopes; `expiresAt`, an Instant here and a date in MongoDB, is what the TTL index reads.
Never read through a cache: what was withdrawn must not be granted once more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pymongo import IndexModel, ReturnDocument

from identity.call import Document
from identity.ids import ApplicationId, TenantId, UserId
from identity.instants import Instant, as_datetime
from identity.store.cache import ChangeStreamStatus
from identity.store.documents import Documents
from identity.store.mongo import Database, Session
from identity.store.vault import Vault


class ScopeConsents(Documents):
    """The decisions of all tenants."""

    def __init__(self, database: Database, vault: Vault, freshness: ChangeStreamStatus) -> None:
        super().__init__(database, "scope_consents", vault, freshness, tenant_scoped=True)

    def indexes(self) -> list[IndexModel]:
        """Those by which decisions are listed, go with their application, and are forgotten."""
        return [
            IndexModel([("tenantId", 1), ("userId", 1)], name="user"),
            IndexModel([("tenantId", 1), ("applicationId", 1)], name="application"),
            IndexModel([("expiresAt", 1)], name="expiry", expireAfterSeconds=0),
        ]

    async def find_live(
        self, tenant_id: TenantId, user_id: UserId, application_id: ApplicationId, now: Instant
    ) -> Document | None:
        """What a user decided about an application, as long as it is remembered."""
        where = {"_id": _id(tenant_id, user_id, application_id), "expiresAt": {"$gt": as_datetime(now)}}
        return await self.find_where(tenant_id, where)

    async def find_of_user(self, tenant_id: TenantId, user_id: UserId, now: Instant) -> list[Document]:
        """Everything that a user decided and that is remembered."""
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
        """Add an answer to those before it, in one step: what it does not speak of stays, unless it had expired."""
        answered = [*approved, *declined]
        change = {
            "approved": _merged("approved", approved, answered, now),
            "declined": _merged("declined", declined, answered, now),
            "applicationId": application_id,
            "expiresAt": as_datetime(expires),
            "insertInstant": {"$ifNull": ["$insertInstant", now]},
            "lastUpdateInstant": now,
            "tenantId": tenant_id,
            "userId": user_id,
        }
        # By nothing but the id: of two that insert at once MongoDB lets the second one update what the first inserted.
        stored: Any = await self._collection.find_one_and_update(
            {"_id": _id(tenant_id, user_id, application_id)},
            [{"$set": change}],
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
        return self._opened(stored)

    async def remove_scope(self, tenant_id: TenantId, application_id: ApplicationId, scope: str) -> None:
        """Forget every answer about a scope of an application."""
        where = {"applicationId": application_id, "$or": [{"approved": scope}, {"declined": scope}]}
        await self.update(tenant_id, where, {"$pull": {"approved": scope, "declined": scope}})

    async def remove(
        self, tenant_id: TenantId, user_id: UserId, application_id: ApplicationId, session: Session | None = None
    ) -> bool:
        """Forget what a user decided about an application; False when there was nothing."""
        return await self.delete(tenant_id, _id(tenant_id, user_id, application_id), session)

    def _opened(self, found: Mapping[str, Any]) -> Document:
        document = super()._opened(found)
        document["expiresAt"] = Instant(round(document["expiresAt"].timestamp() * 1000))
        return document


def _id(tenant_id: TenantId, user_id: UserId, application_id: ApplicationId) -> str:
    return f"{tenant_id} {user_id} {application_id}"


def _merged(member: str, fresh: Collection[str], answered: Collection[str], now: Instant) -> Document:
    """The scopes of a list that still count and were not answered anew, and the fresh ones."""
    is_live = {"$gt": ["$expiresAt", as_datetime(now)]}
    before = {"$cond": [is_live, {"$ifNull": [f"${member}", []]}, []]}
    # Literals: the name of a scope may begin with a dollar sign.
    return {"$setUnion": [{"$setDifference": [before, {"$literal": [*answered]}]}, {"$literal": [*fresh]}]}
