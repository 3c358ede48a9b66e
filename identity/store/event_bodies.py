"""Bodies of events: in the event document or, if too large for one, in parts in a collection of their own.

MongoDB limits documents to 16 MB, and an import may raise an event about ten thousand users. The parts are inserted
before their event and expire with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from identity.call import Document
from identity.ids import new_id
from identity.instants import Instant, as_datetime, later
from identity.store.mongo import BULK_SECONDS, TTL_INDEX, Collection, Database
from identity.store.sealed_members import reseal_member
from identity.store.store_circuit_breaker import time_limit
from identity.store.vault import Vault

_OLD_PARTS_SECONDS: Final = 120
PART_BYTES: Final = 4 * 2**20
"""The size of a part. Change stream events contain whole documents and metadata, and have the same limit."""


class EventBodies:
    """The members of event documents that contain the body, and the collection `event_parts`."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._vault = vault
        self._parts: Collection = database.collection("event_parts")

    async def ensure_indexes(self) -> None:
        """Create missing indexes."""
        await self._parts.create_indexes([TTL_INDEX])

    def members(self, event_id: str, body: bytes, *, is_sealed: bool) -> tuple[Document, list[bytes]]:
        """The members of the event document, and the parts to insert, if any.

        A sealed body is never split: it is about one user, and small.
        """
        if is_sealed:
            return {"body": self._vault.seal(body.decode(), _context(event_id)), "isSealed": True}, []
        if len(body) <= PART_BYTES:
            return {"body": body.decode()}, []
        parts = [body[start : start + PART_BYTES] for start in range(0, len(body), PART_BYTES)]
        return {"body": "", "parts": len(parts)}, parts

    async def add(self, event: Mapping[str, Any], parts: list[bytes]) -> None:
        """Store the parts of an event that is about to be inserted; may be repeated.

        Outside the transaction, whose size is limited. If the transaction aborts, the parts remain until they expire.
        """
        retention = {name: event[name] for name in ("expiresAt",) if name in event}
        with time_limit(BULK_SECONDS):
            for part_id, part in zip(_part_ids({**event, "parts": len(parts)}), parts, strict=True):
                await self._parts.replace_one({"_id": part_id}, {"body": part, **retention}, upsert=True)

    async def extend_retention(self, events: Collection, event_ids: Sequence[str], change: Mapping[str, Any]) -> None:
        """Apply `change` to the expiry of all parts of these events."""
        in_parts = events.find(
            {"_id": {"$in": list(event_ids)}, "parts": {"$exists": True}}, {"parts": 1, "edition": 1}
        )
        ids = [part_id async for row in in_parts for part_id in _part_ids(row)]
        if ids:
            await self._parts.update_many({"_id": {"$in": ids}, "expiresAt": {"$exists": True}}, change)

    async def read(self, event: Mapping[str, Any]) -> bytes:
        """The body of an event; empty if a part is missing, because an incomplete body is never sent.

        Raises StartupError if it is sealed under a missing master key.
        """
        if "parts" in event:
            parts = [await self._part(part_id) for part_id in _part_ids(event)]
            return b"".join(parts) if all(parts) else b""
        body: str | bytes = event["body"]
        if isinstance(body, bytes):  # stored by 0.1.0
            return body
        return (self._vault.unseal(body, _context(event["_id"])) if event.get("isSealed") else body).encode()

    async def replace(self, events: Collection, event: Mapping[str, Any], body: bytes, now: Instant) -> None:
        """Replace the body of a stored event by one without secrets.

        The new parts have ids of their own, and the old ones remain for a moment: readers see either body, never a mix.
        """
        members, parts = self.members(event["_id"], body, is_sealed=False)
        edition: Document = {"edition": new_id()} if parts else {}
        await self.add({**event, **edition}, parts)
        removed = {"isSealed", "parts", "edition"} - members.keys() - edition.keys()
        change = {"$set": {**members, **edition}, "$unset": dict.fromkeys(removed, "")}
        await events.update_one({"_id": event["_id"]}, change)
        if "parts" in event:
            expiry = {"$set": {"expiresAt": as_datetime(later(now, seconds=_OLD_PARTS_SECONDS))}}
            await self._parts.update_many({"_id": {"$in": _part_ids(event)}}, expiry)

    async def reseal(self, events: Collection) -> int:
        """Reseal bodies that are sealed under an older master key; returns the number of changed events."""
        return await reseal_member(events, self._vault, "body", _context, {"isSealed": True})

    async def _part(self, part_id: str) -> bytes:
        found: Any = await self._parts.find_one({"_id": part_id})
        return b"" if found is None else bytes(found["body"])


def _part_ids(event: Mapping[str, Any]) -> list[str]:
    """The ids of the parts of an event with `parts` and, if its body was replaced, an `edition`."""
    prefix = ":".join(filter(None, (event["_id"], event.get("edition"))))
    return [f"{prefix}:{number}" for number in range(event["parts"])]


def _context(event_id: str) -> str:
    return f"events.{event_id}.body"
