"""Parse the parameters of an OAuth request: each at most once; empty ones count as absent, unknown ones are ignored.

The files under schemas/oauth2/ name the parameters of each endpoint. `x-blank-counts` marks one that counts
as present if it is empty: a blank secret is an incorrect one. `x-repeatable` marks one that may be repeated (RFC 8707
section 2); its values, which must not contain spaces, are joined by spaces. `patternProperties` are parameters with a
variable name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from identity.errors import InvalidRequest

Values = Mapping[str, Sequence[bytes]]


def read(arguments: Values, schema: Mapping[str, Any]) -> dict[str, str]:
    """Return the declared parameters that are present (RFC 6749 sections 3.1 and 3.2).

    Raises InvalidRequest for one that is repeated or not UTF-8.
    """
    found: dict[str, str] = {}
    for name, declared in _declared(arguments, schema):
        values = [_text(name, raw) for raw in arguments.get(name, ())]
        if declared.get("x-repeatable"):
            values = [" ".join(value for value in values if value)]
        if len(values) > 1:
            raise InvalidRequest("unknown", f"The parameter {name} must not be repeated.")
        if values and (values[0] or declared.get("x-blank-counts")):
            found[name] = values[0]
    return found


def _declared(arguments: Values, schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield from schema["properties"].items()
    for pattern, declared in schema.get("patternProperties", {}).items():
        yield from ((name, declared) for name in arguments if re.fullmatch(pattern, name))


def _text(name: str, raw: bytes) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest("unknown", f"The parameter {name} is not UTF-8.") from error
    if "\x00" in text:
        raise InvalidRequest("unknown", f"The parameter {name} contains a NUL character.")
    return text
