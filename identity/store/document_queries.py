"""Queries of document collections: batched lookups, cached totals, and searches as filters."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from identity import request_facts
from identity.call import Document
from identity.domain.objects import name_suffixes
from identity.domain.objects.search import Criterion, SearchQuery
from identity.store.cache import Cache, ChangeStreamStatus
from identity.store.mongo import Collection
from identity.store.request_coalescing import RequestCoalescer

_MAX_BATCH: Final = 16
"""The documents of a batch are decoded at once, and some are large."""
_MAX_LENGTH: Final = 320
"""Longer values are looked up alone, so that they cannot make the command of other requests too large."""

_MAX_CACHED: Final = 256


@dataclasses.dataclass(frozen=True, slots=True)
class _Lookup:
    tenant_id: str | None
    """None in collections without tenants."""
    member: str
    value: str


class DocumentLookups:
    """Lookups in one collection by a unique member; concurrent ones share a MongoDB command.

    While one command runs the next one collects, so that a lookup reads every write that was acknowledged before it.
    """

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


class DocumentTotals:
    """Totals of a collection, cached until any of its documents changes.

    The time to count grows with the number of matches, unlike the time to read a page.
    """

    def __init__(self, collection: Collection, stream_status: ChangeStreamStatus) -> None:
        self._collection = collection
        self._cache: Cache[int] = Cache(_MAX_CACHED, stream_status)

    def clear(self) -> None:
        """Forget all totals."""
        self._cache.clear()

    async def count(self, where: Mapping[str, Any], limit: int = 0, milliseconds: int = 0) -> int:
        """Return the number of documents that match an `$and`; counting stops at a `limit` greater than 0.

        `milliseconds` limit the time on the server, in a block of `server_time_limit`.
        """
        options: dict[str, Any] = {"limit": limit} if limit else {}
        options |= {"maxTimeMS": milliseconds} if milliseconds else {}
        # Without a condition, MongoDB uses no index unless it is named.
        options |= {} if any(where["$and"]) else {"hint": "_id_"}
        count = functools.partial(self._collection.count_documents, where, **options)
        return await self._cache.get(f"{limit} {where!r}", count) or 0

    async def count_from_page(
        self,
        where: Mapping[str, Any],
        page: list[Document],
        start_row: int,
        wanted: int,
        limit: int = 0,
        milliseconds: int = 0,
    ) -> int:
        """As `count`; a page that is not full determines the number without a query."""
        if len(page) < wanted and (page or not start_row):
            return min(start_row + len(page), limit or sys.maxsize)
        return await self.count(where, limit, milliseconds)


def condition(criterion: Criterion) -> dict[str, Any]:
    """Return the filter of a search criterion."""
    field = "_id" if criterion.field == "id" else criterion.field
    match criterion.kind:
        case "text":
            return {field: {"$regex": criterion.value, "$options": "is"}}
        case "tenants":
            return {"$or": [{"tenantIds": criterion.value}, {"global": True}]}
        case "flag":
            return {field: True if criterion.value else {"$ne": True}}
        case "from":
            return {field: {"$gte": criterion.value}}
        case "until":
            return {field: {"$lte": criterion.value}}
        case _:
            return {field: criterion.value}


def conditions(query: SearchQuery, *, has_suffixes: bool) -> Iterator[dict[str, Any]]:
    """Yield the filters of all criteria.

    With name suffixes, which have an index, also one on them for a search by a part of the name.
    """
    yield from map(condition, query.criteria)
    for criterion in query.criteria:
        if has_suffixes and criterion.field == "name" and criterion.piece:
            yield {name_suffixes.MEMBER: {"$regex": name_suffixes.pattern_of(criterion.piece)}}
