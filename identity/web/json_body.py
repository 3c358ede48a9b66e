"""Strict parsing of JSON bodies, at once or item by item: every accepted value can be stored and returned unchanged."""

from __future__ import annotations

import codecs
import functools
import json
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn

from identity.background_tasks import CooperativeYield
from identity.call import Document
from identity.errors import Invalid

MAXIMUM_DEPTH = 40
_MAXIMUM_INTEGER = 2**63 - 1
_MAXIMUM_IN_JAVASCRIPT = "9223372036854776000"
"""How JavaScript writes the maximum, which the published API uses for times without end."""

# Possessive, and matches a text without an end as well, so that no body makes it backtrack.
_TEXTS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"{}[]")
LARGEST_ITEM: Final = 2**20
"""The maximum size in bytes of one item, or of one member other than the list."""

_TOO_LONG = f"one of its items has more than {LARGEST_ITEM} bytes"
_PIECE = 64 * 2**10
_BLANKS = re.compile(r"[ \t\n\r]*+")
TakeItem = Callable[[Any], None]
"""Receives each item; an exception ends the parsing."""


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
    if digits == _MAXIMUM_IN_JAVASCRIPT:
        return _MAXIMUM_INTEGER
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


async def read_long_list(body: bytes, name: str, take: TakeItem) -> Document:
    """Pass every item of the list `name` to `take`; return the other members, and `name` if it is not such a list.

    The parser yields to other requests, so that a list may have a hundred megabytes. An item may be as large as an
    ordinary body.

    Raises Invalid as `json_body.parse_object` does.
    """
    if not body.strip():
        raise missing()
    reader = _Reader(body)
    try:
        return await reader.members(name, take)
    except RefusedError as error:
        raise invalid(str(error)) from error
    except RecursionError as error:
        raise too_deep() from error


class _Reader:
    """A position in a JSON text; `_text` is the decoded part, which starts at `_offset` bytes."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._scan = decoder().raw_decode
        self._text = ""
        self._at = 0
        self._offset = 0
        self._read = 0
        self._pace = CooperativeYield()

    async def members(self, name: str, take: TakeItem) -> Document:
        if self._next() != "{":
            raise invalid("a JSON object is expected")
        self._at += 1
        pairs: list[tuple[str, Any]] = []
        names: list[tuple[str, None]] = []
        while self._next() != "}":
            if names:
                self._expect(",")
            key = self._key()
            names.append((key, None))
            self._expect(":")
            if key != name or self._next() != "[":
                pairs.append((key, self._value()))
            elif not await self._items(take):
                pairs.append((key, []))
        self._at += 1
        if self._next():
            self._fail("Extra data")
        unrepeated(names)
        return unrepeated(pairs)

    async def _items(self, take: TakeItem) -> int:
        """Pass on every item of the list that begins here; return their number."""
        self._at += 1
        count = 0
        while self._next() != "]":
            if count:
                self._expect(",")
            count += 1
            take(self._value())
            await self._pace.step()
        self._at += 1
        return count

    def _key(self) -> str:
        if self._next() != '"':
            self._fail("Expecting property name enclosed in double quotes")
        return str(self._value())

    def _expect(self, character: str) -> None:
        if self._next() != character:
            self._fail(f"Expecting {character!r} delimiter")
        self._at += 1

    def _value(self) -> Any:
        """Return the value that begins here; decode more of the text until it is complete."""
        self._next()
        while True:
            try:
                value, end = self._scan(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._is_at_end or self._is_long:
                    self._at = error.pos
                    self._fail(error.msg)
            else:
                # A number at the end of the decoded part may be incomplete.
                if end < len(self._text) or self._is_at_end:
                    raw = self._text[self._at : end].encode()
                    if len(raw) > LARGEST_ITEM:
                        raise RefusedError(_TOO_LONG)
                    require_shallow(raw)
                    self._at = end
                    return value
            self._more()

    @property
    def _is_at_end(self) -> bool:
        return self._read >= len(self._body)

    @property
    def _is_long(self) -> bool:
        return self._read - self._offset > LARGEST_ITEM

    def _next(self) -> str:
        """Return the next character that is not blank without consuming it, or an empty text at the end."""
        blanks = 0
        while True:
            at = _blanks_end(self._text, self._at)
            blanks, self._at = blanks + at - self._at, at
            if at < len(self._text):
                return self._text[at]
            if self._is_at_end:
                return ""
            if blanks > LARGEST_ITEM:
                raise RefusedError(f"it has more than {LARGEST_ITEM} blanks in a row")
            self._more()

    def _bytes_before(self) -> int:
        return len(self._text[: self._at].encode())

    def _more(self) -> None:
        """Drop the consumed text, and decode as much as is left of it, at least one piece."""
        self._offset += self._bytes_before()
        self._text, self._at = self._text[self._at :], 0
        piece = self._body[self._read : self._read + max(_PIECE, len(self._text))]
        self._read += len(piece)
        try:
            self._text += self._decoder.decode(piece, self._is_at_end)
        except UnicodeDecodeError as error:
            raise invalid("it is not UTF-8") from error

    def _fail(self, what: str) -> NoReturn:
        if self._is_long:
            raise RefusedError(_TOO_LONG)
        place = self._offset + self._bytes_before()
        line = self._body.count(b"\n", 0, place) + 1
        column = place - self._body.rfind(b"\n", 0, place)
        raise invalid(f"{what} at line {line} column {column}")


def _blanks_end(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    assert match is not None
    return match.end()
