"""The index search of users and entities: parsing its request. The search engine is MongoDB.

`ids` takes precedence over `query`, and that over `queryString`. `nextResults` of a response gives the next page.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from identity.call import Document
from identity.domain.objects import query_documents, query_strings
from identity.domain.objects.search import MAXIMUM_RESULTS, paging_value
from identity.domain.objects.search_expressions import EVERYTHING, Expression, Fields, QueryError, require_bounded
from identity.errors import FieldError, Invalid
from identity.ids import base64url, parse_id, unbase64url
from identity.instants import Instant

COUNT_LIMIT = 10_000
"""The limit of counting, unless the caller requests the accurate total."""


_ASKED_AGAIN = ("query", "queryString", "sortFields", "accurateTotal")
_MAXIMUM_TOKEN = 131_072
"""A token contains the query of its search."""
_NO_NUMBER = "must be a whole number"


@dataclasses.dataclass(frozen=True, slots=True)
class SortField:
    """A field to sort by, by its stored name; documents without it are last unless `missing_first`."""

    field: str
    descending: bool = False
    missing_first: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class IndexQuery:
    """A search as the store runs it; `ids` None means no restriction by id."""

    ids: tuple[str, ...] | None = None
    expression: Expression = EVERYTHING
    sort: tuple[SortField, ...] = ()
    start_row: int = 0
    number_of_results: int = 25
    count_limit: int = COUNT_LIMIT


def read(fields: Fields, criteria: Document, prefix: str, now: Instant) -> IndexQuery:
    """Parse search criteria; `prefix` (`search.` or nothing) precedes names in errors.

    Raises Invalid with every invalid member.
    """
    criteria = {**criteria, **_continued(criteria, prefix)}
    errors: list[FieldError] = []
    if criteria.get("ids"):
        ids = _ids(criteria["ids"], f"{prefix}ids", errors)
        if errors:
            raise Invalid(errors)
        return IndexQuery(ids=ids, number_of_results=len(ids))
    expression = _expression(fields, criteria, prefix, now, errors)
    sort = _sort(fields, criteria.get("sortFields"), f"{prefix}sortFields", errors)
    start_row = paging_value(criteria, "startRow", 0, prefix, errors, _NO_NUMBER)
    results = min(paging_value(criteria, "numberOfResults", 25, prefix, errors, _NO_NUMBER), MAXIMUM_RESULTS)
    accurate = _flag(criteria, "accurateTotal", prefix, errors)
    if errors:
        raise Invalid(errors)
    return IndexQuery(None, expression, sort, start_row, results, 0 if accurate else COUNT_LIMIT)


def criterion_of(criteria: Document, prefix: str) -> str:
    """Return the path of the criterion that contains the query."""
    return f"{prefix}query" if {**criteria, **_continued(criteria, prefix)}.get("query") else f"{prefix}queryString"


def next_results(criteria: Document, query: IndexQuery, prefix: str) -> str:
    """Return the token of the next page: an encoded search request, which is validated when it is used."""
    criteria = {**criteria, **_continued(criteria, prefix)}
    again: Document = {name: criteria[name] for name in _ASKED_AGAIN if name in criteria}
    again |= {"startRow": query.start_row + query.number_of_results, "numberOfResults": query.number_of_results}
    return base64url(json.dumps(again, sort_keys=True).encode())


def _continued(criteria: Document, prefix: str) -> Document:
    token = criteria.get("nextResults")
    if not token:
        return {}
    try:
        again = json.loads(unbase64url(token)) if isinstance(token, str) and len(token) <= _MAXIMUM_TOKEN else None
    except (ValueError, RecursionError):
        again = None
    if not isinstance(again, dict) or "nextResults" in again or "ids" in again:
        raise Invalid([FieldError.invalid(f"{prefix}nextResults", "is not a token of an earlier answer")])
    return again


def _flag(criteria: Document, name: str, prefix: str, errors: list[FieldError]) -> bool:
    value, path = criteria.get(name), f"{prefix}{name}"
    text = "" if value is None else str(value).strip().lower()
    if text not in {"", "true", "false"}:
        errors.append(FieldError.invalid(path, "must be true or false", "couldNotConvert"))
    return text == "true"


def _ids(value: Any, path: str, errors: list[FieldError]) -> tuple[str, ...]:
    wanted = value if isinstance(value, list) else [value]
    found = [parse_id(item) for item in wanted]
    if len(wanted) > MAXIMUM_RESULTS:
        errors.append(FieldError.invalid(path, f"may hold at most {MAXIMUM_RESULTS} ids", "tooMany"))
    if None in found:
        errors.append(FieldError.invalid(path, "must be UUIDs", "couldNotConvert"))
    return tuple(dict.fromkeys(item for item in found if item is not None))


def _expression(fields: Fields, criteria: Document, prefix: str, now: Instant, errors: list[FieldError]) -> Expression:
    """Return what is searched for; errors are added to the list."""
    name, parse = ("query", query_documents.parse) if criteria.get("query") else ("queryString", query_strings.parse)
    value = criteria.get(name)
    if value is None or value == "":
        return EVERYTHING
    try:
        # A token can be forged, and can hold values that no request body can have.
        if not isinstance(value, str):
            raise QueryError("must be a text")
        return require_bounded(parse(fields, value, now))
    except QueryError as error:
        errors.append(FieldError.invalid(f"{prefix}{name}", str(error)))
        return EVERYTHING


def _sort(fields: Fields, value: Any, path: str, errors: list[FieldError]) -> tuple[SortField, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > len(fields.sort):
        errors.append(FieldError.invalid(path, "must be a list of fields"))
        return ()
    found = []
    for index, item in enumerate(value):
        field = _sort_field(fields, item)
        if field is None:
            errors.append(FieldError.invalid(f"{path}[{index}]", "cannot be sorted by"))
        else:
            found.append(field)
    return tuple(found)


def _sort_field(fields: Fields, item: Any) -> SortField | None:
    name = item.get("name") if isinstance(item, dict) else None
    if not isinstance(name, str) or name not in fields.sort:
        return None
    order, missing = str(item.get("order") or "asc").lower(), str(item.get("missing") or "_last")
    if order not in {"asc", "desc"} or missing not in {"_first", "_last"}:
        return None
    return SortField(fields.sort[name], descending=order == "desc", missing_first=missing == "_first")
