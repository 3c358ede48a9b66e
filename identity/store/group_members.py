"""Memberships of users in groups: the collection that is searched; each stands on its user as well (store/users.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from identity.call import Document
from identity.errors import Duplicate
from identity.ids import TenantId
from identity.store.documents import Documents
from identity.store.mongo import Session, duplicates

USER_INDEX = "membership"
"""The unique index that lets a user into a group once."""

ID_INDEX = "membership-id"
"""What a membership's id that is taken is reported as: the index of ids has the same name in every collection."""


class GroupMembers(Documents):
    """The collection of memberships, each with the tenant of its group and user."""

    cache_size = 0

    async def find_members(
        self, tenant_id: TenantId, where: Mapping[str, Any], session: Session | None = None
    ) -> list[Document]:
        """The memberships that match, the oldest first, as they stand on their users."""
        cursor = self._collection.find({**where, **self._of(tenant_id)}, session=session)
        found = [self._opened(stored) async for stored in cursor.sort([("insertInstant", 1), ("_id", 1)])]
        return [{name: value for name, value in member.items() if name != "tenantId"} for member in found]

    async def insert_members(self, tenant_id: TenantId, members: Sequence[Document], session: Session) -> None:
        """Add memberships. Raises Duplicate with USER_INDEX or ID_INDEX."""
        if not members:
            return
        rows = [self._closed(tenant_id, {**member, "tenantId": tenant_id}) for member in members]
        try:
            with duplicates():
                await self._collection.insert_many(rows, session=session)
        except Duplicate as duplicate:
            raise Duplicate(ID_INDEX if duplicate.index == "_id_" else duplicate.index) from duplicate
