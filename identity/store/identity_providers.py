"""Identity providers: each login page looks for those of its application, and most find none."""

from __future__ import annotations

from typing import Any

from identity.call import Document
from identity.store.cache import Cache
from identity.store.documents import Documents

_APPLICATIONS = 5000


class IdentityProviders(Documents):
    """The providers of all tenants.

    Of an application only the ids of its providers are remembered: a shared provider may be large, and be for many.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._of_applications: Cache[tuple[str, ...]] = Cache(_APPLICATIONS, self._freshness)

    async def of_application_across_tenants(self, application_id: str) -> list[Document]:
        """The enabled providers that name an application, through the cache. Nobody may change them: they are shared.

        Whose they are, and whether they are enabled for it, is for the caller to look at.
        """

        async def load() -> tuple[str, ...]:
            where = {"enabled": True, "private.applicationIds": application_id}
            return tuple([str(found["_id"]) async for found in self._collection.find(where, {"_id": 1})])

        ids = await self._of_applications.get(application_id, load)
        found = [await self.find_cached(None, provider_id) for provider_id in ids or ()]
        return [provider for provider in found if provider is not None]

    def invalidate(self, document_id: str) -> None:
        """As of every collection, and which application has which providers."""
        super().invalidate(document_id)
        self._of_applications.clear()

    def invalidate_all(self) -> None:
        """As `forget`, of all documents."""
        super().invalidate_all()
        self._of_applications.clear()
