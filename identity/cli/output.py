"""What commands print: tables for people, JSON for programs."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table


@dataclasses.dataclass(frozen=True, slots=True)
class Output:
    """Prints the results of a command in one of two forms."""

    is_json: bool

    def rows(self, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
        """Print a table of the columns, or the complete rows as JSON."""
        if self.is_json:
            _print_json(list(rows))
            return
        table = Table(*columns)
        for row in rows:
            table.add_row(*(_cell(name, row.get(name)) for name in columns))
        _console().print(table)

    def object(self, value: Mapping[str, Any]) -> None:
        """Print one object: a line for each member, or JSON."""
        if self.is_json:
            _print_json(value)
            return
        table = Table(box=None, show_header=False)
        for name, member in _flat(value):
            table.add_row(f"[bold]{name}", _cell(name.rpartition(".")[2], member))
        _console().print(table)

    def message(self, text: str, **members: Any) -> None:
        """Print a sentence, or its members as JSON."""
        if self.is_json:
            _print_json(members)
        else:
            click.echo(text)

    def warning(self, text: str) -> None:
        """Print a warning to standard error."""
        click.echo(f"Warning: {text}", err=True)

    @contextlib.contextmanager
    def progress(self, label: str, total: int) -> Iterator[Progress]:
        """Show a bar on a terminal; the block advances the only task."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True, disable=self.is_json) as bar:
            bar.add_task(label, total=total)
            yield bar


def instant(milliseconds: Any) -> str:
    """Return an instant of the API as ISO 8601, in UTC and with seconds."""
    try:
        moment = datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return str(milliseconds)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _console() -> Console:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 10_000  # programs and files get every value as a whole
    return console


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, member in value.items():
        if isinstance(member, Mapping) and member:
            yield from _flat(member, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", member


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool) and name.lower().endswith(("instant", "expiry")):
        return instant(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.replace("[", r"\[")


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))
