"""Files of users for the console: CSV and JSON read into users of an import, and users written as rows.

The users of a JSON file are decoded one by one, so that memory does not grow with the file.
"""

from __future__ import annotations

import codecs
import csv
import dataclasses
import io
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, Final

from identity.call import Document

COLUMNS: Final = (
    "id", "tenantId", "email", "username", "phoneNumber", "fullName", "firstName", "middleName", "lastName",
    "birthDate", "mobilePhone", "preferredLanguages", "timezone", "active", "verified", "insertInstant", "expiry",
    "data",
)  # fmt: skip
"""The columns of an exported file; an import accepts them all."""

_LOOK_AHEAD_BYTES: Final = 4096
_MAXIMUM_LINE: Final = 1_048_576
_TRUE: Final = frozenset({"1", "true", "yes"})
_FALSE: Final = frozenset({"0", "false", "no"})


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One user of a file, with its place in the file for messages."""

    place: str
    user: Document


class UnreadableFileError(ValueError):
    """The file, or one of its values, cannot be read; the message says where and why."""


def read(file: IO[bytes], members: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the users of a CSV or JSON file; `members` are their JSON Schemas. Raises UnreadableFileError."""
    file.seek(0)
    start = file.read(_LOOK_AHEAD_BYTES)
    mark = codecs.BOM_UTF8 if start.startswith(codecs.BOM_UTF8) else b""
    file.seek(len(mark))
    first = start.removeprefix(mark).lstrip()[:1]
    if first in {b"[", b"{"}:
        return _read_json(file)
    return _read_csv(file, members)


def _read_json(file: IO[bytes]) -> Iterator[Row]:
    users = enumerate(json_items(file, "users"), 1)
    while True:
        try:
            number, user = next(users)
        except StopIteration:
            return
        except (ValueError, RecursionError) as error:
            raise UnreadableFileError(f"The file is not a JSON list of users: {error}.") from error
        if not isinstance(user, dict):
            raise UnreadableFileError(f"User {number} is not an object.")
        yield Row(f"User {number}", user)


def _lines(text: IO[str]) -> Iterator[str]:
    while line := text.readline(_MAXIMUM_LINE):
        if len(line) == _MAXIMUM_LINE:
            raise UnreadableFileError(f"The file has a line of more than {_MAXIMUM_LINE} characters.")
        yield line


def _read_csv(file: IO[bytes], members: Mapping[str, Any]) -> Iterator[Row]:
    text = io.TextIOWrapper(file, "utf-8", "replace", newline="")
    lines = _lines(text)
    first = next(lines, "")
    delimiter = max(",;\t", key=first.count)
    reader = csv.reader(itertools.chain([first], lines), delimiter=delimiter, strict=True)
    try:
        names = [name.strip() for name in next(reader, [])]
        _require_known(names, members)
        for cells in reader:
            if len(cells) > len(names):
                raise UnreadableFileError(f"Line {reader.line_num} has more values than the first line has names.")
            if any(cells):
                user: Document = {}
                for name, cell in zip(names, cells, strict=False):
                    if cell.strip():
                        _set(user, name, _value(cell.strip(), members, name, reader.line_num))
                yield Row(f"Line {reader.line_num}", user)
    except csv.Error as error:
        raise UnreadableFileError(f"Line {reader.line_num} is not CSV: {error}.") from error
    finally:
        text.detach()


def _require_known(names: Sequence[str], members: Mapping[str, Any]) -> None:
    if unknown := [name for name in names if name.partition(".")[0] not in members]:
        raise UnreadableFileError(f"The first line must name the values; users have no {', '.join(unknown)[:200]}.")
    if nested := [name for name in names if "." in name and not name.startswith("data.")]:
        raise UnreadableFileError(f"Only values of data may be nested, not {', '.join(nested)[:200]}.")
    if len({*names}) < len(names):
        raise UnreadableFileError("The first line names a value twice.")


def _set(user: Document, name: str, value: Any) -> None:
    first, _, rest = name.partition(".")
    if not rest:
        user[first] = {**user[first], **value} if isinstance(user.get(first), dict) else value
        return
    inner = user.setdefault(first, {})
    inner[rest] = value


def _value(text: str, members: Mapping[str, Any], name: str, line: int) -> Any:
    """Return the value of a cell, by the type of its member."""
    kind = "string" if "." in name else members[name].get("type", "string")
    if kind == "boolean" and text.lower() in _TRUE | _FALSE:
        return text.lower() in _TRUE
    if kind == "integer":
        return int(text) if text.removeprefix("-").isdecimal() and len(text) < 20 else text
    if name == "preferredLanguages":
        return text.split()
    if kind in {"array", "object"}:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UnreadableFileError(f"Line {line}: {name} is not valid JSON.") from error
        if not isinstance(found, list if kind == "array" else dict):
            raise UnreadableFileError(f"Line {line}: {name} must be a JSON {kind}.")
        return found
    return text


def cells(user: Document) -> list[Any]:
    """Return the values of a user for the columns of an exported file."""
    shown = {**user, "preferredLanguages": " ".join(user.get("preferredLanguages") or ())}
    return [json.dumps(value) if isinstance(value := shown.get(name), dict | bool) else value for name in COLUMNS]


_PIECE: Final = 65_536
_MAXIMUM_VALUE: Final = 1_048_576
"""The characters of one value."""
_BLANKS: Final = re.compile(r"[ \t\n\r]*+")
_DECODER: Final = json.JSONDecoder()


def json_items(file: IO[bytes], name: str) -> Iterator[Any]:
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
