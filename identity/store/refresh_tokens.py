"""Refresh tokens: found by keyed fingerprint, value sealed, rotated by one compare-and-set.

A record keeps its id while its value changes. Every value begins with the same random half, by which the record is
found, so that a value that was rotated out long ago is still known as one. Under `private` stand, beside that
fingerprint (`lookup`) and the one of the whole current value (`hash`), the values spent last (`spent`, for the grace
period) and what later tokens have to repeat: see
domain/clients/refresh_tokens.py. `expiresAt`, an Instant here and a date in MongoDB, is read by the TTL index.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import bson
from bson.raw_bson import RawBSONDocument
from pymongo import IndexModel, ReturnDocument

from identity.call import Document
from identity.ids import ApplicationId, Secret, TenantId, UserId, new_secret
from identity.instants import Instant, as_datetime, from_datetime, later
from identity.store.mongo import BULK_SECONDS, CHUNK, Collection, Database, Session, duplicates
from identity.store.store_circuit_breaker import time_limit
from identity.store.vault import Vault

_HALF_BYTES = 24
_HALF_LENGTH = 32
_SPENT_KEPT = 5
_FORMER_INDEX = "lookup"


@dataclasses.dataclass(frozen=True, slots=True)
class PresentedRefreshToken:
    """A record, found by a value of its own: its present one, one that was rotated out, or none it ever had."""

    record: Document
    is_current: bool
    spent_instant: Instant | None = None

    def is_graced(self, grace_seconds: int, now: Instant) -> bool:
        """Whether the value was rotated out so lately that whoever shows it may have the present one.

        Without a grace period never: also not to one of several callers who read the clock before the first one did.
        """
        if self.spent_instant is None or grace_seconds == 0:
            return False
        return later(self.spent_instant, seconds=grace_seconds) > now


@dataclasses.dataclass(frozen=True, slots=True)
class RefreshTokenRotation:
    """What became of an attempt to rotate; `record` as it is after it."""

    outcome: Literal["rotated", "graced", "replayed", "unknown"]
    record: Document | None = None


class RefreshTokens:
    """The refresh tokens of all tenants; never cached, because a replay must be seen at once."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._collection: Collection = database.collection("refresh_tokens")
        self._vault = vault

    async def ensure_indexes(self) -> None:
        """Create what is missing."""
        await self._collection.create_indexes(
            [
                # The value first: who shows one may not have said for which tenant.
                IndexModel([("private.lookup", 1), ("tenantId", 1)], name="value", unique=True),
                IndexModel([("tenantId", 1), ("userId", 1), ("applicationId", 1)], name="user"),
                IndexModel([("tenantId", 1), ("applicationId", 1)], name="application"),
                IndexModel([("expiresAt", 1)], name="expiry", expireAfterSeconds=0),
            ]
        )
        if _FORMER_INDEX in await self._collection.index_information():
            await self._collection.drop_index(_FORMER_INDEX)

    async def insert(
        self, tenant_id: TenantId, record: Document, expires: Instant, session: Session | None = None
    ) -> Document:
        """Add a record; its `token` is made here unless it brings one. Raises Duplicate."""
        record = self._complete(tenant_id, record, expires)
        with duplicates():
            await self._collection.insert_one(self._closed(record, expires), session=session)
        return record

    def encode(self, tenant_id: TenantId, record: Document, expires: Instant) -> bytes:
        """A record with a value of its own, as it is to be stored; many of these take little room."""
        return bson.encode(self._closed(self._complete(tenant_id, record, expires), expires))

    async def insert_encoded(self, records: Sequence[bytes], session: Session) -> None:
        """Add very many records, of whatever tenants, in one transaction. Raises Duplicate."""
        for at in range(0, len(records), CHUNK):
            with duplicates():
                rows = [RawBSONDocument(record) for record in records[at : at + CHUNK]]
                await self._collection.insert_many(rows, session=session)

    async def find_existing_values(self, tenant_id: TenantId, values: Sequence[str]) -> set[str]:
        """Those of the values that a record has, whether it is still live or not."""
        lookups = {lookup: value for value in values for lookup in self._lookups(value)}
        where = {"tenantId": tenant_id, "private.lookup": {"$in": list(lookups)}}
        found = self._collection.find(where, {"private.lookup": 1})
        return {lookups[one] async for row in found for one in row["private"]["lookup"] if one in lookups}

    async def find_by_value(self, tenant_id: TenantId, value: str, now: Instant) -> PresentedRefreshToken | None:
        """The live record that a value belongs or belonged to."""
        stored: Any = await self._collection.find_one({"tenantId": tenant_id, **self._live(value, now)})
        return None if stored is None else self._presented(stored, value)

    async def find_by_value_across_tenants(self, value: str, now: Instant) -> PresentedRefreshToken | None:
        """As `present`, where nobody said for which tenant; None where two tenants have a token with this value."""
        found: list[Any] = [stored async for stored in self._collection.find(self._live(value, now)).limit(2)]
        return self._presented(found[0], value) if len(found) == 1 else None

    def _live(self, value: str, now: Instant) -> Document:
        """Finds the live records that a value belongs or belonged to."""
        return {"private.lookup": {"$in": self._lookups(value)}, "expiresAt": {"$gt": as_datetime(now)}}

    def _presented(self, stored: Any, value: str) -> PresentedRefreshToken:
        value_hash = self._vault.fingerprint(value)
        is_current = stored["private"]["hash"] == value_hash
        return PresentedRefreshToken(self._opened(stored), is_current, _spent_instant(stored, value_hash))

    async def rotate(
        self,
        tenant_id: TenantId,
        presented: PresentedRefreshToken,
        changes: Mapping[str, Any],
        expires: Instant,
        now: Instant,
        *,
        grace_seconds: int,
        session: Session | None = None,
    ) -> RefreshTokenRotation:
        """Give the record a new value, if the one presented still is its present one: of all callers one rotates it.

        A caller who lost the race gets the new value inside the grace period, and has replayed the token outside it.
        """
        old, record_id = presented.record["token"], presented.record["id"]
        token = Secret(old[:_HALF_LENGTH] + new_secret(_HALF_BYTES)) if has_own_format(old) else new_value()
        stored: Any = await self._collection.find_one_and_update(
            {"tenantId": tenant_id, "_id": record_id, "private.hash": self._vault.fingerprint(old)},
            {
                "$set": {**self._change(record_id, changes, expires), **self._replacement(record_id, token)},
                "$addToSet": {"private.lookup": self._lookups(token)[0]},
                "$push": {
                    "private.spent": {
                        "$each": [{"hash": self._vault.fingerprint(old), "instant": now}],
                        "$slice": -_SPENT_KEPT,
                    }
                },
            },
            return_document=ReturnDocument.AFTER,
            session=session,
        )
        if stored is not None:
            return RefreshTokenRotation("rotated", self._opened(stored))
        return await self._lost(tenant_id, record_id, old, grace_seconds, now, session)

    async def record_use(
        self,
        tenant_id: TenantId,
        presented: PresentedRefreshToken,
        changes: Mapping[str, Any],
        expires: Instant,
        session: Session | None = None,
    ) -> Document | None:
        """Note a use that leaves the value as it is; None when the record was revoked or rotated meanwhile."""
        record_id, current = presented.record["id"], self._vault.fingerprint(presented.record["token"])
        stored: Any = await self._collection.find_one_and_update(
            {"tenantId": tenant_id, "_id": record_id, "private.hash": current},
            {"$set": self._change(record_id, changes, expires)},
            return_document=ReturnDocument.AFTER,
            session=session,
        )
        return None if stored is None else self._opened(stored)

    async def find(self, tenant_id: TenantId, record_id: str) -> Document | None:
        """A record by its id."""
        stored: Any = await self._collection.find_one({"tenantId": tenant_id, "_id": record_id})
        return None if stored is None else self._opened(stored)

    async def find_of_user(self, tenant_id: TenantId, user_id: UserId, now: Instant) -> list[Document]:
        """The live records of a user, the newest first."""
        where = {"tenantId": tenant_id, "userId": user_id, "expiresAt": {"$gt": as_datetime(now)}}
        cursor: Any = self._collection.find(where).sort([("insertInstant", -1), ("_id", -1)])
        return [self._opened(stored) async for stored in cursor]

    async def revoke(self, tenant_id: TenantId, record_id: str, session: Session | None = None) -> Document | None:
        """End a record; answers what it was, to exactly one of several callers."""
        where = {"tenantId": tenant_id, "_id": record_id}
        stored: Any = await self._collection.find_one_and_delete(where, session=session)
        return None if stored is None else self._opened(stored)

    async def revoke_user(
        self,
        tenant_id: TenantId,
        user_id: UserId,
        application_id: ApplicationId | None = None,
        session: Session | None = None,
    ) -> list[str]:
        """End all records of a user, or those for one application; answers the applications that were concerned."""
        where: dict[str, Any] = {"tenantId": tenant_id, "userId": user_id}
        if application_id is not None:
            where["applicationId"] = application_id
        concerned = await self._collection.distinct("applicationId", where, session=session)
        await self._collection.delete_many(where, session=session)
        return sorted(str(found) for found in concerned)

    async def ids_of_application(self, tenant_id: TenantId, application_id: ApplicationId) -> list[str]:
        """The ids of all records for an application."""
        where = {"tenantId": tenant_id, "applicationId": application_id}
        with time_limit(BULK_SECONDS):
            return [found["_id"] async for found in self._collection.find(where, {"_id": 1})]

    async def revoke_application(
        self, tenant_id: TenantId, application_id: ApplicationId, session: Session | None = None
    ) -> int:
        """End all records for an application; answers how many there were."""
        where = {"tenantId": tenant_id, "applicationId": application_id}
        with time_limit(BULK_SECONDS):
            return (await self._collection.delete_many(where, session=session)).deleted_count

    async def revoke_tenant(self, tenant_id: TenantId) -> int:
        """End all records of a tenant, in steps; answers how many there were."""
        ended = 0
        while ids := [
            found["_id"] async for found in self._collection.find({"tenantId": tenant_id}, {"_id": 1}).limit(CHUNK)
        ]:
            ended += (await self._collection.delete_many({"_id": {"$in": ids}})).deleted_count
        return ended

    async def reseal(self) -> int:
        """Seal again what was sealed under an older master key; answers how many changed."""
        changed = 0
        async for stored in self._collection.find({}):
            if not self._vault.is_current(stored["token"]):
                fresh = self._seal(stored["_id"], self._opened(dict(stored))["token"])
                where = {"_id": stored["_id"], "tenantId": stored["tenantId"], "token": stored["token"]}
                changed += (await self._collection.update_one(where, {"$set": {"token": fresh}})).modified_count
        return changed

    async def _lost(
        self, tenant_id: TenantId, record_id: str, old: str, grace_seconds: int, now: Instant, session: Session | None
    ) -> RefreshTokenRotation:
        stored: Any = await self._collection.find_one({"tenantId": tenant_id, "_id": record_id}, session=session)
        if stored is None:
            return RefreshTokenRotation("unknown")
        spent = PresentedRefreshToken(stored, False, _spent_instant(stored, self._vault.fingerprint(old)))
        outcome: Literal["graced", "replayed"] = "graced" if spent.is_graced(grace_seconds, now) else "replayed"
        return RefreshTokenRotation(outcome, self._opened(stored))

    def _complete(self, tenant_id: TenantId, record: Document, expires: Instant) -> Document:
        token = record.get("token") or new_value()
        private = {**record.get("private", {}), **self._marks(token), "spent": []}
        return {**record, "tenantId": tenant_id, "token": token, "private": private, "expiresAt": expires}

    def _marks(self, token: str) -> Document:
        return {"lookup": self._lookups(token)[:1], "hash": self._vault.fingerprint(token)}

    def _lookups(self, value: str) -> list[str]:
        """By what a value is found: its first half when it can be one of ours, and the whole when it was imported."""
        whole = self._vault.fingerprint(value)
        return [self._vault.fingerprint(value[:_HALF_LENGTH]), whole] if has_own_format(value) else [whole]

    def _replacement(self, record_id: str, token: str) -> Document:
        return {"token": self._seal(record_id, token), "private.hash": self._vault.fingerprint(token)}

    def _change(self, record_id: str, changes: Mapping[str, Any], expires: Instant) -> Document:
        if "token" in changes:
            raise ValueError(f"the value of {record_id} changes by rotation only")
        return {**changes, "expiresAt": as_datetime(expires)}

    def _seal(self, record_id: str, token: str) -> str:
        return self._vault.seal(token, f"refresh_tokens.{record_id}.token")

    def _closed(self, record: Document, expires: Instant) -> Document:
        stored = {**record, "_id": record["id"], "expiresAt": as_datetime(expires)}
        stored["token"] = self._seal(record["id"], record["token"])
        del stored["id"]
        return stored

    def _opened(self, stored: Document) -> Document:
        record = {**stored, "id": stored["_id"]}
        record["token"] = Secret(self._vault.unseal(stored["token"], f"refresh_tokens.{stored['_id']}.token"))
        record["expiresAt"] = from_datetime(stored["expiresAt"])
        del record["_id"]
        return record


def new_value() -> Secret:
    """A fresh value: 48 random bytes, 64 characters; the first half stays with its record."""
    return Secret(new_secret(_HALF_BYTES) + new_secret(_HALF_BYTES))


def has_own_format(value: str) -> bool:
    """Whether a value has the length of ours; imported ones are found by the whole."""
    return len(value) == 2 * _HALF_LENGTH


def _spent_instant(stored: Document, value_hash: str) -> Instant | None:
    spent = [Instant(entry["instant"]) for entry in stored["private"]["spent"] if entry["hash"] == value_hash]
    return max(spent, default=None)
