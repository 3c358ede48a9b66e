"""Links between users and accounts at identity providers. An account is linked to at most one user of a tenant.

Links are never cached, so that a removed link takes effect immediately.
"""

from __future__ import annotations

from typing import Any

from pymongo import IndexModel

from identity.call import Document
from identity.domain.objects.resource_definition import Unique
from identity.ids import TenantId
from identity.instants import Instant
from identity.store.mongo import Session, delete_many
from identity.store.tenant_documents import TenantDocuments

ACCOUNT = Unique("account", ("tenantId", "identityProviderId", "identityProviderUserId"), "identityProviderLink")
"""The unique index on accounts: of two concurrent links of an account, one fails."""

SLOT = Unique("slot", ("tenantId", "userId", "identityProviderId", "private.slot"), "identityProviderLink")
"""The unique index that limits the links of a user per provider: each has a number."""


class IdentityProviderLinks(TenantDocuments):
    """The links of all tenants."""

    collection_name = "identity_provider_links"
    sealed_members = ("token",)
    unique_indexes = (ACCOUNT, SLOT)

    def indexes(self) -> list[IndexModel]:
        """The unique indexes, of which `slot` finds the links of a user, and one by provider."""
        return [*super().indexes(), IndexModel([("identityProviderId", 1)], name="provider")]

    async def find_account(self, tenant_id: TenantId, provider_id: str, provider_user_id: str) -> Document | None:
        """The link of an account at a provider."""
        where = {"identityProviderId": provider_id, "identityProviderUserId": provider_user_id}
        return await self.find_where(tenant_id, where)

    async def find_of_user(self, tenant_id: TenantId, user_id: str, provider_id: str | None = None) -> list[Document]:
        """The links of a user, to all providers or to one, newest first."""
        where = {"userId": user_id} | ({} if provider_id is None else {"identityProviderId": provider_id})
        return await self.find_all(tenant_id, where)

    async def refresh(
        self,
        tenant_id: TenantId,
        link: Document,
        display_name: str | None,
        token: str | None,
        login: Instant | None = None,
        session: Session | None = None,
    ) -> bool:
        """Store the current display name and token and the time of a login; False if the link no longer exists."""
        change: dict[str, Any] = {"displayName": display_name, "lastLoginInstant": login}
        if token is not None:
            change["token"] = self._vault.seal(token, self._sealed.context(link["id"], "token"))
        where = {**self._scope(tenant_id), "_id": link["id"]}
        # Update the link even if nothing changed, to detect that it was removed.
        known = {"userId": link["userId"]} | {name: value for name, value in change.items() if value is not None}
        return (await self._collection.update_one(where, {"$set": known}, session=session)).matched_count == 1

    async def remove(
        self, tenant_id: TenantId, user_id: str, provider_id: str, provider_user_id: str, session: Session | None = None
    ) -> Document | None:
        """Delete a link and return it, to only one of several callers."""
        where = {
            **self._scope(tenant_id),
            "identityProviderId": provider_id,
            "identityProviderUserId": provider_user_id,
            "userId": user_id,
        }
        stored: Any = await self._collection.find_one_and_delete(where, session=session)
        return None if stored is None else self._decode(stored)

    async def delete_provider_across_tenants(self, provider_id: str) -> int:
        """Delete all links to a provider; returns their number."""
        return await delete_many(self._collection, {"identityProviderId": provider_id})
