"""Claims on names that two collections share: of two transactions that claim one, MongoDB lets one through.

A unique index watches one collection. A row here is changed by every transaction that is about to use its name, so that
the one that comes second starts anew, and finds what the first one wrote. The rows mean nothing afterwards.
"""

from __future__ import annotations

from pymongo import IndexModel

from identity.store.mongo import Collection, Database, Session

_KEPT_SECONDS = 3600


class NameReservations:
    """The collection of claims: names of the whole instance, which no tenant owns."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._collection: Collection = database.collection("claims")

    async def ensure_indexes(self) -> None:
        """Create what is missing."""
        await self._collection.create_indexes([IndexModel([("at", 1)], expireAfterSeconds=_KEPT_SECONDS)])

    async def reserve_across_tenants(self, name: str, session: Session | None) -> None:
        """Be the only transaction that uses the name, until this one ends."""
        assert session is not None, "a name is reserved inside the transaction that uses it"
        await self._database.lock_keys(session, [f"claim {name}"])
        change = {"$currentDate": {"at": True}}
        await self._collection.update_one({"_id": name}, change, upsert=True, session=session)
