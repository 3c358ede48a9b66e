"""The schema of the settings, schemas/config.json, and the validation of values by it.

Each problem is reported with its remedy.
"""

from __future__ import annotations

import functools
import ipaddress
import json
import re
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from identity import shipped_files
from identity.prevalidation import Formats, Prevalidator

if TYPE_CHECKING:
    import jsonschema

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


EMBEDDED: Final = "embedded"
"""The address of a store that is started and stopped with the service."""


def _is_network(value: object) -> bool:
    return not isinstance(value, str) or bool(ipaddress.ip_network(value))


def _is_base_url(value: object) -> bool:
    if not isinstance(value, str):
        return True
    parts = urllib.parse.urlsplit(value)
    plain = parts.scheme in {"http", "https"} and parts.hostname and not parts.username
    return bool(plain) and value == f"{parts.scheme}://{parts.netloc}" and (parts.port is None or parts.port > 0)


def _matches(pattern: str, value: object) -> bool:
    return not isinstance(value, str) or re.fullmatch(pattern, value) is not None


_HEADER = r"\s*[!#$%&'*+.^_`|~0-9A-Za-z-]+\s*=[\x20-\x2b\x2d-\x7e]*"
"""A `name=value` pair as in the OpenTelemetry specification."""

_FORMATS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "collector": (
        partial(_matches, r"https?://[^/@\s?#]+(/[^@\s?#]*)?"),
        "write a URL such as http://127.0.0.1:4318/v1/traces, without user and query",
    ),
    "headers": (partial(_matches, rf"{_HEADER}(,{_HEADER})*"), "write comma-separated name=value pairs"),
    "network": (_is_network, "write a network such as 10.1.2.0/24 or 2001:db8::/32"),
    "base-url": (_is_base_url, "write https://host or https://host:port, without path or query"),
    "mongodb-uri": (
        partial(_matches, rf"{EMBEDDED}|mongodb(\+srv)?://[^/](?s:.)*"),
        "write `embedded`, or a URI that begins with mongodb:// or mongodb+srv://",
    ),
    "proxy": (
        partial(_matches, r"https?://([^/@]+@)?[^/@:]+(:\d{1,5})?/?"),
        "write http://host:port or http://user:password@host:port",
    ),
    "redis-url": (
        partial(_matches, rf"{EMBEDDED}|(rediss?(\+(sentinel|cluster))?|unix)://.(?s:.)*"),
        "write `embedded`, or a URL that begins with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://",
    ),
}

_SECRET_FORMATS = frozenset({"headers", "mongodb-uri", "proxy", "redis-url"})
"""Formats of values that may contain a password, and are therefore not repeated in messages."""


def value_problems(value: object, described: Described) -> list[str]:
    """The problems of a value, each with its remedy; empty if it is valid."""
    formats = {name: is_valid for name, (is_valid, _) in _FORMATS.items()}
    return [] if Prevalidator(described, formats).accepts(value) else _problems_of(value, described, formats)


def _problems_of(value: object, described: Described, formats: Formats) -> list[str]:
    import jsonschema  # noqa: PLC0415 (takes a twentieth of the start, and settings are valid)

    checker = jsonschema.FormatChecker(formats=())
    for name, is_valid in formats.items():
        checker.checks(name, raises=ValueError)(is_valid)
    errors = list(jsonschema.Draft202012Validator(described, format_checker=checker).iter_errors(value))
    # A value of the wrong type violates other rules, too; report only the type.
    errors = [error for error in errors if error.validator == "type"][:1] or errors
    return [_problem(error, described) for error in errors]


def _problem(error: jsonschema.ValidationError, described: Described) -> str:
    shown = "this value" if described.get("format") in _SECRET_FORMATS else repr(error.instance)
    bound: Any = error.validator_value
    match error.validator:
        case "type":
            return f"must be {_words(bound)}, not {shown}; {_example(described)}"
        case "enum":
            return f"must be one of {', '.join(map(str, bound))}, not {shown}; choose one of them"
        case "minimum" | "maximum":
            side = "least" if error.validator == "minimum" else "most"
            return f"must be at {side} {bound}, not {shown}; {_example(described)}"
        case "format":
            return f"{shown} is not usable; {_FORMATS[bound][1]}"
        case "pattern":
            return f"{shown} is not usable; it must match {bound}"
        case "anyOf":
            return f"{shown} is not usable; {described['description']}"
    return f"{error.message}; {_example(described)}"


_TYPE_WORDS = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a map",
    "null": "null",
}


def _words(types: str | list[str]) -> str:
    return " or ".join(_TYPE_WORDS[name] for name in ([types] if isinstance(types, str) else types))


def _example(described: Described) -> str:
    return f"the default is {json.dumps(described['default'])}"
