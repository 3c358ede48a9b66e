"""Type coercion of JSON values that do not have the type of the schema, as in published clients and kickstart files.

The published API deserializes with Jackson, which converts between scalar types: `"true"` to a boolean, digits to a
number, a number to a string. Values that cannot be converted are unchanged, and the schema rejects them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_BOOLEANS = {"true": True, "false": False}
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_NUMBER = re.compile(r"-?[0-9]{1,19}(\.[0-9]{1,19})?")
_INTEGER_LIMIT = 2**63


def coerce(node: Mapping[str, Any], value: Any) -> Any:
    """Return the value converted to the type of a schema node, if possible; None if it counts as absent."""
    if isinstance(value, str):
        value = _from_text(node, value)
    elif node.get("type") == "string" and isinstance(value, int | float) and not isinstance(value, bool):
        value = json.dumps(value)
    if node.get("x-zero-is-null") and value == 0 and not isinstance(value, bool):
        return None
    if node.get("x-single-item") and isinstance(value, str):
        return [value]
    return value


def _from_text(node: Mapping[str, Any], text: str) -> Any:
    if "x-from-text" in node:
        return {node["x-from-text"]: text}
    if text in node.get("x-names", {}):
        return node["x-names"][text]
    kind, stripped = node.get("type"), text.strip()
    if kind == "boolean":
        return _BOOLEANS.get(stripped.lower(), text)
    if kind in {"integer", "number"} and _INTEGER.fullmatch(stripped):
        return int(stripped) if abs(int(stripped)) < _INTEGER_LIMIT else text
    if kind == "number" and _NUMBER.fullmatch(stripped):
        return float(stripped)
    return text
