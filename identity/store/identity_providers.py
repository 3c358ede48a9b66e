"""Identity providers, and the links between users and accounts at them."""

from __future__ import annotations

import functools
from typing import Any

from pymongo import IndexModel

from identity.call import Document
from identity.domain.objects.resource_definition import Unique
from identity.ids import TenantId
from identity.instants import Instant
from identity.store.cache import Cache
from identity.store.documents import Documents, TenantDocuments
from identity.store.mongo import Session, delete_many

_MAX_CACHED_APPLICATIONS = 5000

ACCOUNT = Unique("account", ("tenantId", "identityProviderId", "identityProviderUserId"), "identityProviderLink")
"""The unique index on accounts: of two concurrent links of an account, one fails."""

SLOT = Unique("slot", ("tenantId", "userId", "identityProviderId", "private.slot"), "identityProviderLink")
"""The unique index that limits the links of a user per provider: each has a number."""


class IdentityProviders(Documents):
    """The providers of all tenants, with a cache of the providers of each application, which every login page reads.

    The cache contains only the provider ids of an application, because a large provider may serve many applications.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._ids_by_application: Cache[tuple[str, ...]] = Cache(_MAX_CACHED_APPLICATIONS, self._stream_status)
        self._derived.append(self._ids_by_application)

    async def of_application_across_tenants(self, application_id: str) -> list[Document]:
        """The enabled providers that name an application. They are shared: callers must not change them.

        The caller has to check the tenant and whether the provider is enabled for the application.
        """
        load = functools.partial(self._load_ids, application_id)
        ids = await self._ids_by_application.get(application_id, load)
        found = [await self.find_cached(None, provider_id) for provider_id in ids or ()]
        return [provider for provider in found if provider is not None]

    async def _load_ids(self, application_id: str) -> tuple[str, ...]:
        where = {"enabled": True, "private.applicationIds": application_id}
        return tuple([str(found["_id"]) async for found in self._collection.find(where, {"_id": 1})])


class IdentityProviderLinks(TenantDocuments):
    """The links of all tenants. An account is linked to at most one user of a tenant.

    Links are never cached, so that a removed link takes effect immediately.
    """

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
        # Update the link even if nothing changed, to detect that it was removed.
        known = {"userId": link["userId"]} | {name: value for name, value in change.items() if value is not None}
        return await self._update_one(tenant_id, link["id"], {"$set": known}, session)

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
