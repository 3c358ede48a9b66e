"""Trusted devices, on which a user has completed two-factor authentication.

A device is identified by a secret that only its browser or app has; the document id contains its SHA-256. `trusts` has
an entry with `startInstant` and `expiration` for each application, or one without an application. `expiresAt`
is the latest expiration. Trusts are never cached, so that a revocation takes effect immediately.
"""

from __future__ import annotations

from pymongo import IndexModel

from identity.call import Document
from identity.errors import Duplicate
from identity.ids import ApplicationId, TenantId, UserId, fingerprint
from identity.instants import Instant, as_datetime
from identity.store.documents import ExpiringDocuments
from identity.store.mongo import duplicates


class TwoFactorTrusts(ExpiringDocuments):
    """The trusted devices of all tenants."""

    collection_name = "two_factor_trusts"

    def indexes(self) -> list[IndexModel]:
        """The indexes by expiry, user and application."""
        return [*super().indexes(), IndexModel([("tenantId", 1), ("trusts.applicationId", 1)], name="application")]

    async def trust(
        self,
        tenant_id: TenantId,
        user_id: UserId,
        secret: str,
        application_id: ApplicationId | None,
        *,
        now: Instant,
        expires: Instant,
    ) -> bool:
        """Trust a device for an application, or for none; False if the device belongs to another user."""
        entry: Document = {"startInstant": now, "expiration": expires}
        if application_id is not None:
            entry["applicationId"] = application_id
        others = {
            "$filter": {
                "input": {"$ifNull": ["$trusts", []]},
                "cond": {"$ne": [{"$ifNull": ["$$this.applicationId", None]}, application_id]},
            }
        }
        change = {
            "expiresAt": {"$max": ["$expiresAt", as_datetime(expires)]},
            "insertInstant": {"$ifNull": ["$insertInstant", now]},
            "lastUpdateInstant": now,
            "tenantId": tenant_id,
            "trusts": {"$concatArrays": [others, [{"$literal": entry}]]},
            "userId": user_id,
        }
        where = {"_id": _id(tenant_id, secret), "userId": user_id}
        try:
            with duplicates():
                await self._collection.update_one(where, [{"$set": change}], upsert=True)
        except Duplicate:
            # The device of another user, or a concurrent insert for the same user.
            return (await self._collection.update_one(where, [{"$set": change}])).matched_count == 1
        return True

    async def find_live(self, tenant_id: TenantId, user_id: UserId, secret: str, now: Instant) -> Document | None:
        """The unexpired trust of a device of this user."""
        where = {"_id": _id(tenant_id, secret), "userId": user_id, "expiresAt": {"$gt": as_datetime(now)}}
        return await self.find_where(tenant_id, where)

    async def remove_application(self, tenant_id: TenantId, application_id: ApplicationId) -> None:
        """Remove the trust of all devices for an application."""
        where = {"trusts.applicationId": application_id}
        await self.update_in_chunks(tenant_id, where, {"$pull": {"trusts": {"applicationId": application_id}}})


def _id(tenant_id: TenantId, secret: str) -> str:
    return f"{tenant_id} {fingerprint(secret)}"
