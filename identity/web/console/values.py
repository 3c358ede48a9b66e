"""Values of form fields: how a form shows a JSON value, and how it is read back, by the kind of the field."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

REMOVED: Final = "removed"
"""The value of the check box that removes an image."""


class UnreadableError(ValueError):
    """A field cannot be converted; the message says why."""


def shown(kind: str, value: Any) -> Any:
    """Return a value as the form shows it."""
    convert = _SHOWN.get(kind)
    if convert is not None:
        return convert(value)
    return "" if value is None else value


def read(kind: str, given: Sequence[str], choices: Sequence[tuple[str, str]], current: Any) -> Any:
    """Return the value of submitted texts; None for an empty field.

    What is not a number or an instant is passed on, so that the API rejects it at this field. Raises UnreadableError.
    """
    if kind == "checkbox":
        return bool(given)
    if kind == "choices":
        return [each for each in given if each]
    if kind == "matrix":
        return _granted(given)
    if kind == "flags":
        known = {name for name, _ in choices}
        others = {name: value for name, value in (current or {}).items() if name not in known}
        return {**others, **{name: True for name in given if name in known}}
    if kind in {"image", "icon"}:
        return _image(kind, given, current)
    text = given[-1] if given else ""
    if kind == "code":
        return text or None
    text = text.strip()
    convert = _READ.get(kind)
    if convert is not None and (text or kind in {"lines", "pairs"}):
        return convert(text)
    return text or None


def difference(current: Any, wanted: Any) -> Any:
    """Return the JSON merge patch that turns one object into another (RFC 7396)."""
    if not isinstance(current, Mapping) or not isinstance(wanted, Mapping):
        return wanted
    patch: dict[str, Any] = {name: None for name in current if name not in wanted}
    for name, value in wanted.items():
        if name not in current or current[name] != value:
            patch[name] = difference(current.get(name), value)
    return patch


def without_empty(document: Any) -> Any:
    """Return a new object without members that a form left empty."""
    if not isinstance(document, Mapping):
        return document
    found = {name: without_empty(value) for name, value in document.items()}
    return {name: value for name, value in found.items() if value not in (None, "", [], {})}


def _image(kind: str, given: Sequence[str], current: Any) -> Any:
    """Return an uploaded image, a `data:` URL, or the current one unless it is removed."""
    url = next((each for each in given if each.startswith("data:")), None)
    if url is None:
        return None if REMOVED in given else current
    return url if kind == "image" else [{"rel": "icon", "href": url}]


def _image_text(value: Any) -> str:
    """Return the size of an uploaded image; the URL of another one."""
    url = str(value[0].get("href", "")) if isinstance(value, list) and value else str(value or "")
    content = url.partition(",")[2]
    return f"Image, {-(-len(content) * 3 // 4096)} KiB" if url.startswith("data:") else url


def _granted(given: Sequence[str]) -> dict[str, list[str]]:
    """Return the permissions of check boxes such as `GET /api/user`."""
    found: dict[str, list[str]] = {}
    for each in given:
        method, _, endpoint = each.partition(" ")
        found.setdefault(endpoint, []).append(method)
    return found


def _local(value: Any) -> str:
    try:
        return datetime.datetime.fromtimestamp(value / 1000, tz=datetime.UTC).strftime("%Y-%m-%dT%H:%M")
    except (OverflowError, ValueError, OSError, TypeError):
        return ""


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in text.split("\n"):
        name, found, value = line.partition(":")
        if line.strip() and not found:
            raise UnreadableError(f"Write “name: value” on each line; this one has no colon: {line[:80]}")
        if line.strip():
            yield name.strip(), value.strip()


def _number(text: str) -> int | float | str:
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text


def _instant(text: str) -> int | str:
    try:
        return round(datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC).timestamp() * 1000)
    except ValueError:
        return text


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UnreadableError(f"This is not JSON: {error}.") from error


_SHOWN: Final[Mapping[str, Callable[[Any], Any]]] = {
    "checkbox": lambda value: value is True,
    "lines": lambda value: "\n".join(str(each) for each in value or []),
    "choices": lambda value: [str(each) for each in value or []],
    "flags": lambda value: [name for name, is_set in (value or {}).items() if is_set],
    "pairs": lambda value: "\n".join(f"{name}: {each}" for name, each in (value or {}).items()),
    "json": lambda value: "" if value is None else json.dumps(value, indent=2, ensure_ascii=False),
    "instant": _local,
    "matrix": lambda value: [f"{method} {name}" for name, methods in (value or {}).items() for method in methods],
    "secret": lambda _: "",
    "image": _image_text,
    "icon": _image_text,
}

_READ: Final[Mapping[str, Callable[[str], Any]]] = {
    "lines": lambda text: [line.strip() for line in text.split("\n") if line.strip()],
    "pairs": lambda text: dict(_pairs(text)),
    "number": _number,
    "instant": _instant,
    "json": _json,
}
