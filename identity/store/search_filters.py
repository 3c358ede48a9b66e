"""Searches as MongoDB filters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from identity.domain.objects import name_suffixes
from identity.domain.objects.search import Criterion, SearchQuery


def condition(criterion: Criterion) -> dict[str, Any]:
    """Return the filter of a search criterion."""
    field = "_id" if criterion.field == "id" else criterion.field
    match criterion.kind:
        case "text":
            return {field: {"$regex": criterion.value, "$options": "is"}}
        case "tenants":
            return {"$or": [{"tenantIds": criterion.value}, {"global": True}]}
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
