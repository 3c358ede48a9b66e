"""Indexes of the collections of API objects, besides those of searches."""

from __future__ import annotations

from collections.abc import Sequence

from pymongo import IndexModel

from identity.domain.objects.resource_definition import Unique
from identity.ids import fingerprint


def of_unique(unique: Unique) -> IndexModel:
    """Return the index that keeps members unique."""
    keys = [(key, 1) for key in unique.keys]
    options = {"partialFilterExpression": {unique.keys[-1]: {"$exists": True}}} if unique.sparse else {}
    return IndexModel(keys, name=unique.index, unique=True, **options)


def of_references(members: Sequence[str]) -> IndexModel:
    """Return a wildcard index over all members with ids of other objects; its name depends on the members."""
    named = fingerprint(" ".join(members))[:8]
    return IndexModel([("$**", 1)], name=f"references-{named}", wildcardProjection=dict.fromkeys(members, 1))
