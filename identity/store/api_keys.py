"""API keys: looked up by keyed fingerprint, value sealed, or not kept at all when it may not be read again."""

from __future__ import annotations

from typing import Any

from identity.call import Document
from identity.domain.objects.resource_definition import Unique
from identity.ids import same_secret
from identity.store.cache import Cache, ChangeStreamStatus
from identity.store.documents import Documents, Tenant
from identity.store.mongo import Database, Session
from identity.store.vault import Vault

UNIQUE = (
    Unique("key", ("private.fingerprint",), "apiKey.key"),
    Unique("name", ("name",), "apiKey.name", sparse=True),
)


class ApiKeys(Documents):
    """The collection of API keys. Keys belong to the instance; a key's own tenantId limits what it may do."""

    cache_size = 10_000
    keeps_stale = False

    def __init__(
        self, database: Database, vault: Vault, freshness: ChangeStreamStatus, *, references: tuple[str, ...] = ()
    ) -> None:
        super().__init__(
            database,
            "api_keys",
            vault,
            freshness,
            tenant_scoped=False,
            sealed=("key",),
            unique=UNIQUE,
            references=references,
        )
        self._keyed = vault
        self._ids: Cache[str] = Cache(10_000, freshness)

    async def find_by_key(self, key: str) -> Document | None:
        """The API key with this value, from the cache where possible; it is shared: nobody may change it."""
        fingerprint = self._keyed.fingerprint(key)

        async def load() -> str | None:
            found = await self.find_where(None, {"private.fingerprint": fingerprint})
            return None if found is None else str(found["id"])

        key_id = await self._ids.get(fingerprint, load)
        found = None if key_id is None else await self.find_cached(None, key_id)
        if found is None or not same_secret(found["private"]["fingerprint"], fingerprint):
            self._ids.drop(fingerprint)
            return None
        return found

    def fingerprint(self, key: str) -> str:
        """What stands for a key's value in look-ups."""
        return self._keyed.fingerprint(key)

    def _closed(self, tenant_id: Tenant, document: Document) -> Document:
        if not document["retrievable"]:
            document = {name: value for name, value in document.items() if name != "key"}
        return super()._closed(tenant_id, document)

    async def any_exists(self, session: Session | None = None) -> bool:
        """Whether the instance has an API key at all."""
        query: dict[str, Any] = {}
        return await self._collection.find_one(query, session=session) is not None
