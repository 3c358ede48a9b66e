"""Members of documents, named by dotted paths."""

from __future__ import annotations

from typing import Any

from identity.call import Document


def value_at(document: Document, path: str) -> Any:
    """Return the value of a member, or None if there is none."""
    value: Any = document
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value
