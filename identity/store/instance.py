"""The document of the instance: its id, default tenant, sealed fingerprint key and kickstart state."""

from __future__ import annotations

import dataclasses
from typing import Any, Final, Literal

from pymongo import ReturnDocument

from identity.ids import TenantId, new_id
from identity.instants import Instant, later
from identity.store.mongo import Collection, Database
from identity.store.sealed_members import reseal_member
from identity.store.vault import Vault

INSTANCE_ID: Final = "instance"
_LEASE_SECONDS = 30

KickstartState = Literal["mine", "done", "elsewhere", "failed"]


@dataclasses.dataclass(frozen=True, slots=True)
class Instance:
    """The immutable members of an instance."""

    instance_id: str
    fingerprint_key: str


class InstanceStore:
    """Reads and writes the instance document."""

    def __init__(self, database: Database) -> None:
        self._collection: Collection = database.collection("instance")

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

    async def claim_kickstart(self, owner: str, now: Instant) -> KickstartState:
        """Lease the kickstart for this process, unless it is done, has failed, or is leased to another process."""
        lease = {"state": "running", "owner": owner, "leaseUntil": later(now, seconds=_LEASE_SECONDS)}
        is_free = [{"kickstart": None}, {"kickstart.owner": owner}, {"kickstart.leaseUntil": {"$lt": now}}]
        earlier: Any = await self._collection.find_one_and_update(
            {"_id": INSTANCE_ID, "kickstart.state": {"$nin": ["done", "failed"]}, "$or": is_free},
            {"$set": {"kickstart": lease}},
        )
        if earlier is not None:
            return "failed" if earlier.get("kickstart", {}).get("state") == "running" else "mine"
        stored: dict[str, Any] = await self._collection.find_one({"_id": INSTANCE_ID}) or {}
        state = stored.get("kickstart", {}).get("state")
        return state if state in {"done", "failed"} else "elsewhere"

    async def extend_kickstart(self, owner: str, now: Instant) -> None:
        """Extend the lease of the kickstart."""
        await self._collection.update_one(
            {"_id": INSTANCE_ID, "kickstart.owner": owner},
            {"$set": {"kickstart.leaseUntil": later(now, seconds=_LEASE_SECONDS)}},
        )

    async def release_kickstart(self) -> None:
        """Release the kickstart, of which nothing was done."""
        await self._collection.update_one({"_id": INSTANCE_ID}, {"$unset": {"kickstart": ""}})

    async def finish_kickstart(self, state: Literal["done", "failed"], session: Any = None) -> None:
        """Store the result of the kickstart, so that it never runs again."""
        await self._collection.update_one(
            {"_id": INSTANCE_ID}, {"$set": {"kickstart": {"state": state}}}, session=session
        )

    async def reseal(self, vault: Vault) -> int:
        """Reseal the fingerprint key under the current master key; returns 1 if that was necessary, otherwise 0."""
        where = {"_id": INSTANCE_ID}
        return await reseal_member(self._collection, vault, "fingerprintKey", "{}.fingerprintKey".format, where)
