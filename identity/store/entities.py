"""Entities and entity grants."""

from __future__ import annotations

from collections.abc import Collection as Names
from collections.abc import Mapping
from typing import Any

from pymongo import IndexModel

from identity.domain.entities.entities import FIELDS, RECIPIENTS
from identity.ids import TenantId
from identity.store.documents import Documents
from identity.store.index_search import IndexSearched
from identity.store.mongo import BULK_SECONDS, Session
from identity.store.store_circuit_breaker import time_limit


class Entities(IndexSearched):
    """The collection of entities."""

    fields = FIELDS
    sorted_by = indexed = frozenset(FIELDS.sort.values())


class EntityGrants(Documents):
    """The collection of grants, at most one per target and recipient.

    `private` contains the name of the target entity, for sorting, and the id of its type.
    """

    def indexes(self) -> list[IndexModel]:
        """The indexes of searches, and those by recipient and by permission."""
        return [
            *super().indexes(),
            IndexModel([("tenantId", 1), ("recipientEntityId", 1)]),
            IndexModel([("private.typeId", 1), ("permissions", 1)]),
        ]

    async def delete_of_entity(self, tenant_id: TenantId, entity_id: str, session: Session | None) -> None:
        """Delete the grants of which an entity is the target or the recipient."""
        for member in ("entityId", "recipientEntityId"):
            await self.delete_all(tenant_id, {member: entity_id}, session)

    async def delete_of_user(self, tenant_id: TenantId, user_id: str, session: Session | None) -> None:
        """Delete the grants of which a user is the recipient."""
        await self.delete_all(tenant_id, {"userId": user_id}, session)

    async def update_target(
        self, tenant_id: TenantId, target: Mapping[str, Any], permissions: Names[str], session: Session | None
    ) -> None:
        """Store the new name and type of a target, and remove the permissions that its type does not have."""
        change = {
            "$set": {"private.entityName": target["name"], "private.typeId": target["type"]["id"]},
            "$pull": {"permissions": {"$nin": sorted(permissions)}},
        }
        await self.update(tenant_id, {"entityId": target["id"]}, change, session)

    async def rename_permission_across_tenants(self, type_id: str, name: str, new_name: str | None) -> None:
        """Rename a permission of an entity type in every grant, or remove it."""
        where = {"private.typeId": type_id, "permissions": name}
        with time_limit(BULK_SECONDS):
            if new_name is not None:
                await self._collection.update_many(where, {"$addToSet": {"permissions": new_name}})
            await self._collection.update_many(where, {"$pull": {"permissions": name}})
        self.invalidate_all()


def recipient(grant: Mapping[str, Any]) -> dict[str, str]:
    """The member of a grant that identifies its recipient."""
    return {name: grant[name] for name in RECIPIENTS if name in grant}
