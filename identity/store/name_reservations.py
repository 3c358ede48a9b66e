"""Reservations of names that must be unique across two collections.

A unique index covers one collection. Every transaction that uses such a name also updates its row here, so that of two
concurrent transactions MongoDB aborts one, which then retries and finds the document of the other. The rows have no
meaning after the transaction.
"""

from __future__ import annotations

from pymongo import IndexModel

from identity.store.mongo import Collection, Database, Session

_RETENTION_SECONDS = 3600


class NameReservations:
    """The collection `claims`: names of the whole instance, which belong to no tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._collection: Collection = database.collection("claims")

    async def ensure_indexes(self) -> None:
        """Create missing indexes."""
        await self._collection.create_indexes([IndexModel([("at", 1)], expireAfterSeconds=_RETENTION_SECONDS)])

    async def reserve_across_tenants(self, name: str, session: Session | None) -> None:
        """Exclude all other transactions from using the name until this one ends."""
        assert session is not None, "a name is reserved inside the transaction that uses it"
        await self._database.lock_keys(session, [f"claim {name}"])
        change = {"$currentDate": {"at": True}}
        await self._collection.update_one({"_id": name}, change, upsert=True, session=session)
