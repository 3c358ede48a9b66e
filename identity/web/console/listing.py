"""Lists of the console: the search of a resource, with its filters, order and pages."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from identity.web.console.layouts import Column, Layout, member_of

PAGE_SIZE: Final = 25
_SEARCHED: Final = "q"


@dataclasses.dataclass(frozen=True, slots=True)
class ListRequest:
    """What the query of a list screen asks for."""

    text: str
    filters: Mapping[str, str]
    sort: str
    is_descending: bool
    page: int
    next_results: str

    @classmethod
    def of(cls, layout: Layout, parameters: Mapping[str, str]) -> ListRequest:
        """Read the parameters of the screen; unknown ones are ignored."""
        sort = parameters.get("sort", "")
        known = {column.order for column in layout.columns} - {""}
        page = parameters.get("page", "1")
        return cls(
            text=parameters.get(_SEARCHED, "").strip(),
            filters={name: value for name in layout.filters if (value := parameters.get(name, "").strip())},
            sort=sort if sort in known else "",
            is_descending=parameters.get("order") == "desc",
            page=int(page) if page.isdecimal() and len(page) < 7 and int(page) > 0 else 1,
            next_results=parameters.get("next", ""),
        )

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of this list, to be repeated in its links."""
        order = "desc" if self.is_descending else ""
        return {_SEARCHED: self.text, **self.filters, "sort": self.sort, "order": order}

    def tenant_id(self, layout: Layout) -> str | None:
        """Return the tenant that an index search is limited to, which has no parameter for it."""
        return self.filters.get("tenantId") if layout.is_index else None

    def query(self, layout: Layout) -> dict[str, Any]:
        """Return the query of the API call."""
        if not layout.has_search:
            return {}
        if layout.is_index:
            return self._index_query(layout)
        order = f"{self.sort} {'DESC' if self.is_descending else 'ASC'}" if self.sort else layout.order
        text = {layout.text: self.text} if layout.text else {}
        criteria = {**text, **self.filters, "orderBy": order, **layout.fixed}
        paging = {"startRow": (self.page - 1) * PAGE_SIZE, "numberOfResults": PAGE_SIZE}
        return {name: value for name, value in {**criteria, **paging}.items() if value != ""}

    def _index_query(self, layout: Layout) -> dict[str, Any]:
        query: dict[str, Any] = {"queryString": self.text or "*", "numberOfResults": PAGE_SIZE}
        name, _, direction = layout.order.partition(" ")
        if self.sort:
            name, direction = self.sort, "desc" if self.is_descending else "asc"
        if name:
            query |= {"sortFields[0].name": name, "sortFields[0].order": direction.lower()}
        return query | ({"nextResults": self.next_results} if self.next_results else {})


@dataclasses.dataclass(frozen=True, slots=True)
class Listed:
    """One page of a list."""

    rows: Sequence[Mapping[str, Any]]
    total: int
    start: int
    next_results: str = ""

    @property
    def has_more(self) -> bool:
        """Whether there is a next page."""
        return bool(self.next_results) or self.start + len(self.rows) < self.total


def listed(layout: Layout, request: ListRequest, answer: Mapping[str, Any]) -> Listed:
    """Return the page that an API response contains."""
    rows = answer.get(layout.plural) or []
    if layout.has_search:
        token = answer.get("nextResults", "") if layout.is_index and len(rows) == PAGE_SIZE else ""
        start = 0 if layout.is_index else (request.page - 1) * PAGE_SIZE
        return Listed(rows, answer.get("total", len(rows)), start, token)
    found = [row for row in rows if _matches(layout, row, request)]
    member = next((column.member for column in layout.columns if column.order and column.order == request.sort), "")
    if member:
        found.sort(key=lambda row: str(member_of(row, member) or "").lower(), reverse=request.is_descending)
    start = (request.page - 1) * PAGE_SIZE
    return Listed(found[start : start + PAGE_SIZE], len(found), start)


def _matches(layout: Layout, row: Mapping[str, Any], request: ListRequest) -> bool:
    texts = [str(member_of(row, column.member) or "").lower() for column in layout.columns]
    has_text = not request.text or any(request.text.lower() in text for text in texts)
    return has_text and all(str(member_of(row, name)) == value for name, value in request.filters.items())


def heading_links(columns: Sequence[Column], request: ListRequest) -> list[tuple[Column, dict[str, Any], str]]:
    """Return each column with the parameters that sort by it, and its `aria-sort`."""
    found = []
    for column in columns:
        is_sorted = bool(column.order) and column.order == request.sort
        state = ("descending" if request.is_descending else "ascending") if is_sorted else ""
        order = "desc" if is_sorted and not request.is_descending else ""
        found.append((column, {**request.parameters(), "sort": column.order, "order": order}, state))
    return found
