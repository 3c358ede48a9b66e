"""Incremental parsing of JSON bodies with one long list, such as imports of a hundred megabytes.

The items are passed on one by one, and the parser yields to other requests. An item may be as large as an ordinary
body.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn

from identity.background_tasks import CooperativeYield
from identity.call import Document
from identity.web import json_body

LARGEST_ITEM: Final = 2**20
"""The maximum size in bytes of one item, or of one member other than the list."""

_TOO_LONG = f"one of its items has more than {LARGEST_ITEM} bytes"
_PIECE = 64 * 2**10
_BLANKS = re.compile(r"[ \t\n\r]*+")

Take = Callable[[Any], None]
"""Receives each item; an exception ends the parsing."""


async def read(body: bytes, name: str, take: Take) -> Document:
    """Pass every item of the list `name` to `take`; return the other members, and `name` if it is not such a list.

    Raises Invalid as `json_body.parse_object` does.
    """
    if not body.strip():
        raise json_body.missing()
    reader = _Reader(body)
    try:
        return await reader.members(name, take)
    except json_body.RefusedError as error:
        raise json_body.invalid(str(error)) from error
    except RecursionError as error:
        raise json_body.too_deep() from error


class _Reader:
    """A position in a JSON text; `_text` is the decoded part, which starts at `_offset` bytes."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._scan = json_body.decoder().raw_decode
        self._text = ""
        self._at = 0
        self._offset = 0
        self._read = 0
        self._pace = CooperativeYield()

    async def members(self, name: str, take: Take) -> Document:
        if self._next() != "{":
            raise json_body.invalid("a JSON object is expected")
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
        json_body.unrepeated(names)
        return json_body.unrepeated(pairs)

    async def _items(self, take: Take) -> int:
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
                        raise json_body.RefusedError(_TOO_LONG)
                    json_body.require_shallow(raw)
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
                raise json_body.RefusedError(f"it has more than {LARGEST_ITEM} blanks in a row")
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
            raise json_body.invalid("it is not UTF-8") from error

    def _fail(self, what: str) -> NoReturn:
        if self._is_long:
            raise json_body.RefusedError(_TOO_LONG)
        place = self._offset + self._bytes_before()
        line = self._body.count(b"\n", 0, place) + 1
        column = place - self._body.rfind(b"\n", 0, place)
        raise json_body.invalid(f"{what} at line {line} column {column}")


def _blanks_end(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    assert match is not None
    return match.end()
