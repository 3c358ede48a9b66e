"""The index search of users and entities."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from identity.call import Call, Document
from identity.domain.objects import index_search as searches
from identity.errors import FieldError, Invalid
from identity.store.index_search import IndexSearched, SearchTimeoutError


async def run(
    documents: IndexSearched, call: Call, criteria: Document, prefix: str
) -> tuple[int, list[Document], Document]:
    """Return how many documents match, one page of them, and `nextResults` if there are more. Raises Invalid."""
    query = searches.read(documents.fields, criteria, prefix, call.now)
    with _too_expensive(criteria, prefix):
        if call.tenant_id is None:
            total, found = await documents.search_index_across_tenants(query)
        else:
            total, found = await documents.search_index(call.tenant_id, query)
    more: Document = {}
    end = query.start_row + len(found)
    # A capped total does not tell the last page, but a page that is not full does.
    is_last = len(found) < query.number_of_results or (end >= total and total != query.count_limit)
    if found and query.ids is None and not is_last:
        more["nextResults"] = searches.next_results(criteria, query, prefix)
    return total, found, more


async def ids(documents: IndexSearched, call: Call, criteria: Document, limit: int) -> list[str]:
    """Return the ids of at most `limit` matching documents. Raises Invalid."""
    query = searches.read(documents.fields, criteria, "", call.now)
    with _too_expensive(criteria, ""):
        if call.tenant_id is None:
            return await documents.ids_across_tenants(query, limit)
        return await documents.ids(call.tenant_id, query, limit)


@contextlib.contextmanager
def _too_expensive(criteria: Document, prefix: str) -> Iterator[None]:
    """Refuse a search that exceeded its time limit. Raises Invalid."""
    try:
        yield
    except SearchTimeoutError:
        path = searches.criterion_of(criteria, prefix)
        raise Invalid([FieldError.invalid(path, "takes too long; add a condition on an indexed field")]) from None
