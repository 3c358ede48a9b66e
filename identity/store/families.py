"""Families, and consents of users."""

from __future__ import annotations

from pymongo import IndexModel

from identity.call import Document
from identity.domain.users import families as family_rules
from identity.ids import TenantId
from identity.instants import Instant
from identity.store.documents import Documents
from identity.store.mongo import Session


class UserConsents(Documents):
    """The collection of user consents."""

    def indexes(self) -> list[IndexModel]:
        """The unique indexes, and those by user, by consent and by the time of the second mail."""
        return [
            *super().indexes(),
            IndexModel([("tenantId", 1), ("userId", 1)], name="user"),
            IndexModel([("consentId", 1)], name="consent"),
            IndexModel([("private.secondMailInstant", 1)], name="second-mail", sparse=True),
        ]


class Families(Documents):
    """The collection of families with their members."""

    def indexes(self) -> list[IndexModel]:
        """The indexes of every collection, and one by member."""
        return [*super().indexes(), IndexModel([("tenantId", 1), ("members.userId", 1)], name="member")]

    async def find_of_user(self, tenant_id: TenantId, user_id: str, session: Session | None = None) -> list[Document]:
        """The families of a user, oldest first."""
        cursor = self._collection.find({**self._scope(tenant_id), "members.userId": user_id}, session=session)
        return [self._decode(found) async for found in cursor.sort([("insertInstant", 1), ("_id", 1)])]

    async def replace_members(
        self,
        tenant_id: TenantId,
        stored: Document,
        members: list[Document],
        now: Instant,
        session: Session | None = None,
    ) -> Document:
        """Replace the members of a family, or delete it if there are none. Raises Conflict."""
        family = {**stored, "members": members, "lastUpdateInstant": max(now, stored["lastUpdateInstant"] + 1)}
        if members:
            await self.replace(tenant_id, family, stored["lastUpdateInstant"], session)
        else:
            await self.delete(tenant_id, stored["id"], session)
        return family

    async def remove_user(
        self, tenant_id: TenantId, user_id: str, now: Instant, session: Session | None = None
    ) -> None:
        """Remove a deleted user from all families. Raises Conflict."""
        for family in await self.find_of_user(tenant_id, user_id, session):
            members = family_rules.without_member(family["members"], user_id)
            await self.replace_members(tenant_id, family, members, now, session)
