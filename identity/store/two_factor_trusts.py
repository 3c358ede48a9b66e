"""Devices that users trust: where one was shown a second factor, and for which applications, until that is forgotten.

A device is known by a secret that only its browser or app holds; the document's id has the SHA-256 of it. `trusts` has
an entry for each application (or none) with `startInstant` and `expiration`; `expiresAt`, the last of these, is an
Instant here and a date in MongoDB, where the TTL index reads it. Never read through a cache: trust can be withdrawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pymongo import IndexModel

from identity.call import Document
from identity.errors import Duplicate
from identity.ids import ApplicationId, TenantId, UserId, fingerprint
from identity.instants import Instant, as_datetime
from identity.store.cache import ChangeStreamStatus
from identity.store.documents import Documents
from identity.store.mongo import Database, duplicates
from identity.store.vault import Vault


class TwoFactorTrusts(Documents):
    """The trusted devices of all tenants."""

    def __init__(self, database: Database, vault: Vault, freshness: ChangeStreamStatus) -> None:
        super().__init__(database, "two_factor_trusts", vault, freshness, tenant_scoped=True)

    def indexes(self) -> list[IndexModel]:
        """Those by which trust goes with its user and its application, and is forgotten."""
        return [
            IndexModel([("tenantId", 1), ("userId", 1)], name="user"),
            IndexModel([("tenantId", 1), ("trusts.applicationId", 1)], name="application"),
            IndexModel([("expiresAt", 1)], name="expiry", expireAfterSeconds=0),
        ]

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
        """Trust a device for an application, or for none, beside those before; False for another user's device."""
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
            # Another user's device, or a trust of this user's that somebody began at the same moment.
            return (await self._collection.update_one(where, [{"$set": change}])).matched_count == 1
        return True

    async def find_live(self, tenant_id: TenantId, user_id: UserId, secret: str, now: Instant) -> Document | None:
        """The trust in a device of this user, as long as any of it lasts."""
        where = {"_id": _id(tenant_id, secret), "userId": user_id, "expiresAt": {"$gt": as_datetime(now)}}
        return await self.find_where(tenant_id, where)

    async def remove_application(self, tenant_id: TenantId, application_id: ApplicationId) -> None:
        """Take the trust that was given for an application back."""
        where = {"trusts.applicationId": application_id}
        await self.update_in_chunks(tenant_id, where, {"$pull": {"trusts": {"applicationId": application_id}}})

    def _opened(self, found: Mapping[str, Any]) -> Document:
        document = super()._opened(found)
        document["expiresAt"] = Instant(round(document["expiresAt"].timestamp() * 1000))
        return document


def _id(tenant_id: TenantId, secret: str) -> str:
    return f"{tenant_id} {fingerprint(secret)}"
