"""The schema of the settings: type, default, bounds and description of each, from schemas/config.json."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from identity import shipped_files

SCHEMA_FILE: Final = shipped_files.folder("schemas") / "config.json"

Described = Mapping[str, Any]
"""The schema of a setting or of a section."""


@functools.cache
def schema() -> Described:
    """The content of schemas/config.json."""
    loaded: dict[str, Any] = json.loads(SCHEMA_FILE.read_text("utf-8"))
    return loaded


def settings(node: Described | None = None, prefix: str = "") -> Iterator[tuple[str, Described]]:
    """Yield each setting with its schema in order, such as ("server.port", {...})."""
    for name, child in (node or schema())["properties"].items():
        if "properties" in child:
            yield from settings(child, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", child
