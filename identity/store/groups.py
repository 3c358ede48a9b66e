"""Groups, in which SCIM clients look for their own ids, and the searchable collection of group memberships."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pymongo import IndexModel

from identity.call import Document
from identity.errors import Duplicate
from identity.ids import TenantId
from identity.store.documents import Documents
from identity.store.mongo import Session, duplicates

_SCIM_MEMBERS: Final = ("externalId", "sharedName")
"""The private members by which only SCIM clients look for groups, and that few groups have."""

USER_INDEX = "membership"
"""The unique index on group and user."""

ID_INDEX = "membership-id"
"""The name reported for a duplicate membership id: the index on `_id` has the same name in every collection."""


class Groups(Documents):
    """The collection of groups."""

    def indexes(self) -> list[IndexModel]:
        """The indexes of searches, and those of the searches of SCIM clients."""
        return [*super().indexes(), *(_sparse_index(member) for member in _SCIM_MEMBERS)]


class GroupMembers(Documents):
    """The collection of memberships, with the tenant of the group and the user; each is also stored in its user."""

    cache_size = 0

    async def find_members(
        self, tenant_id: TenantId, where: Mapping[str, Any], session: Session | None = None
    ) -> list[Document]:
        """The matching memberships, oldest first, as they are stored in users."""
        cursor = self._collection.find({**where, **self._scope(tenant_id)}, session=session)
        found = [self._decode(stored) async for stored in cursor.sort([("insertInstant", 1), ("_id", 1)])]
        return [{name: value for name, value in member.items() if name != "tenantId"} for member in found]

    async def summaries(self, tenant_id: TenantId, group_ids: Sequence[str]) -> dict[str, tuple[int, int]]:
        """The number of members of each group that has some, and when the last one was added."""
        match = {**self._scope(tenant_id), "groupId": {"$in": list(group_ids)}}
        group = {"_id": "$groupId", "count": {"$sum": 1}, "latest": {"$max": "$insertInstant"}}
        rows = self._collection.aggregate([{"$match": match}, {"$group": group}])
        return {row["_id"]: (row["count"], row["latest"]) async for row in rows}

    async def insert_members(self, tenant_id: TenantId, members: Sequence[Document], session: Session) -> None:
        """Insert memberships. Raises Duplicate with USER_INDEX or ID_INDEX."""
        if not members:
            return
        rows = [self._encode(tenant_id, {**member, "tenantId": tenant_id}) for member in members]
        try:
            with duplicates():
                await self._collection.insert_many(rows, session=session)
        except Duplicate as duplicate:
            raise Duplicate(ID_INDEX if duplicate.index == "_id_" else duplicate.index) from duplicate


def _sparse_index(member: str) -> IndexModel:
    """Return the index of a private member that few groups have; it is named after the member."""
    path = f"private.{member}"
    return IndexModel([("tenantId", 1), (path, 1)], name=member, partialFilterExpression={path: {"$exists": True}})
