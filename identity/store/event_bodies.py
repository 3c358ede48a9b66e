"""The bodies of events: in their rows or, where one is too large for that, in parts beside it.

MongoDB keeps no document of more than 16 MB, and the event of an import tells of ten thousand users. The parts are
there before their row is, and are forgotten when it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pymongo import IndexModel

from identity.call import Document
from identity.instants import as_datetime, later
from identity.store.guard import within
from identity.store.mongo import BULK_SECONDS, Collection, Database, Session
from identity.store.vault import Vault

PART_BYTES: Final = 4 * 2**20
"""Where a body is cut. The change stream carries whole documents, with what it adds itself, and has the same limit."""


_UNFINISHED_SECONDS: Final = 86_400
"""How long parts stay whose row was never written."""


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
        """The members of the row, and the parts to be written beside it, if there are any.

        What is sealed is about one user, and never large.
        """
        if is_sealed:
            return {"body": self._vault.seal(body.decode(), _place(event_id)), "isSealed": True}, []
        if len(body) <= PART_BYTES:
            return {"body": body.decode()}, []
        parts = [body[at : at + PART_BYTES] for at in range(0, len(body), PART_BYTES)]
        return {"body": "", "parts": len(parts)}, parts

    async def add(self, row: Mapping[str, Any], parts: list[bytes], session: Session | None) -> None:
        """Write the parts of a row. Raises what MongoDB does.

        They are more than a transaction holds, and are written outside of it, to be forgotten after a while; inside of
        it they are kept for as long as their row.
        """
        if not parts:
            return
        ids = [f"{row['_id']}:{number}" for number in range(len(parts))]
        soon = as_datetime(later(row["insertInstant"], seconds=_UNFINISHED_SECONDS))
        with within(BULK_SECONDS):
            for part_id, part in zip(ids, parts, strict=True):
                await self._parts.replace_one({"_id": part_id}, {"body": part, "expiresAt": soon}, upsert=True)
            kept = {"$set": {"expiresAt": row["expiresAt"]}} if "expiresAt" in row else {"$unset": {"expiresAt": ""}}
            await self._parts.update_many({"_id": {"$in": ids}}, kept, session=session)

    async def opened(self, row: Mapping[str, Any]) -> bytes:
        """The body of a row."""
        if "parts" in row:
            return b"".join([await self._part(f"{row['_id']}:{number}") for number in range(row["parts"])])
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
