"""tail: the newest logins, event log rows or audit log rows, and with --follow those to come."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping
from typing import Any, Final

import click

from identity.cli.api import Api, Json
from identity.cli.connection import with_api
from identity.cli.output import Output, instant

_POLL_SECONDS: Final = 2.0


@dataclasses.dataclass(frozen=True, slots=True)
class _Log:
    path: str
    plural: str
    instant: str
    columns: tuple[str, ...]


_LOGIN_COLUMNS: Final = ("instant", "loginId", "applicationName", "ipAddress", "userId")
_EVENT_COLUMNS: Final = ("id", "insertInstant", "type", "message")
_AUDIT_COLUMNS: Final = ("id", "insertInstant", "insertUser", "message")
_LOGS: Final[Mapping[str, _Log]] = {
    "logins": _Log("/api/system/login-record/search", "logins", "instant", _LOGIN_COLUMNS),
    "events": _Log("/api/system/event-log/search", "eventLogs", "insertInstant", _EVENT_COLUMNS),
    "audit": _Log("/api/system/audit-log/search", "auditLogs", "insertInstant", _AUDIT_COLUMNS),
}


@click.command("tail")
@click.argument("log", type=click.Choice(tuple(_LOGS)))
@click.option("-n", "--number", type=click.IntRange(0, 1000), default=20, show_default=True, help="Number of rows.")
@click.option("-f", "--follow", is_flag=True, help="Print new rows until the command is interrupted.")
@with_api
def tail(api: Api, output: Output, log: str, number: int, *, follow: bool) -> None:
    """Print the newest rows of a log, the oldest of them first."""
    wanted = _LOGS[log]
    rows = _newest(api, wanted, number, None) if number else []
    if not follow:
        output.rows(wanted.columns, rows)
        return
    start = rows[-1][wanted.instant] if rows else round(time.time() * 1000)
    seen = {_identity(row) for row in rows}
    _print_lines(output, wanted, rows)
    while True:
        time.sleep(_POLL_SECONDS)
        fresh = [row for row in _newest(api, wanted, 1000, start) if _identity(row) not in seen]
        seen |= {_identity(row) for row in fresh}
        _print_lines(output, wanted, fresh)


COMMANDS = (tail,)


def _newest(api: Api, log: _Log, number: int, start: int | None) -> list[Json]:
    criteria: dict[str, Any] = {"numberOfResults": number, **({} if start is None else {"start": start})}
    rows: list[Json] = api.send("POST", log.path, {"search": criteria}).get(log.plural, [])
    return sorted(rows, key=lambda row: row[log.instant])


def _identity(row: Json) -> str:
    return json.dumps(row.get("id") or row, sort_keys=True)


def _print_lines(output: Output, log: _Log, rows: list[Json]) -> None:
    """Print a line for each row: with --json the row itself."""
    for row in rows:
        values = (instant(row[name]) if name == log.instant else str(row.get(name, "-")) for name in log.columns)
        click.echo(json.dumps(row, ensure_ascii=False) if output.is_json else "  ".join(values))
