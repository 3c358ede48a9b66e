"""How many documents match a search."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from typing import Any, Final

from identity.call import Document
from identity.store.cache import Cache, ChangeStreamStatus
from identity.store.mongo import Collection

_MAX_CACHED: Final = 256


class DocumentTotals:
    """Totals of a collection, cached until any of its documents changes.

    The time to count grows with the number of matches, unlike the time to read a page.
    """

    def __init__(self, stream_status: ChangeStreamStatus) -> None:
        self._cache: Cache[int] = Cache(_MAX_CACHED, stream_status)

    def clear(self) -> None:
        """Forget all totals."""
        self._cache.clear()

    async def count(self, collection: Collection, where: Mapping[str, Any], limit: int = 0) -> int:
        """Return the number of documents that match an `$and`; counting stops at a `limit` greater than 0."""
        options: dict[str, Any] = {"limit": limit} if limit else {}
        # Without a condition, MongoDB uses no index unless it is named.
        options |= {} if any(where["$and"]) else {"hint": "_id_"}
        count = functools.partial(collection.count_documents, where, **options)
        return await self._cache.get(f"{limit} {where!r}", count) or 0

    async def count_from_page(
        self,
        collection: Collection,
        where: Mapping[str, Any],
        page: list[Document],
        start_row: int,
        wanted: int,
        limit: int = 0,
    ) -> int:
        """As `count`; a page that is not full determines the number without a query."""
        if len(page) < wanted and (page or not start_row):
            return min(start_row + len(page), limit or sys.maxsize)
        return await self.count(collection, where, limit)
