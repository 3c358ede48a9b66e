"""A list of objects in a JSON file, decoded one by one, so that memory does not grow with the file."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import IO, Any, Final

_PIECE: Final = 65_536
_MAXIMUM_VALUE: Final = 1_048_576
"""The characters of one value."""
_BLANKS: Final = re.compile(r"[ \t\n\r]*+")
_DECODER: Final = json.JSONDecoder()


def items(file: IO[bytes], name: str) -> Iterator[Any]:
    """Yield the items of a list, or of the list `name` of an object.

    Raises ValueError, and RecursionError for a value that is nested too deeply.
    """
    text = io.TextIOWrapper(file, "utf-8", newline="")
    try:
        yield from _items(_Reader(text), name)
    finally:
        text.detach()


def _items(reader: _Reader, name: str) -> Iterator[Any]:
    is_object = reader.peek() == "{"
    if is_object:
        reader.expect("{")
        while reader.key() != name:
            reader.value()
            reader.expect(",")
    reader.expect("[")
    is_first = True
    while reader.peek() != "]":
        if not is_first:
            reader.expect(",")
        is_first = False
        yield reader.value()
    reader.expect("]")
    if is_object:
        while reader.peek() == ",":
            reader.expect(",")
            reader.key()
            reader.value()
        reader.expect("}")
    if reader.peek():
        raise ValueError("there is text after its end")


class _Reader:
    """A position in a text, of which one piece is in memory."""

    def __init__(self, text: IO[str]) -> None:
        self._source = text
        self._text = ""
        self._at = 0

    def peek(self) -> str:
        """Return the next character that is not blank; empty at the end."""
        while True:
            blanks = _BLANKS.match(self._text, self._at)
            self._at = blanks.end() if blanks is not None else self._at
            if self._at < len(self._text) or not self._read_more():
                return self._text[self._at : self._at + 1]

    def expect(self, character: str) -> None:
        """Consume a character."""
        if self.peek() != character:
            raise ValueError(f"{character!r} is expected instead of {self.peek()!r}")
        self._at += 1

    def key(self) -> Any:
        """Consume the name of a member with its colon."""
        found = self.value()
        self.expect(":")
        return found

    def value(self) -> Any:
        """Consume a value."""
        self.peek()
        while True:
            try:
                found, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError:
                if not self._read_more():
                    raise
                continue
            # A number at the end of the piece may be incomplete.
            if end < len(self._text) or not self._read_more():
                self._at = end
                return found

    def _read_more(self) -> bool:
        """Replace the consumed text by the next piece; return False at the end of the file."""
        if len(self._text) - self._at > _MAXIMUM_VALUE:
            raise ValueError(f"one of its values has more than {_MAXIMUM_VALUE} characters, or is not valid")
        piece = self._source.read(_PIECE)
        if piece:
            self._text, self._at = self._text[self._at :] + piece, 0
        return bool(piece)
