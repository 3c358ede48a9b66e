"""Lookups of documents by a unique member; concurrent ones share a MongoDB command.

While one command runs the next one collects, so that a lookup reads every write that was acknowledged before it.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from identity import request_facts
from identity.call import Document
from identity.store.mongo import Collection
from identity.store.request_coalescing import RequestCoalescer

_MAX_BATCH: Final = 16
"""The documents of a batch are decoded at once, and some are large."""
_MAX_LENGTH: Final = 320
"""Longer values are looked up alone, so that they cannot make the command of other requests too large."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Lookup:
    tenant_id: str | None
    """None in collections without tenants."""
    member: str
    value: str


class DocumentLookups:
    """The lookups in one collection."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._coalescer = RequestCoalescer(self._find_many, _MAX_BATCH)

    async def find(self, tenant_id: str | None, member: str, value: str) -> Mapping[str, Any] | None:
        """The stored document with this value, which callers share. `tenant_id` is None without tenants."""
        # The trace of a request contains its commands, hence it shares none.
        if request_facts.trace() is None and len(value) <= _MAX_LENGTH:
            return await self._coalescer.submit(_Lookup(tenant_id, member, value))
        found: Document | None = await self._collection.find_one({**_scope(tenant_id), member: value})
        return found

    async def _find_many(self, lookups: Sequence[_Lookup]) -> list[Document | None]:
        """The documents of these lookups: a command for each tenant and member, all at the same time."""
        values: dict[tuple[str | None, str], list[str]] = defaultdict(list)
        for lookup in lookups:
            values[lookup.tenant_id, lookup.member].append(lookup.value)
        pages = await asyncio.gather(*(self._find_by(*key, wanted) for key, wanted in values.items()))
        found = dict(zip(values, pages, strict=True))
        return [found[lookup.tenant_id, lookup.member].get(lookup.value) for lookup in lookups]

    async def _find_by(self, tenant_id: str | None, member: str, values: Sequence[str]) -> dict[str, Document]:
        cursor = self._collection.find({**_scope(tenant_id), member: {"$in": list(set(values))}})
        return {row[member]: row async for row in cursor}


def _scope(tenant_id: str | None) -> Document:
    return {} if tenant_id is None else {"tenantId": tenant_id}
