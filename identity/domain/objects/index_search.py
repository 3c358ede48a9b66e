"""The index search of users and entities: parsing its request. The search engine is MongoDB.

`ids` takes precedence over `queryString`. A query string is `*`, one term, or `field:term`; a term matches the complete
value of a field, case-insensitively, and may start or end with `*`. `nextResults` of a response gives the next page.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

from identity.call import Document
from identity.domain.objects.search import MAXIMUM_RESULTS, paging_value
from identity.errors import FieldError, Invalid
from identity.ids import base64url, parse_id, unbase64url

COUNT_LIMIT = 10_000
"""The limit of counting, unless the caller requests the accurate total."""


@dataclasses.dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one kind of document that can be searched and sorted by.

    `texts` are members that a term matches case-insensitively, `ids` members that hold one id, `flags` booleans; `sort`
    are the names of members to sort by. `termed` are the texts that are also stored, in lower case, in the indexed list
    `private.terms`, where a bare term is looked up. `optional` are the members to sort by that a document may lack.
    """

    texts: frozenset[str]
    ids: Mapping[str, str]
    sort: Mapping[str, str]
    termed: frozenset[str]
    flags: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()


_ASKED_AGAIN = ("queryString", "sortFields", "accurateTotal")
_MAXIMUM_QUERY = 400
_NO_NUMBER = "must be a whole number"
_UNSEARCHABLE = re.compile("[\\x00\\ud800-\\udfff]")
"""A NUL, which regular expressions cannot have, and lone surrogates, which are not characters."""


@dataclasses.dataclass(frozen=True, slots=True)
class Term:
    """One term of a query, in lower case; `field` is None for a bare term."""

    field: str | None
    text: str
    open_start: bool = False
    open_end: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class SortField:
    """A field to sort by, by its stored name; documents without it are last unless `missing_first`."""

    field: str
    descending: bool = False
    missing_first: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class IndexQuery:
    """A search as the store runs it; `ids` None means no restriction by id, `term` None matches everything."""

    ids: tuple[str, ...] | None = None
    term: Term | None = None
    sort: tuple[SortField, ...] = ()
    start_row: int = 0
    number_of_results: int = 25
    count_limit: int = COUNT_LIMIT


def read(fields: Fields, criteria: Document, prefix: str) -> IndexQuery:
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
    if criteria.get("query"):
        errors.append(FieldError.invalid(f"{prefix}query", "is for an index engine; use [queryString]"))
    term = _term(fields, criteria.get("queryString"), f"{prefix}queryString", errors)
    sort = _sort(fields, criteria.get("sortFields"), f"{prefix}sortFields", errors)
    start_row = paging_value(criteria, "startRow", 0, prefix, errors, _NO_NUMBER)
    results = min(paging_value(criteria, "numberOfResults", 25, prefix, errors, _NO_NUMBER), MAXIMUM_RESULTS)
    accurate = _flag(criteria, "accurateTotal", prefix, errors)
    if errors:
        raise Invalid(errors)
    return IndexQuery(None, term, sort, start_row, results, 0 if accurate else COUNT_LIMIT)


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
        again = json.loads(unbase64url(token)) if isinstance(token, str) and len(token) < 4000 else None
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


def _term(fields: Fields, value: Any, path: str, errors: list[FieldError]) -> Term | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > _MAXIMUM_QUERY:
        errors.append(FieldError.invalid(path, f"must be a text of at most {_MAXIMUM_QUERY} characters"))
        return None
    # A token can be forged, and can hold values that no request body can have.
    if _UNSEARCHABLE.search(value):
        errors.append(FieldError.invalid(path, "holds what no text can hold"))
        return None
    text = value.strip()
    match = re.fullmatch(r"([A-Za-z]+(?:\.[A-Za-z]+)?):(.*)", text, re.DOTALL)
    field = match[1] if match else None
    text = (match[2] if match else text).strip().strip('"').lower()
    if field is not None and field not in {*fields.texts, *fields.ids, *fields.flags}:
        errors.append(FieldError.invalid(path, f"names the field [{field}], which cannot be searched"))
        return None
    if field is None and text.strip("*") == "":
        return None
    bare = text.strip("*")
    return Term(field, bare, open_start=text.startswith("*"), open_end=text.endswith("*"))


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
