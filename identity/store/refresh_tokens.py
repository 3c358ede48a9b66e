"""Refresh tokens: found by keyed fingerprint, sealed, and rotated by one compare-and-set.

A record keeps its id when its value changes. All values of a record begin with the same random half, whose fingerprint
(`private.lookup`) finds the record of a value that was rotated out long ago, too. `private.hash` is the fingerprint of
the whole current value, `private.spent` contains the last rotated ones, for the grace period, and other members contain
what later tokens repeat: see domain/clients/refresh_tokens.py. `expiresAt` is an Instant here and a date in MongoDB,
for the TTL index.

Lookups by value are sent in batches, and so are rotations outside transactions: while one batch runs the next one
collects. Concurrent requests then share the commands, and rotations also the wait for the journal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import bson
from bson.raw_bson import RawBSONDocument
from pymongo import IndexModel, UpdateOne

from identity.call import Document
from identity.ids import ApplicationId, Secret, TenantId, UserId, new_secret
from identity.instants import Instant, as_datetime, from_datetime, later
from identity.store import mongo
from identity.store.mongo import BULK_SECONDS, CHUNK, TTL_INDEX, Collection, Database, Session, duplicates
from identity.store.request_coalescing import RequestCoalescer
from identity.store.sealed_members import reseal_member
from identity.store.store_circuit_breaker import time_limit
from identity.store.vault import Vault

_HALF_BYTES = 24
_HALF_LENGTH = 32
_MAX_SPENT = 5
_Lookup = tuple[TenantId, Sequence[str]]
"""The tenant and the fingerprints of a looked-up value."""
_VALUE_INDEX = "value"
_OBSOLETE_INDEX = "lookup"


@dataclasses.dataclass(frozen=True, slots=True)
class PresentedRefreshToken:
    """The record that a presented value identifies.

    The value is the current one or one that was rotated out at `spent_instant`; None if it was rotated out long ago, or
    only begins like a value of the record.
    """

    record: Document
    is_current: bool
    spent_instant: Instant | None = None

    @property
    def token(self) -> Secret:
        """The current value."""
        return Secret(self.record["token"])

    def is_graced(self, grace_seconds: int, now: Instant) -> bool:
        """Whether the value was rotated out within the grace period, so that the caller may have the current one.

        Never without a grace period, even for concurrent callers whose clock reading precedes the rotation.
        """
        if self.spent_instant is None or grace_seconds == 0:
            return False
        return later(self.spent_instant, seconds=grace_seconds) > now


@dataclasses.dataclass(frozen=True, slots=True)
class RefreshTokenRotation:
    """The result of a rotation, and the current value of the record after it."""

    outcome: Literal["rotated", "graced", "replayed", "unknown"]
    token: Secret | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class _Rotation:
    """A compare-and-set that replaces the current value of a record."""

    where: Document
    change: Document
    new_hash: str

    def is_applied(self, stored: Document | None) -> bool:
        """Whether a record has, or since had, the new value."""
        return stored is not None and (
            stored["private"]["hash"] == self.new_hash or _spent_instant(stored, self.new_hash) is not None
        )


class RefreshTokens:
    """The refresh tokens of all tenants; never cached, because replays must be detected at once."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._collection: Collection = database.collection("refresh_tokens")
        self._vault = vault
        self._lookups = RequestCoalescer(self._find_many)
        self._rotations = RequestCoalescer(self._rotate_many)

    async def ensure_indexes(self) -> None:
        """Create missing indexes."""
        await self._collection.create_indexes(
            [
                # The value first, because some callers present one without a tenant.
                IndexModel([("private.lookup", 1), ("tenantId", 1)], name=_VALUE_INDEX, unique=True),
                IndexModel([("tenantId", 1), ("userId", 1), ("applicationId", 1)], name="user"),
                IndexModel([("tenantId", 1), ("applicationId", 1)], name="application"),
                TTL_INDEX,
            ]
        )
        await mongo.drop_obsolete_index(self._collection, _OBSOLETE_INDEX)

    async def insert(
        self, tenant_id: TenantId, record: Document, expires: Instant, session: Session | None = None
    ) -> Document:
        """Insert a record, with a new `token` unless it has one. Raises Duplicate."""
        record = self._complete(tenant_id, record, expires)
        with duplicates():
            await self._collection.insert_one(self._closed(record, expires), session=session)
        return record

    def encode(self, tenant_id: TenantId, record: Document, expires: Instant) -> bytes:
        """A record with a new value in its stored form, for inserting many with little memory."""
        return bson.encode(self._closed(self._complete(tenant_id, record, expires), expires))

    async def insert_encoded(self, records: Sequence[bytes], session: Session) -> None:
        """Insert very many records of any tenants in one transaction. Raises Duplicate."""
        for start in range(0, len(records), CHUNK):
            with duplicates():
                rows = [RawBSONDocument(record) for record in records[start : start + CHUNK]]
                await self._collection.insert_many(rows, session=session)

    async def find_existing_values(self, tenant_id: TenantId, values: Sequence[str]) -> set[str]:
        """Those of the values that belong to a record, expired or not."""
        lookups = {lookup: value for value in values for lookup in self._fingerprints(value)}
        where = {"tenantId": tenant_id, "private.lookup": {"$in": list(lookups)}}
        found = self._collection.find(where, {"private.lookup": 1})
        return {lookups[one] async for row in found for one in row["private"]["lookup"] if one in lookups}

    async def find_by_value(self, tenant_id: TenantId, value: str, now: Instant) -> PresentedRefreshToken | None:
        """The unexpired record of a current or earlier value."""
        stored = await self._lookups.submit((tenant_id, self._fingerprints(value)))
        if stored is None or from_datetime(stored["expiresAt"]) <= now:
            return None
        return self._presented(stored, value)

    async def _find_many(self, lookups: Sequence[_Lookup]) -> list[Document | None]:
        """The records of these lookups, expired or not, in one command."""
        where = {
            "private.lookup": {"$in": [one for _, fingerprints in lookups for one in fingerprints]},
            "tenantId": {"$in": list({tenant_id for tenant_id, _ in lookups})},
        }
        # The hint saves the server the comparison of plans.
        cursor: Any = self._collection.find(where, hint=_VALUE_INDEX)
        found = {(row["tenantId"], one): row async for row in cursor for one in row["private"]["lookup"]}
        return [
            next((found[tenant_id, one] for one in fingerprints if (tenant_id, one) in found), None)
            for tenant_id, fingerprints in lookups
        ]

    async def find_by_value_across_tenants(self, value: str, now: Instant) -> PresentedRefreshToken | None:
        """As `find_by_value` without a tenant; None if two tenants have a token with this value."""
        found: list[Any] = [stored async for stored in self._collection.find(self._live(value, now)).limit(2)]
        return self._presented(found[0], value) if len(found) == 1 else None

    def _live(self, value: str, now: Instant) -> Document:
        """The filter of unexpired records by a current or earlier value."""
        return {"private.lookup": {"$in": self._fingerprints(value)}, "expiresAt": {"$gt": as_datetime(now)}}

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
        """Atomically replace the current value of a record; only one of several callers rotates it.

        Within the grace period, the other callers receive the new value; after it, they have replayed the token.
        """
        old, record_id = presented.token, presented.record["id"]
        token = Secret(old[:_HALF_LENGTH] + new_secret(_HALF_BYTES)) if has_own_format(old) else new_value()
        old_hash, new_hash = self._vault.fingerprint(old), self._vault.fingerprint(token)
        spent = {"$each": [{"hash": old_hash, "instant": now}], "$slice": -_MAX_SPENT}
        replaced = {"token": self._seal(record_id, token), "private.hash": new_hash}
        change = {
            "$set": {**_checked(changes, expires), **replaced},
            "$addToSet": {"private.lookup": self._fingerprints(token)[0]},
            "$push": {"private.spent": spent},
        }
        rotation = _Rotation(_current(tenant_id, record_id, old_hash), change, new_hash)
        if session is None:
            is_rotated = await self._rotations.submit(rotation)
        else:
            (is_rotated,) = await self._rotate_many([rotation], session)
        if is_rotated:
            return RefreshTokenRotation("rotated", token)
        stored: Any = await self._collection.find_one({"tenantId": tenant_id, "_id": record_id}, session=session)
        if stored is None:
            return RefreshTokenRotation("unknown")
        lost = PresentedRefreshToken(stored, False, _spent_instant(stored, old_hash))
        outcome: Literal["graced", "replayed"] = "graced" if lost.is_graced(grace_seconds, now) else "replayed"
        return RefreshTokenRotation(outcome, self._opened(stored)["token"])

    async def _rotate_many(self, rotations: Sequence[_Rotation], session: Session | None = None) -> list[bool]:
        """Whether each of these rotations was applied, in one command if all of them were."""
        updates = [UpdateOne(rotation.where, rotation.change) for rotation in rotations]
        with duplicates():
            result = await self._collection.bulk_write(updates, ordered=False, session=session)
        if result.matched_count == len(rotations):
            return [True] * len(rotations)
        # The server responds with the number of matches only.
        ids = [rotation.where["_id"] for rotation in rotations]
        cursor: Any = self._collection.find({"_id": {"$in": ids}}, {"private": 1}, session=session)
        found = {row["_id"]: row async for row in cursor}
        return [rotation.is_applied(found.get(rotation.where["_id"])) for rotation in rotations]

    async def record_use(
        self,
        tenant_id: TenantId,
        presented: PresentedRefreshToken,
        changes: Mapping[str, Any],
        expires: Instant,
        session: Session | None = None,
    ) -> bool:
        """Record a use that does not change the value; False if the record was revoked or rotated meanwhile."""
        where = _current(tenant_id, presented.record["id"], self._vault.fingerprint(presented.token))
        result = await self._collection.update_one(where, {"$set": _checked(changes, expires)}, session=session)
        return bool(result.matched_count)

    async def find(self, tenant_id: TenantId, record_id: str) -> Document | None:
        """The record with this id."""
        stored: Any = await self._collection.find_one({"tenantId": tenant_id, "_id": record_id})
        return None if stored is None else self._opened(stored)

    async def find_of_user(self, tenant_id: TenantId, user_id: UserId, now: Instant) -> list[Document]:
        """The unexpired records of a user, newest first."""
        where = {"tenantId": tenant_id, "userId": user_id, "expiresAt": {"$gt": as_datetime(now)}}
        cursor: Any = self._collection.find(where).sort([("insertInstant", -1), ("_id", -1)])
        return [self._opened(stored) async for stored in cursor]

    async def revoke(self, tenant_id: TenantId, record_id: str, session: Session | None = None) -> Document | None:
        """Delete a record and return it, to only one of several callers."""
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
        """Delete all records of a user, or those for one application; returns the application ids of the records."""
        where: dict[str, Any] = {"tenantId": tenant_id, "userId": user_id}
        if application_id is not None:
            where["applicationId"] = application_id
        application_ids = await self._collection.distinct("applicationId", where, session=session)
        await self._collection.delete_many(where, session=session)
        return sorted(map(str, application_ids))

    async def ids_of_application(self, tenant_id: TenantId, application_id: ApplicationId) -> list[str]:
        """The ids of all records for an application."""
        where = {"tenantId": tenant_id, "applicationId": application_id}
        with time_limit(BULK_SECONDS):
            return [found["_id"] async for found in self._collection.find(where, {"_id": 1})]

    async def revoke_application(
        self, tenant_id: TenantId, application_id: ApplicationId, session: Session | None = None
    ) -> int:
        """Delete all records for an application; returns their number."""
        return await mongo.delete_many(
            self._collection, {"tenantId": tenant_id, "applicationId": application_id}, session
        )

    async def revoke_tenant(self, tenant_id: TenantId) -> int:
        """Delete all records of a tenant in short steps; returns their number."""
        return await mongo.delete_in_chunks(self._collection, {"tenantId": tenant_id})

    async def reseal(self) -> int:
        """Reseal values that are sealed under an older master key; returns the number of changed records."""
        return await reseal_member(self._collection, self._vault, "token", _context, {})

    def _complete(self, tenant_id: TenantId, record: Document, expires: Instant) -> Document:
        token = record.get("token") or new_value()
        hashes = {"lookup": self._fingerprints(token)[:1], "hash": self._vault.fingerprint(token), "spent": []}
        private = {**record.get("private", {}), **hashes}
        return {**record, "tenantId": tenant_id, "token": token, "private": private, "expiresAt": expires}

    def _fingerprints(self, value: str) -> list[str]:
        """The fingerprints that may find a value: of its first half, if it has our format, and of the whole value."""
        whole = self._vault.fingerprint(value)
        return [self._vault.fingerprint(value[:_HALF_LENGTH]), whole] if has_own_format(value) else [whole]

    def _seal(self, record_id: str, token: str) -> str:
        return self._vault.seal(token, _context(record_id))

    def _closed(self, record: Document, expires: Instant) -> Document:
        stored = {**record, "_id": record["id"], "expiresAt": as_datetime(expires)}
        stored["token"] = self._seal(record["id"], record["token"])
        del stored["id"]
        return stored

    def _opened(self, stored: Document) -> Document:
        record = {**stored, "id": stored["_id"]}
        record["token"] = Secret(self._vault.unseal(stored["token"], _context(stored["_id"])))
        record["expiresAt"] = from_datetime(stored["expiresAt"])
        del record["_id"]
        return record


def new_value() -> Secret:
    """A new value of 48 random bytes (64 characters); all later values of its record begin with the same half."""
    return Secret(new_secret(_HALF_BYTES) + new_secret(_HALF_BYTES))


def has_own_format(value: str) -> bool:
    """Whether a value has the length of generated ones; imported values may have any."""
    return len(value) == 2 * _HALF_LENGTH


def _checked(changes: Mapping[str, Any], expires: Instant) -> Document:
    """The changes of a record with its expiry."""
    if "token" in changes:
        raise ValueError("a value changes only by rotation")
    return {**changes, "expiresAt": as_datetime(expires)}


def _current(tenant_id: TenantId, record_id: str, value_hash: str) -> Document:
    """The filter of a record whose current value has this hash."""
    return {"tenantId": tenant_id, "_id": record_id, "private.hash": value_hash}


def _context(record_id: str) -> str:
    return f"refresh_tokens.{record_id}.token"


def _spent_instant(stored: Document, value_hash: str) -> Instant | None:
    spent = [Instant(entry["instant"]) for entry in stored["private"]["spent"] if entry["hash"] == value_hash]
    return max(spent, default=None)
