"""Identity providers, with a cache of the providers of each application, which every login page reads."""

from __future__ import annotations

import functools
from typing import Any

from identity.call import Document
from identity.store.cache import Cache
from identity.store.documents import Documents

_MAX_CACHED_APPLICATIONS = 5000


class IdentityProviders(Documents):
    """The providers of all tenants.

    The cache contains only the provider ids of an application, because a large provider may serve many applications.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._ids_by_application: Cache[tuple[str, ...]] = Cache(_MAX_CACHED_APPLICATIONS, self._stream_status)

    async def of_application_across_tenants(self, application_id: str) -> list[Document]:
        """The enabled providers that name an application. They are shared: callers must not change them.

        The caller has to check the tenant and whether the provider is enabled for the application.
        """
        load = functools.partial(self._load_ids, application_id)
        ids = await self._ids_by_application.get(application_id, load)
        found = [await self.find_cached(None, provider_id) for provider_id in ids or ()]
        return [provider for provider in found if provider is not None]

    def invalidate(self, document_id: str) -> None:
        """See Documents; also clears the provider ids of the applications."""
        super().invalidate(document_id)
        self._ids_by_application.clear()

    def invalidate_all(self) -> None:
        """See Documents; also clears the provider ids of the applications."""
        super().invalidate_all()
        self._ids_by_application.clear()

    async def _load_ids(self, application_id: str) -> tuple[str, ...]:
        where = {"enabled": True, "private.applicationIds": application_id}
        return tuple([str(found["_id"]) async for found in self._collection.find(where, {"_id": 1})])
