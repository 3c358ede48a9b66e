"""Families, and what users consented to."""

from __future__ import annotations

from pymongo import IndexModel

from identity.call import Document
from identity.domain.users import families
from identity.ids import TenantId
from identity.instants import Instant
from identity.store.documents import Documents
from identity.store.mongo import Session


class UserConsents(Documents):
    """The collection of what users consented to."""

    def indexes(self) -> list[IndexModel]:
        """Beside that of the unique ones: by user, by consent, and by when the second mail is due."""
        return [
            *super().indexes(),
            IndexModel([("tenantId", 1), ("userId", 1)], name="user"),
            IndexModel([("consentId", 1)], name="consent"),
            IndexModel([("private.secondMailInstant", 1)], name="second-mail", sparse=True),
        ]


class Families(Documents):
    """The collection of families, each with its members."""

    def indexes(self) -> list[IndexModel]:
        """By member."""
        return [*super().indexes(), IndexModel([("tenantId", 1), ("members.userId", 1)], name="member")]

    async def find_of_user(self, tenant_id: TenantId, user_id: str, session: Session | None = None) -> list[Document]:
        """The families that a user belongs to, the oldest first."""
        cursor = self._collection.find({**self._of(tenant_id), "members.userId": user_id}, session=session)
        return [self._opened(found) async for found in cursor.sort([("insertInstant", 1), ("_id", 1)])]

    async def replace_members(
        self,
        tenant_id: TenantId,
        stored: Document,
        members: list[Document],
        now: Instant,
        session: Session | None = None,
    ) -> Document:
        """Put other members in the place of those there were; a family without any is removed. Raises Conflict."""
        family = {**stored, "members": members, "lastUpdateInstant": max(now, stored["lastUpdateInstant"] + 1)}
        if members:
            await self.replace(tenant_id, family, stored["lastUpdateInstant"], session)
        else:
            await self.delete(tenant_id, stored["id"], session)
        return family

    async def remove_user(
        self, tenant_id: TenantId, user_id: str, now: Instant, session: Session | None = None
    ) -> None:
        """Take a user who is removed out of all families. Raises Conflict."""
        for family in await self.find_of_user(tenant_id, user_id, session):
            members = families.without_member(family["members"], user_id)
            await self.replace_members(tenant_id, family, members, now, session)
