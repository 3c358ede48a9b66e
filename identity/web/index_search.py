"""Index search requests by query parameters and by a JSON body."""

from __future__ import annotations

import re
from typing import Final

from identity.call import Document
from identity.web.base_handlers import ApiHandler
from identity.web.endpoint import Query

QUERY: Query = {
    "accurateTotal": "boolean",
    "ids": "uuids",
    "nextResults": "text",
    "numberOfResults": "integer",
    "queryString": "text",
    "sortFields[0].missing": "text",
    "sortFields[0].name": "text",
    "sortFields[0].order": "text",
    "startRow": "integer",
}
"""The query parameters; further fields to sort by have further numbers."""

REQUEST: Final = "api/index-search.request.json"
"""The schema of the body."""

_SORT_PARAMETER = re.compile(r"sortFields\[([0-9])\]\.(name|order|missing)")


class IndexSearchHandler(ApiHandler):
    """Reads the criteria of an index search."""

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
