"""Members of API objects by their paths, and the codes of errors."""

from __future__ import annotations

from typing import Any, Final

import httpx

NOTHING: Final = object()
"""The value of a missing member."""


def at(document: dict[str, Any], path: str) -> Any:
    """The member at a dotted path, or `NOTHING`."""
    value: Any = document
    for step in path.split("."):
        if not isinstance(value, dict) or step not in value:
            return NOTHING
        value = value[step]
    return value


def with_member(path: str, value: Any) -> dict[str, Any]:
    """An object with one member, at a dotted path."""
    for step in reversed(path.split(".")):
        value = {step: value}
    return dict(value)


def codes(answer: httpx.Response) -> set[str]:
    """Return the error codes of a response, of fields and general ones."""
    assert answer.status_code == 400, answer.text
    body = answer.json()
    fields = {e["code"] for errors in body.get("fieldErrors", {}).values() for e in errors}
    return fields | {e["code"] for e in body.get("generalErrors", [])}


def contains(shown: Any, wanted: Any) -> bool:
    """Whether `shown` has all members of `wanted`; it may have more, such as defaults."""
    if isinstance(shown, dict) and isinstance(wanted, dict):
        return all(name in shown and contains(shown[name], value) for name, value in wanted.items())
    return bool(shown == wanted)
