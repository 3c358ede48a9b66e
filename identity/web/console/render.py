"""Render the pages of the console from compiled templates, with a Content-Security-Policy without inline code."""

from __future__ import annotations

import datetime
import functools
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import jinja2
import orjson

from identity.web import page_files
from identity.web.console import form_steps
from identity.web.endpoint import Reply

_HERE: Final = Path(__file__).resolve().parent
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; frame-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def page(template: str, values: Mapping[str, Any], status: int = 200) -> Reply:
    """Return a page."""
    body = _templates().get_template(template).render(values).encode()
    return Reply(body, status, HEADERS)


def fragment(template: str, **values: Any) -> bytes:
    """Return a part of a page that is streamed."""
    return _templates().get_template(template).render(values).encode()


@functools.cache
def _templates() -> jinja2.Environment:
    environment = page_files.environment(_HERE / "templates")
    environment.globals["asset"] = functools.partial(page_files.path, "console")
    environment.globals["with_query"] = with_query
    environment.globals["step_types"] = form_steps.TYPES
    environment.filters.update({"instant": instant, "minute": minute, "pretty": pretty, "text": text})
    return environment


def instant(value: object) -> str:
    """Return an instant in epoch milliseconds as text in UTC; empty for None."""
    if not isinstance(value, int):
        return ""
    try:
        return datetime.datetime.fromtimestamp(value / 1000, tz=datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return "never"


def minute(value: object) -> str:
    """Return an instant in UTC to the minute, for tables."""
    return instant(value).removesuffix(" UTC")[:16]


def pretty(value: object) -> str:
    """Return a value as indented JSON."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode()


def text(value: object) -> str:
    """Return a value of a document as short text."""
    match value:
        case None:
            return ""
        case True:
            return "yes"
        case False:
            return "no"
        case list():
            return ", ".join(text(each) for each in value)
        case dict():
            return orjson.dumps(value).decode()
    return str(value)


def with_query(path: str, parameters: Mapping[str, Any], **changes: Any) -> str:
    """Return a path with the parameters that are set, some of them changed."""
    merged = {name: value for name, value in {**parameters, **changes}.items() if value not in {None, ""}}
    return f"{path}?{urllib.parse.urlencode(merged)}" if merged else path
