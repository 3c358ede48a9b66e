"""Index searches of users and entities, by query parameters and by a JSON body."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

from identity.call import Call, Document
from identity.web.base_handlers import ApiHandler
from identity.web.crud import criteria_of
from identity.web.endpoint import Access, Endpoint, Query, Reply, endpoint

_QUERY: Final[Query] = {
    "accurateTotal": "boolean",
    "ids": "uuids",
    "nextResults": "text",
    "numberOfResults": "integer",
    "query": "text",
    "queryString": "text",
    "sortFields[0].missing": "text",
    "sortFields[0].name": "text",
    "sortFields[0].order": "text",
    "startRow": "integer",
}
"""The query parameters; further fields to sort by have further numbers."""

_FOUND: Final = "{found}"

_SORT_PARAMETER = re.compile(r"sortFields\[([0-9])\]\.(name|order|missing)")


class IndexSearchHandler(ApiHandler):
    """Search, by query or by body, with the same names."""

    found: str
    """The schema of the response."""
    operation: Callable[..., Awaitable[Document]]
    required_feature: str | None = None

    @endpoint(access=Access.API_KEY, query=_QUERY, answer=_FOUND)
    async def get(self, call: Call) -> Reply:
        """Search by query parameters."""
        return Reply(await self.operation(self.services, call, self.criteria(), ""))

    @endpoint(access=Access.API_KEY, raw_body=True, takes="api/index-search.request.json", answer=_FOUND)
    async def post(self, call: Call, body: Document) -> Reply:
        """Search by a JSON body."""
        return Reply(await self.operation(self.services, call, criteria_of(body), "search."))

    @endpoint(access=Access.API_KEY)
    async def put(self, call: Call) -> Reply:
        """Flush the index, which is a no-op: searches read the database."""
        return Reply()

    def feature(self, declared: Endpoint) -> str | None:
        """Return the feature of the searched objects."""
        return self.required_feature

    def criteria(self) -> Document:
        """Return the criteria of the query parameters."""
        criteria: Document = dict(self.query())
        if ids := self.texts("ids"):
            criteria["ids"] = ids
        if sort := self._sort_fields():
            criteria["sortFields"] = sort
        return criteria

    def _sort_fields(self) -> list[Document]:
        fields: dict[int, Document] = {}
        for name, value in self.query().items():
            if match := _SORT_PARAMETER.fullmatch(name):
                fields.setdefault(int(match[1]), {})[match[2]] = value
        return [fields[index] for index in sorted(fields)]
