"""Logs as zipped CSV files, for spreadsheets."""

from __future__ import annotations

import csv
import dataclasses
import io
import tempfile
import zipfile
import zoneinfo
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import IO, Any

import orjson

from identity.call import Document
from identity.domain.objects import date_patterns
from identity.domain.objects import search as searches
from identity.domain.objects.resource_definition import SearchRules
from identity.domain.objects.search import SearchQuery
from identity.errors import FieldError, Invalid
from identity.instants import Instant, as_datetime
from identity.services import Services
from identity.store.mongo import BULK_SECONDS
from identity.store.store_circuit_breaker import time_limit

_DATE_PATTERN = "M/d/yyyy hh:mm:ss a z"
_IN_MEMORY_BYTES = 1_048_576
_FLUSH_CHARACTERS = 262_144

_STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""The first characters of what spreadsheets treat as a formula, including full-width forms."""

_MARK = "'"
"""The prefix that quotes such a cell, and one that starts with it, so that programs can always remove one prefix."""


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """A kind of export: the name of the file, its columns, those that hold instants, and the search rules."""

    file_name: str
    columns: Sequence[str]
    instants: frozenset[str]
    search: SearchRules


@dataclasses.dataclass(frozen=True, slots=True)
class Export:
    """A requested export, with the format of instants."""

    kind: Kind
    query: SearchQuery
    write_instant: Callable[[Instant], str]


def read(services: Services, kind: Kind, request: Mapping[str, Any], given: Mapping[str, Any], prefix: str) -> Export:
    """Return the export that a request with the given criteria asks for. Raises Invalid with all errors."""
    errors: list[FieldError] = []
    write = _pattern(request.get("dateTimeSecondsFormat") or _DATE_PATTERN, errors)
    zone = _zone(request.get("zoneId") or services.configuration.system.settings.report_timezone, errors)
    try:
        query = searches.read(kind.search, given, prefix)
    except Invalid as invalid:
        raise Invalid([*errors, *invalid.fields]) from invalid
    if errors or write is None or zone is None:
        raise Invalid(errors)
    return Export(kind, query, lambda instant: write(as_datetime(instant).astimezone(zone)))


async def export(wanted: Export, rows: AsyncIterator[Document]) -> IO[bytes]:
    """Return a temporary file with the zip of all rows; the caller closes it.

    The file grows on disk rather than in memory, and is complete before the first byte is sent.
    """
    file = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115 (handed to the caller)
    try:
        with (
            time_limit(BULK_SECONDS),
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
            archive.open(f"{wanted.kind.file_name}.csv", "w") as out,
        ):
            await _write_rows(wanted, rows, out)
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file


async def _write_rows(wanted: Export, rows: AsyncIterator[Document], out: IO[bytes]) -> None:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(wanted.kind.columns)
    async for row in rows:
        writer.writerow([_cell(name, row, wanted) for name in wanted.kind.columns])
        if text.tell() > _FLUSH_CHARACTERS:
            _move(text, out)
    _move(text, out)


def _move(text: io.StringIO, out: IO[bytes]) -> None:
    out.write(text.getvalue().encode())
    text.seek(0)
    text.truncate()


def _cell(name: str, row: Document, wanted: Export) -> str:
    value = row.get(name)
    if value is None:
        return ""
    if name in wanted.kind.instants:
        value = wanted.write_instant(value)
    elif isinstance(value, dict):
        value = orjson.dumps(value).decode()
    return _harmless(str(value))


def harmless_row(values: Sequence[Any]) -> list[str]:
    """Return the cells of a row, which no spreadsheet runs as formulas."""
    return ["" if value is None else _harmless(str(value)) for value in values]


def _harmless(text: str) -> str:
    """Return the text, quoted if a spreadsheet would run it as a formula (CSV injection)."""
    return f"{_MARK}{text}" if text.lstrip(" ").startswith((*_STARTS_A_FORMULA, _MARK)) else text


def _pattern(pattern: object, errors: list[FieldError]) -> date_patterns.Write | None:
    try:
        return date_patterns.compiled(str(pattern))
    except ValueError as error:
        name = "dateTimeSecondsFormat"
        errors.append(FieldError.invalid(name, f"value is not a date pattern: {error}"))
        return None


def _zone(name: object, errors: list[FieldError]) -> zoneinfo.ZoneInfo | None:
    try:
        return zoneinfo.ZoneInfo(str(name))
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        errors.append(FieldError.invalid("zoneId", "value is not the name of a time zone"))
        return None
