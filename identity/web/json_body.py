"""Strict parsing of JSON bodies: every accepted value can be stored and returned unchanged."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

from identity.errors import Invalid

MAXIMUM_DEPTH = 40
_MAXIMUM_INTEGER = 2**63 - 1

# Possessive, and matches a text without an end as well, so that no body makes it backtrack.
_TEXTS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"{}[]")


class RefusedError(ValueError):
    """Raised for well-formed JSON that is not accepted, with the reason."""


def parse(body: bytes) -> Any:
    """Return the value of a JSON text in UTF-8.

    Raises Invalid with `[missing]` for an empty body, and `[invalidJSON]` for malformed JSON, repeated or unstorable
    names, NaN, numbers beyond 64 bits, lone surrogates and nesting deeper than 40.
    """
    if not body.strip():
        raise missing()
    require_shallow(body)
    try:
        return decoder().decode(body.decode("utf-8"))
    except json.JSONDecodeError as error:
        raise invalid(f"{error.msg} at line {error.lineno} column {error.colno}") from error
    except UnicodeDecodeError as error:
        raise invalid(f"it is not UTF-8 (byte {error.start})") from error
    except RefusedError as error:
        raise invalid(str(error)) from error


@functools.cache
def decoder() -> json.JSONDecoder:
    """Return the strict decoder; it raises JSONDecodeError, and RefusedError for JSON that is not accepted."""
    return json.JSONDecoder(
        object_pairs_hook=unrepeated, parse_int=_integer, parse_float=_float, parse_constant=_constant
    )


def require_shallow(text: bytes) -> None:
    """Raise Invalid for a JSON text that is nested too deeply."""
    if _deepest(text) > MAXIMUM_DEPTH:
        raise too_deep()


def too_deep() -> Invalid:
    """Return the error of a body that is nested too deeply."""
    return invalid(f"it is nested deeper than {MAXIMUM_DEPTH} levels")


def missing() -> Invalid:
    """Return the error of an empty body."""
    return Invalid.whole("[missing]", "The request body is missing.")


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the value of a JSON text that must be an object. Raises Invalid."""
    value = parse(body)
    if not isinstance(value, dict):
        raise invalid("a JSON object is expected")
    return value


def invalid(cause: str) -> Invalid:
    """Return the error of a body that is not valid or not acceptable JSON."""
    return Invalid.whole("[invalidJSON]", f"The request body is not valid JSON: {cause}.")


def _deepest(body: bytes) -> int:
    """Return the depth of the brackets outside of strings, up to the first one that is too deep."""
    deepest = depth = 0
    for bracket in _TEXTS.sub(b"", body).translate(None, _NO_BRACKETS):
        if bracket in b"{[":
            depth += 1
            deepest = max(deepest, depth)
            if deepest > MAXIMUM_DEPTH:
                break
        else:
            depth -= 1
    return deepest


def unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of these members. Raises RefusedError for a repeated or unstorable name."""
    value = dict(pairs)
    if len(value) != len(pairs):
        raise RefusedError("a name occurs twice in one object")
    for name, member in pairs:
        if "\x00" in name:
            raise RefusedError("a name holds a NUL")
        _check_text(name)
        _check_texts(member)
    return value


def _check_texts(member: Any) -> None:
    if isinstance(member, str):
        _check_text(member)
    elif isinstance(member, list):
        for item in member:
            _check_texts(item)


def _check_text(text: str) -> None:
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise RefusedError("a text holds half of a surrogate pair")


def _integer(digits: str) -> int:
    if len(digits) > 20 or abs(int(digits)) > _MAXIMUM_INTEGER:
        raise RefusedError("a number does not fit into 64 bits")
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise RefusedError("a number is out of range")
    return value


def _constant(name: str) -> float:
    raise RefusedError(f"{name} is not JSON")
