"""Filters, tests and output of the template language."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jinja2
from jinja2 import filters, utils
from markupsafe import Markup

from identity.domain.messaging import freemarker_builtins
from identity.domain.messaging.freemarker_builtins import Moment
from identity.domain.messaging.template_budget import (
    MAX_OUTPUT_CHARACTERS,
    RenderError,
    charge,
    require_output_length,
)


def concatenate(*values: Any) -> Any:
    """Concatenate texts; if one of them is HTML, escape the others."""
    parts: list[Any] = [value if isinstance(value, str) else str(to_output(value)) for value in values]
    length = sum(map(len, parts))
    charge(length)
    require_output_length(length)
    if any(isinstance(part, Markup) for part in parts):
        return Markup("").join(parts)
    return "".join(parts)


def to_output(value: Any) -> Any:
    """The output for a value: nothing for null, JSON for lists and maps."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, Moment):
        return str(value)
    if not isinstance(value, str | int | float | jinja2.Undefined):
        raise RenderError("this cannot be shown")
    return value


def finalize(value: Any) -> Any:
    """As `to_output`, charged by the length."""
    result = to_output(value)
    charge(len(result) if isinstance(result, str) else 0)
    return result


def metered(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that is charged for its input and its output."""

    @functools.wraps(function)
    def run(value: Any, *arguments: Any, **named: Any) -> Any:
        charge(len(value) if isinstance(value, str | list | dict) else 0)
        result = function(value, *arguments, **named)
        charge(len(result) if isinstance(result, str | list) else 0)
        if isinstance(result, str):
            require_output_length(len(result))
        return result

    return run


def _default(value: Any, default: Any = "", boolean: bool = False) -> Any:  # noqa: FBT002 (the signature of Jinja)
    if isinstance(value, jinja2.Undefined) or value is None or (boolean and not value):
        return default
    return value


def _replace(value: Any, old: str, new: str) -> Any:
    text, old, new = str(value), str(old), str(new)
    if not old or len(text) + text.count(old) * len(new) > MAX_OUTPUT_CHARACTERS:
        raise RenderError("a text is too long")
    charge(len(text))
    return text.replace(old, new)


def _join(value: Any, separator: str = "") -> Any:
    items = list(value)
    parts: list[Any] = []
    for index, item in enumerate(items):
        parts += [separator, item] if index else [item]
    return concatenate(*parts)


def _is_present(value: Any) -> bool:
    return not isinstance(value, jinja2.Undefined) and value is not None


def _has_content(value: Any) -> bool:
    return _is_present(value) and value not in ("", [], {})


def _cap_first(value: Any) -> str:
    text = str(value)
    return text[:1].upper() + text[1:]


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif not isinstance(value, jinja2.Undefined):
        raise RenderError("only a map has items")


def _truncate(value: Any, length: int = 255, end: str = "...") -> str:
    text = str(value)
    return text if len(text) <= length else text[: max(0, length - len(end))] + end


FILTERS: dict[str, Callable[..., Any]] = {
    "cap_first": _cap_first,
    "capitalize": lambda value: str(value).capitalize(),
    "d": _default,
    "default": _default,
    "e": filters.FILTERS["escape"],
    "escape": filters.FILTERS["escape"],
    "first": lambda value: next(iter(value), ""),
    "has_content": _has_content,
    "int": filters.FILTERS["int"],
    "is_present": _is_present,
    "items": _items,
    "join": _join,
    "last": lambda value: value[-1] if value else "",
    "length": len,
    "lower": lambda value: str(value).lower(),
    "replace": _replace,
    "safe": filters.FILTERS["safe"],
    "sort": sorted,
    "string": lambda value: str(to_output(value)),
    "title": lambda value: str(value).title(),
    "tojson": utils.htmlsafe_json_dumps,
    "trim": lambda value: str(value).strip(),
    "truncate": _truncate,
    "upper": lambda value: str(value).upper(),
    "urlencode": filters.FILTERS["urlencode"],
}
FILTER_NAMES = frozenset({*FILTERS, *freemarker_builtins.FILTERS, "literal"})
TESTS = (
    "boolean", "defined", "divisibleby", "even", "false", "float", "integer", "iterable", "mapping", "none", "number",
    "odd", "sequence", "string", "true", "undefined",
)  # fmt: skip
