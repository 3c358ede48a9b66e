"""What schemas/config.json says of each setting: type, default, bounds, and what changing it does."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from identity import shipped_files

SCHEMA_FILE: Final = shipped_files.folder("schemas") / "config.json"

Described = Mapping[str, Any]
"""The schema of a setting, or of a section of them."""


@functools.cache
def schema() -> Described:
    """schemas/config.json."""
    loaded: dict[str, Any] = json.loads(SCHEMA_FILE.read_text("utf-8"))
    return loaded


def settings(node: Described | None = None, prefix: str = "") -> Iterator[tuple[str, Described]]:
    """Every setting with its schema, in the schema's order: ("server.port", {...})."""
    for name, child in (node or schema())["properties"].items():
        if "properties" in child:
            yield from settings(child, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", child
