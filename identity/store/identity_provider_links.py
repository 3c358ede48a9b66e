"""Links: which account at an identity provider belongs to which user. One account is linked to one user of a tenant.

Never read through a cache: a link that was just removed must not let anybody in.
"""

from __future__ import annotations

from typing import Any

from pymongo import IndexModel

from identity.call import Document
from identity.domain.objects.resource_definition import Unique
from identity.ids import TenantId
from identity.instants import Instant
from identity.store.cache import ChangeStreamStatus
from identity.store.documents import Documents
from identity.store.mongo import BULK_SECONDS, Database, Session
from identity.store.store_circuit_breaker import time_limit
from identity.store.vault import Vault

ACCOUNT = Unique("account", ("tenantId", "identityProviderId", "identityProviderUserId"), "identityProviderLink")
"""The judge of who was first: of two users whom an account is linked to at once, one loses."""

SLOT = Unique("slot", ("tenantId", "userId", "identityProviderId", "private.slot"), "identityProviderLink")
"""The judge of how many there may be: a user's links with one provider are numbered, each number is given once."""


class IdentityProviderLinks(Documents):
    """The links of all tenants."""

    def __init__(self, database: Database, vault: Vault, freshness: ChangeStreamStatus) -> None:
        super().__init__(
            database,
            "identity_provider_links",
            vault,
            freshness,
            tenant_scoped=True,
            sealed=("token",),
            unique=(ACCOUNT, SLOT),
        )

    def indexes(self) -> list[IndexModel]:
        """Beside the unique ones, the second of which finds the links of a user: by provider."""
        return [*super().indexes(), IndexModel([("identityProviderId", 1)], name="provider")]

    async def find_account(self, tenant_id: TenantId, provider_id: str, provider_user_id: str) -> Document | None:
        """The link of an account."""
        where = {"identityProviderId": provider_id, "identityProviderUserId": provider_user_id}
        return await self.find_where(tenant_id, where)

    async def find_of_user(self, tenant_id: TenantId, user_id: str, provider_id: str | None = None) -> list[Document]:
        """The links of a user, all or those with one provider, the newest first."""
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
        """Note what the provider says now, and a login with it; False when the link is gone."""
        change: dict[str, Any] = {"displayName": display_name, "lastLoginInstant": login}
        if token is not None:
            change["token"] = self._vault.seal(token, self._context({"_id": link["id"]}, ("token",)))
        where = {**self._of(tenant_id), "_id": link["id"]}
        # A link that says nothing new is still looked for: it may have been removed.
        known = {"userId": link["userId"]} | {name: value for name, value in change.items() if value is not None}
        return (await self._collection.update_one(where, {"$set": known}, session=session)).matched_count == 1

    async def remove(
        self, tenant_id: TenantId, user_id: str, provider_id: str, provider_user_id: str, session: Session | None = None
    ) -> Document | None:
        """Remove a link; answers what it was, to exactly one of several callers."""
        where = {
            **self._of(tenant_id),
            "identityProviderId": provider_id,
            "identityProviderUserId": provider_user_id,
            "userId": user_id,
        }
        stored: Any = await self._collection.find_one_and_delete(where, session=session)
        return None if stored is None else self._opened(stored)

    async def delete_provider_across_tenants(self, provider_id: str) -> int:
        """Remove every link to a provider; answers how many there were."""
        with time_limit(BULK_SECONDS):
            return (await self._collection.delete_many({"identityProviderId": provider_id})).deleted_count
