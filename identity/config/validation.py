"""Judging a value by what the schema says of its setting; a fault says what is wrong, and what to do."""

from __future__ import annotations

import functools
import ipaddress
import json
import re
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, Final

import jsonschema

from identity.config.description import Described

EMBEDDED: Final = "embedded"
"""Said of a store that is started and stopped with the service."""


def _is_network(value: object) -> bool:
    return not isinstance(value, str) or bool(ipaddress.ip_network(value))


def _is_base_url(value: object) -> bool:
    if not isinstance(value, str):
        return True
    parts = urllib.parse.urlsplit(value)
    plain = parts.scheme in {"http", "https"} and parts.hostname and not parts.username
    return bool(plain) and value == f"{parts.scheme}://{parts.netloc}" and (parts.port is None or parts.port > 0)


def _is_mongodb_uri(value: object) -> bool:
    return not isinstance(value, str) or value == EMBEDDED or bool(re.match(r"mongodb(\+srv)?://[^/]", value))


def _is_redis_url(value: object) -> bool:
    return not isinstance(value, str) or value == EMBEDDED or bool(re.match(r"(redis|rediss|unix)://.", value))


def _is_proxy(value: object) -> bool:
    return not isinstance(value, str) or bool(re.fullmatch(r"https?://([^/@]+@)?[^/@:]+(:\d{1,5})?/?", value))


def _is_collector(value: object) -> bool:
    return not isinstance(value, str) or bool(re.fullmatch(r"https?://[^/@\s?#]+(/[^@\s?#]*)?", value))


def _are_headers(value: object) -> bool:
    """As the specification of OpenTelemetry has them: `name=value`, with commas between."""
    pair = r"\s*[!#$%&'*+.^_`|~0-9A-Za-z-]+\s*=[\x20-\x2b\x2d-\x7e]*"
    return not isinstance(value, str) or bool(re.fullmatch(rf"{pair}(,{pair})*", value))


_FORMATS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "collector": (_is_collector, "write a URL such as http://127.0.0.1:4318/v1/traces, without user and query"),
    "headers": (_are_headers, "write name=value, with commas between several"),
    "network": (_is_network, "write a network such as 10.1.2.0/24 or 2001:db8::/32"),
    "base-url": (_is_base_url, "write https://host or https://host:port, without path or query"),
    "mongodb-uri": (_is_mongodb_uri, "write `embedded`, or a URI that begins with mongodb:// or mongodb+srv://"),
    "proxy": (_is_proxy, "write http://host:port or http://user:password@host:port"),
    "redis-url": (_is_redis_url, "write `embedded`, or a URL that begins with redis://, rediss:// or unix://"),
}


_SECRET_FORMATS = frozenset({"headers", "mongodb-uri", "proxy", "redis-url"})
"""Formats of values that may hold a password, and are not repeated in a message."""


@functools.cache
def _format_checker() -> jsonschema.FormatChecker:
    checker = jsonschema.FormatChecker(formats=())
    for name, (judge, _) in _FORMATS.items():
        checker.checks(name, raises=ValueError)(judge)
    return checker


def value_faults(value: object, described: Described) -> list[str]:
    """What is wrong with the value, each fault with its remedy; nothing when it may be used."""
    validator = jsonschema.Draft202012Validator(described, format_checker=_format_checker())
    errors = list(validator.iter_errors(value))
    # A value of the wrong type fails its other rules too, which would only be noise.
    return [_fault(error, described) for error in errors if error.validator == "type"][:1] or [
        _fault(error, described) for error in errors
    ]


def _fault(error: jsonschema.ValidationError, described: Described) -> str:
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
