"""Collections without a declared resource: their documents belong to a tenant, and may expire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pymongo import IndexModel

from identity.call import Document
from identity.domain.objects.resource_definition import Unique
from identity.instants import from_datetime
from identity.store.cache import ChangeStreamStatus
from identity.store.documents import Documents
from identity.store.mongo import TTL_INDEX, Database
from identity.store.vault import Vault


class TenantDocuments(Documents):
    """A collection without a declared resource; each document belongs to a tenant."""

    collection_name: ClassVar[str]
    sealed_members: ClassVar[tuple[str, ...]] = ()
    unique_indexes: ClassVar[tuple[Unique, ...]] = ()

    def __init__(self, database: Database, vault: Vault, stream_status: ChangeStreamStatus) -> None:
        members, unique = self.sealed_members, self.unique_indexes
        name = self.collection_name
        super().__init__(database, name, vault, stream_status, tenant_scoped=True, sealed=members, unique=unique)


class ExpiringDocuments(TenantDocuments):
    """Documents whose `expiresAt` is an Instant here and a date in MongoDB, for the TTL index."""

    def indexes(self) -> list[IndexModel]:
        """The TTL index, and one by user."""
        return [TTL_INDEX, IndexModel([("tenantId", 1), ("userId", 1)], name="user")]

    def _decode(self, found: Mapping[str, Any]) -> Document:
        document = super()._decode(found)
        document["expiresAt"] = from_datetime(document["expiresAt"])
        return document
