"""The one document about the instance itself: its id, its default tenant, its sealed fingerprint key, its kickstart."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from pymongo import ReturnDocument

from identity.ids import TenantId, new_id
from identity.instants import Instant, later
from identity.store.mongo import Collection, Database
from identity.store.vault import Vault

_ID = "instance"
_LEASE_SECONDS = 30

KickstartState = Literal["mine", "done", "elsewhere", "failed"]


@dataclasses.dataclass(frozen=True, slots=True)
class Instance:
    """What never changes about an instance once it exists."""

    instance_id: str
    fingerprint_key: str


class InstanceStore:
    """Reads and writes the instance document."""

    def __init__(self, database: Database) -> None:
        self._collection: Collection = database.collection("instance")

    async def ensure(self, vault: Vault) -> Instance:
        """The instance, made by whichever process came first."""
        fresh = {"instanceId": new_id(), "fingerprintKey": vault.new_fingerprint_key()}
        stored = await self._collection.find_one_and_update(
            {"_id": _ID}, {"$setOnInsert": fresh}, upsert=True, return_document=ReturnDocument.AFTER
        )
        return Instance(stored["instanceId"], stored["fingerprintKey"])

    async def default_tenant_id(self) -> TenantId | None:
        """The default tenant, once there is one."""
        stored = await self._collection.find_one({"_id": _ID}) or {}
        found = stored.get("defaultTenantId")
        return None if found is None else TenantId(found)

    async def claim_default_tenant(self, tenant_id: TenantId) -> TenantId:
        """Make this the default tenant unless there is one already; answers the one that holds."""
        await self._collection.update_one(
            {"_id": _ID, "defaultTenantId": {"$exists": False}}, {"$set": {"defaultTenantId": tenant_id}}
        )
        return await self.default_tenant_id() or tenant_id

    async def is_kickstarted(self) -> bool:
        """Whether the kickstart was done, or found nothing to do."""
        return await self._collection.find_one({"_id": _ID, "kickstart.state": "done"}) is not None

    async def claim_kickstart(self, owner: str, now: Instant) -> KickstartState:
        """Take the kickstart for this process, unless it was done, failed, or runs elsewhere under a live lease."""
        claimed: Any = await self._collection.find_one_and_update(
            {"_id": _ID, "kickstart.state": {"$nin": ["done", "failed"]}, **_free(now, owner)},
            {
                "$set": {
                    "kickstart": {"state": "running", "owner": owner, "leaseUntil": later(now, seconds=_LEASE_SECONDS)}
                }
            },
        )
        earlier: dict[str, Any] | None = claimed
        if earlier is not None:
            return "failed" if earlier.get("kickstart", {}).get("state") == "running" else "mine"
        stored: dict[str, Any] = await self._collection.find_one({"_id": _ID}) or {}
        state = stored.get("kickstart", {}).get("state")
        return state if state in {"done", "failed"} else "elsewhere"

    async def extend_kickstart(self, owner: str, now: Instant) -> None:
        """Say that this process is still at it."""
        await self._collection.update_one(
            {"_id": _ID, "kickstart.owner": owner},
            {"$set": {"kickstart.leaseUntil": later(now, seconds=_LEASE_SECONDS)}},
        )

    async def release_kickstart(self) -> None:
        """Give the kickstart back, because nothing of it was done."""
        await self._collection.update_one({"_id": _ID}, {"$unset": {"kickstart": ""}})

    async def finish_kickstart(self, state: Literal["done", "failed"], session: Any = None) -> None:
        """Remember that the kickstart ran, so that it never runs again."""
        await self._collection.update_one({"_id": _ID}, {"$set": {"kickstart": {"state": state}}}, session=session)

    async def reseal(self, vault: Vault) -> int:
        """Seal the fingerprint key under the current master key; answers whether (1) or not (0) it had to be."""
        stored = await self._collection.find_one({"_id": _ID})
        if stored is None or vault.is_current(stored["fingerprintKey"]):
            return 0
        plain = vault.unseal(stored["fingerprintKey"], "instance.fingerprintKey")
        fresh = vault.seal(plain, "instance.fingerprintKey")
        await self._collection.update_one({"_id": _ID}, {"$set": {"fingerprintKey": fresh}})
        return 1


def _free(now: Instant, owner: str) -> dict[str, Any]:
    return {
        "$or": [{"kickstart": {"$exists": False}}, {"kickstart.owner": owner}, {"kickstart.leaseUntil": {"$lt": now}}]
    }
