"""Steps from the root of a document, or of its schema, to a member."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

Node = Mapping[str, Any]
"""A schema inside a schema."""

Steps = tuple[str | int, ...]
"""The names of members and the indexes of items."""


def node_at(root: Node, steps: Steps) -> Node:
    """Return the schema of a member; an empty one if there is none."""
    return functools.reduce(child_of, steps, root)


def child_of(node: Node, step: str | int) -> Node:
    """Return the schema of a member or of the items; an empty one if there is none."""
    if isinstance(step, int):
        found = node.get("items")
    else:
        found = node.get("properties", {}).get(step, node.get("additionalProperties"))
    return found if isinstance(found, dict) else {}


def dotted(steps: Iterable[str | int]) -> str:
    """Return the path of a field as in the Errors JSON: `user.twoFactor.methods[0].secret`."""
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path
