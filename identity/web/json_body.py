"""Reading JSON from a request, strictly: what passes here can be stored and shown again without surprises."""

from __future__ import annotations

import json
import re
from typing import Any

from identity.errors import Invalid

MAXIMUM_DEPTH = 40
_MAXIMUM_INTEGER = 2**63 - 1

# Possessive, and content with a text that never ends: no body makes it look twice at a byte.
_TEXTS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"{}[]")


class _RefusedError(ValueError):
    pass


def parse(body: bytes) -> Any:
    """The value of a JSON text in UTF-8.

    Raises Invalid with `[missing]` for an empty body, and `[invalidJSON]` for malformed JSON, repeated or unstorable
    names, NaN, numbers beyond 64 bits, lone surrogates and nesting deeper than 40.
    """
    if not body.strip():
        raise Invalid.whole("[missing]", "The request body is missing.")
    if _deepest(body) > MAXIMUM_DEPTH:
        raise _invalid(f"it is nested deeper than {MAXIMUM_DEPTH} levels")
    try:
        return json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_constant,
        )
    except json.JSONDecodeError as error:
        raise _invalid(f"{error.msg} at line {error.lineno} column {error.colno}") from error
    except UnicodeDecodeError as error:
        raise _invalid(f"it is not UTF-8 (byte {error.start})") from error
    except _RefusedError as error:
        raise _invalid(str(error)) from error


def parse_object(body: bytes) -> dict[str, Any]:
    """As `parse`, for bodies that must be an object."""
    value = parse(body)
    if not isinstance(value, dict):
        raise _invalid("a JSON object is expected")
    return value


def _invalid(cause: str) -> Invalid:
    return Invalid.whole("[invalidJSON]", f"The request body is not valid JSON: {cause}.")


def _deepest(body: bytes) -> int:
    """How deep the brackets outside of texts go; counting stops where it is too deep."""
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


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _RefusedError("a name occurs twice in one object")
    for name, member in pairs:
        if "\x00" in name:
            raise _RefusedError("a name holds a NUL")
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
        raise _RefusedError("a text holds half of a surrogate pair")


def _integer(digits: str) -> int:
    if len(digits) > 20 or abs(int(digits)) > _MAXIMUM_INTEGER:
        raise _RefusedError("a number does not fit into 64 bits")
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise _RefusedError("a number is out of range")
    return value


def _constant(name: str) -> float:
    raise _RefusedError(f"{name} is not JSON")
