"""The bodies of events: in their rows or, where one is too large for that, in parts of a collection of their own.

MongoDB keeps no document of more than 16 MB, and the event of an import tells of ten thousand users. The parts are
there before their row is, and are forgotten when it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pymongo import IndexModel

from identity.call import Document
from identity.store.mongo import BULK_SECONDS, Collection, Database
from identity.store.store_circuit_breaker import time_limit
from identity.store.vault import Vault

PART_BYTES: Final = 4 * 2**20
"""Where a body is cut. The change stream carries whole documents, with what it adds itself, and has the same limit."""


class EventBodies:
    """The members of event rows that hold a body, and the collection `event_parts`."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._vault = vault
        self._parts: Collection = database.collection("event_parts")

    async def ensure_indexes(self) -> None:
        """Create what is missing: parts go with the rows that they belong to."""
        expiry = IndexModel([("expiresAt", 1)], name="expiry", expireAfterSeconds=0)
        await self._parts.create_indexes([expiry])

    def members(self, event_id: str, body: bytes, *, is_sealed: bool) -> tuple[Document, list[bytes]]:
        """The members of the row, and the parts to be written, if any.

        What is sealed is about one user, and never large.
        """
        if is_sealed:
            return {"body": self._vault.seal(body.decode(), _place(event_id)), "isSealed": True}, []
        if len(body) <= PART_BYTES:
            return {"body": body.decode()}, []
        parts = [body[at : at + PART_BYTES] for at in range(0, len(body), PART_BYTES)]
        return {"body": "", "parts": len(parts)}, parts

    async def add(self, row: Mapping[str, Any], parts: list[bytes]) -> None:
        """Write the parts of a row that is about to be written; again, when that is tried again.

        They are more than a transaction holds, and so outside of any. Those of a row that is never written lie there
        as long as its like do.
        """
        kept = {name: row[name] for name in ("expiresAt",) if name in row}
        with time_limit(BULK_SECONDS):
            for number, part in enumerate(parts):
                await self._parts.replace_one({"_id": f"{row['_id']}:{number}"}, {"body": part, **kept}, upsert=True)

    async def put_off_expiry(self, events: Collection, event_ids: Sequence[str], change: Mapping[str, Any]) -> None:
        """Make this change of the expiry of all parts of these events."""
        in_parts = events.find({"_id": {"$in": list(event_ids)}, "parts": {"$exists": True}}, {"parts": 1})
        ids = [f"{row['_id']}:{number}" async for row in in_parts for number in range(row["parts"])]
        if ids:
            await self._parts.update_many({"_id": {"$in": ids}, "expiresAt": {"$exists": True}}, change)

    async def opened(self, row: Mapping[str, Any]) -> bytes:
        """The body of a row; empty when a part is missing, because an incomplete body is never sent."""
        if "parts" in row:
            parts = [await self._part(f"{row['_id']}:{number}") for number in range(row["parts"])]
            return b"".join(parts) if all(parts) else b""
        body: str = row["body"]
        return (self._vault.unseal(body, _place(row["_id"])) if row.get("isSealed") else body).encode()

    def resealed(self, row: Mapping[str, Any]) -> str | None:
        """The body of a sealed row under the current key; None for one that is."""
        if self._vault.is_current(row["body"]):
            return None
        place = _place(row["_id"])
        return self._vault.seal(self._vault.unseal(row["body"], place), place)

    async def _part(self, part_id: str) -> bytes:
        found: Any = await self._parts.find_one({"_id": part_id})
        return b"" if found is None else bytes(found["body"])


def _place(event_id: str) -> str:
    return f"events.{event_id}.body"
