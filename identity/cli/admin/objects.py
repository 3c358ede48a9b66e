"""list and show: any kind of object of the API."""

from __future__ import annotations

import click

from identity.cli import kinds
from identity.cli.api import Api
from identity.cli.connection import with_api
from identity.cli.output import Output

_COLUMNS = ("id", "name", "tenantId", "lastUpdateInstant")
_USER_COLUMNS = ("id", "email", "username", "tenantId", "active", "lastLoginInstant")


@click.command("list")
@click.argument("kind", type=click.Choice(kinds.NAMES))
@click.argument("text", required=False)
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Print at most this many.")
@with_api
def list_objects(api: Api, output: Output, kind: str, text: str | None, limit: int) -> None:
    """List objects of a kind, or those whose name contains TEXT (users: that match a query string)."""
    rows = kinds.find_all(api, kind, text, limit)
    output.rows(_USER_COLUMNS if kind == kinds.USER else _COLUMNS, rows)


@click.command("show")
@click.argument("kind", type=click.Choice(kinds.NAMES))
@click.argument("wanted", metavar="ID|NAME")
@with_api
def show(api: Api, output: Output, kind: str, wanted: str) -> None:
    """Show an object by its id or name (users: login id)."""
    output.object(kinds.get(api, kind, wanted))


COMMANDS = (list_objects, show)
