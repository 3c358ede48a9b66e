"""API keys, found by a keyed fingerprint. The value is sealed, or not stored if it is not retrievable."""

from __future__ import annotations

import functools

from identity.call import Document
from identity.domain.objects.resource_definition import Unique
from identity.ids import same_secret
from identity.store.cache import Cache, ChangeStreamStatus
from identity.store.documents import Documents, Tenant
from identity.store.mongo import Database
from identity.store.vault import Vault

UNIQUE = (
    Unique("key", ("private.fingerprint",), "apiKey.key"),
    Unique("name", ("name",), "apiKey.name", sparse=True),
)


class ApiKeys(Documents):
    """The collection of API keys. Keys belong to the instance; the tenantId of a key restricts its access."""

    cache_size = 10_000
    keeps_stale = False

    def __init__(
        self, database: Database, vault: Vault, stream_status: ChangeStreamStatus, *, references: tuple[str, ...] = ()
    ) -> None:
        super().__init__(
            database,
            "api_keys",
            vault,
            stream_status,
            tenant_scoped=False,
            sealed=("key",),
            unique=UNIQUE,
            references=references,
        )
        self._ids: Cache[str] = Cache(10_000, stream_status)

    async def find_by_key(self, key: str) -> Document | None:
        """The API key with this value, from the cache if possible. It is shared: callers must not change it."""
        fingerprint = self.fingerprint(key)
        key_id = await self._ids.get(fingerprint, functools.partial(self._find_id, fingerprint))
        found = None if key_id is None else await self.find_cached(None, key_id)
        if found is None or not same_secret(found["private"]["fingerprint"], fingerprint):
            self._ids.drop(fingerprint)
            return None
        return found

    async def _find_id(self, fingerprint: str) -> str | None:
        found = await self._collection.find_one({"private.fingerprint": fingerprint}, {"_id": 1})
        return None if found is None else str(found["_id"])

    def fingerprint(self, key: str) -> str:
        """The keyed fingerprint of a key's value."""
        return self._vault.fingerprint(key)

    def _encode(self, tenant_id: Tenant, document: Document) -> Document:
        if not document["retrievable"]:
            document = {name: value for name, value in document.items() if name != "key"}
        return super()._encode(tenant_id, document)

    async def any_exists(self) -> bool:
        """Whether the instance has any API key."""
        return await self._collection.find_one({}) is not None
