"""Running the index search of users and entities."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.objects import index_search as searches
from identity.store.index_search import IndexSearched


async def run(
    documents: IndexSearched, call: Call, criteria: Document, prefix: str
) -> tuple[int, list[Document], Document]:
    """How many documents match, one page of them, and `nextResults` when there are more. Raises Invalid."""
    query = searches.read(documents.fields, criteria, prefix)
    if call.tenant_id is None:
        total, found = await documents.search_index_across_tenants(query)
    else:
        total, found = await documents.search_index(call.tenant_id, query)
    more: Document = {}
    end = query.start_row + len(found)
    # A capped total does not say where the last page is; a page that is not full does.
    is_last = len(found) < query.number_of_results or (end >= total and total != query.count_limit)
    if found and query.ids is None and not is_last:
        more["nextResults"] = searches.next_results(criteria, query, prefix)
    return total, found, more


async def ids(documents: IndexSearched, call: Call, criteria: Document, limit: int) -> list[str]:
    """The ids of those that match, `limit` at most. Raises Invalid."""
    query = searches.read(documents.fields, criteria, "")
    if call.tenant_id is None:
        return await documents.ids_across_tenants(query, limit)
    return await documents.ids(call.tenant_id, query, limit)
