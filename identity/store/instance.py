"""The document of the instance: its id, default tenant, sealed fingerprint key and kickstart state."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Final, Literal

from pymongo import ReturnDocument

from identity.ids import TenantId, new_id
from identity.store.mongo import Collection, Database
from identity.store.sealed_members import reseal_member
from identity.store.store_circuit_breaker import time_limit
from identity.store.vault import Vault, file_fault

INSTANCE_ID: Final = "instance"
LEASE_SECONDS: Final = 10
"""How long a process that was killed during the kickstart delays the next start."""
_LEASE_UNTIL: Final = {"$add": ["$$NOW", LEASE_SECONDS * 1000]}
"""By the clock of MongoDB: those of two machines may differ by more than the lease."""

KickstartState = Literal["mine", "interrupted", "done", "elsewhere", "failed"]


@dataclasses.dataclass(frozen=True, slots=True)
class Instance:
    """The immutable members of an instance."""

    instance_id: str
    fingerprint_key: str


class InstanceStore:
    """Reads and writes the instance document."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._collection: Collection = database.collection("instance")

    async def find_sealed_fingerprint_key(self) -> str | None:
        """The fingerprint key as it is stored, or None in a database without an instance."""
        stored = await self._collection.find_one({"_id": INSTANCE_ID})
        return None if stored is None else str(stored["fingerprintKey"])

    async def master_key_fault(self, file: Path) -> str | None:
        """Why a process could not start with this master key file; None if it could."""
        sealed = await self.find_sealed_fingerprint_key()
        return None if sealed is None else file_fault(file, sealed)

    async def ensure(self, vault: Vault) -> Instance:
        """The instance, which the first process creates."""
        fresh = {"instanceId": new_id(), "fingerprintKey": vault.new_fingerprint_key()}
        stored = await self._collection.find_one_and_update(
            {"_id": INSTANCE_ID}, {"$setOnInsert": fresh}, upsert=True, return_document=ReturnDocument.AFTER
        )
        return Instance(stored["instanceId"], stored["fingerprintKey"])

    async def default_tenant_id(self) -> TenantId | None:
        """The default tenant, if it has been set."""
        stored = await self._collection.find_one({"_id": INSTANCE_ID}) or {}
        found = stored.get("defaultTenantId")
        return None if found is None else TenantId(found)

    async def claim_default_tenant(self, tenant_id: TenantId) -> TenantId:
        """Set the default tenant unless there is one; returns the one that is set."""
        await self._collection.update_one(
            {"_id": INSTANCE_ID, "defaultTenantId": {"$exists": False}}, {"$set": {"defaultTenantId": tenant_id}}
        )
        return await self.default_tenant_id() or tenant_id

    async def is_kickstarted(self) -> bool:
        """Whether the kickstart has run, or was not necessary."""
        return await self._collection.find_one({"_id": INSTANCE_ID, "kickstart.state": "done"}) is not None

    async def is_kickstart_unfinished(self) -> bool:
        """Whether a kickstart runs, or was interrupted."""
        return await self._collection.find_one({"_id": INSTANCE_ID, "kickstart.state": "running"}) is not None

    async def claim_kickstart(self, owner: str) -> KickstartState:
        """Lease the kickstart for this process, unless it is done, has failed, or is leased to another process.

        The lease is this process's for `mine` and `interrupted`; the latter after a process that did not finish.
        """
        is_expired = {"$expr": {"$lt": ["$kickstart.leaseUntil", "$$NOW"]}}
        earlier: Any = await self._collection.find_one_and_update(
            {"_id": INSTANCE_ID, "$or": [{"kickstart": None}, {"kickstart.state": "running", **is_expired}]},
            [{"$set": {"kickstart": {"state": "running", "owner": owner, "leaseUntil": _LEASE_UNTIL}}}],
        )
        if earlier is not None:
            return "interrupted" if "kickstart" in earlier else "mine"
        stored: dict[str, Any] = await self._collection.find_one({"_id": INSTANCE_ID}) or {}
        state = stored.get("kickstart", {}).get("state")
        return state if state in {"done", "failed"} else "elsewhere"

    async def extend_kickstart(self, owner: str) -> bool:
        """Extend the lease of the kickstart; return whether it is still this process's."""
        extended = await self._collection.update_one(
            {"_id": INSTANCE_ID, "kickstart.owner": owner}, [{"$set": {"kickstart.leaseUntil": _LEASE_UNTIL}}]
        )
        return extended.matched_count == 1

    async def release_kickstart(self, owner: str) -> None:
        """Release the kickstart, of which nothing was done."""
        await self._collection.update_one({"_id": INSTANCE_ID, "kickstart.owner": owner}, {"$unset": {"kickstart": ""}})

    async def finish_kickstart(self, owner: str, state: Literal["done", "failed"], session: Any = None) -> None:
        """Store the result of the kickstart, so that it never runs again."""
        await self._collection.update_one(
            {"_id": INSTANCE_ID, "kickstart.owner": owner}, {"$set": {"kickstart": {"state": state}}}, session=session
        )

    async def release_count(self) -> int:
        """The number of times that quiesced processes were released."""
        stored: dict[str, Any] = await self._collection.find_one({"_id": INSTANCE_ID}) or {}
        return int(stored.get("releases", 0))

    async def release(self) -> bool:
        """Release the processes that are quiesced now; return whether the database has an instance."""
        released = await self._collection.update_one({"_id": INSTANCE_ID}, {"$inc": {"releases": 1}})
        return released.matched_count == 1

    async def clear_database(self) -> None:
        """Delete all documents except the instance document: what an interrupted kickstart has created."""
        with time_limit(0):  # a transaction of the killed process may hold documents for a minute
            for name in await self._database.motor.list_collection_names():
                if name != self._collection.name and not name.startswith("system."):
                    await self._database.collection(name).delete_many({})

    async def reseal(self, vault: Vault) -> int:
        """Reseal the fingerprint key under the current master key; returns 1 if that was necessary, otherwise 0."""
        where = {"_id": INSTANCE_ID}
        return await reseal_member(self._collection, vault, "fingerprintKey", "{}.fingerprintKey".format, where)
