"""Validation in native code, which takes a fraction of the time of `jsonschema` but names no errors of ours.

A prevalidator is at least as strict as its schema: what it accepts is valid, what it refuses may be valid too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import jsonschema_rs

Formats = Mapping[str, Callable[[object], bool]]
"""Functions by the name of their format; they return False or raise ValueError for a value without it."""

_LARGEST_INTEGER: Final = 2**63


class Prevalidator:
    """A schema compiled to native code; formats that `formats` does not have are not checked."""

    def __init__(self, schema: Any, formats: Formats) -> None:
        checks = {name: _check(is_valid) for name, is_valid in formats.items()}
        strict = _strict(schema, checks)
        self._validator = jsonschema_rs.Draft202012Validator(strict, formats=checks, validate_formats=True)

    def accepts(self, document: Any) -> bool:
        """Return whether the document is certainly valid."""
        try:
            return bool(self._validator.is_valid(document))
        except ValueError:  # a text that is not Unicode, or what JSON cannot represent
            return False


def _strict(node: Any, checks: dict[str, Callable[[str], bool]]) -> Any:
    """Return the schema without what the two validators evaluate differently.

    Patterns become formats, because dialects of regular expressions differ; `checks` gets them. JSON Schema takes 1e300
    for an integer; integers are bounded, so that jsonschema decides about the large ones.
    """
    if isinstance(node, list):
        return [_strict(item, checks) for item in node]
    if not isinstance(node, dict):
        return node
    if "patternProperties" in node:
        return False
    strict = {name: _strict(value, checks) for name, value in node.items()}
    if isinstance(node.get("format"), str) and node["format"] not in checks:
        del strict["format"]
    if isinstance(node.get("pattern"), str):
        name = f"pattern {strict.pop('pattern')}"
        checks[name] = _check(re.compile(node["pattern"]).search)
        strict["allOf"] = [*strict.get("allOf", ()), {"format": name}]
    if node.get("type") == "integer":
        strict["minimum"] = max(node.get("minimum", -_LARGEST_INTEGER), -_LARGEST_INTEGER)
        strict["maximum"] = min(node.get("maximum", _LARGEST_INTEGER), _LARGEST_INTEGER)
    return strict


def _check(is_valid: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            return bool(is_valid(text))
        except ValueError:
            return False

    return check
