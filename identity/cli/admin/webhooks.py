"""webhook replay: deliver events again."""

from __future__ import annotations

import datetime
import re
import time
from typing import Final

import click

from identity.cli import kinds
from identity.cli.api import Api
from identity.cli.connection import with_api
from identity.cli.output import Output

_UNITS: Final = {"m": 60, "h": 3600, "d": 86_400}


class _Instant(click.ParamType[int]):
    """An instant as ISO 8601, or as a duration before now: 30m, 2h, 1d."""

    name = "INSTANT"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if duration := re.fullmatch(r"(\d+)([mhd])", text):
            return round((time.time() - int(duration[1]) * _UNITS[duration[2]]) * 1000)
        try:
            moment = datetime.datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text} is neither ISO 8601 nor a duration such as 30m, 2h or 1d", param, ctx)
        return round((moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp() * 1000)


@click.group("webhook")
def commands() -> None:
    """Deliveries of webhooks."""


@commands.command("replay")
@click.option("--webhook", metavar="ID", help="Webhook to deliver to. Required with --since.")
@click.option("--event", metavar="ID", help="Deliver this event again, to all its webhooks or to the one of --webhook.")
@click.option("--since", type=_Instant(), help="Deliver again what failed since then: ISO 8601, or 30m, 2h, 1d.")
@click.option("--until", type=_Instant(), help="End of the period. Default: now.")
@with_api
def replay(
    api: Api, output: Output, webhook: str | None, event: str | None, since: int | None, until: int | None
) -> None:
    """Deliver an event again, or all failed deliveries of a webhook since an instant. Repeating it is harmless."""
    if (event is None) == (since is None):
        raise click.UsageError("give either --event or --since")
    if since is not None and webhook is None:
        raise click.UsageError("--since requires --webhook")
    target = "" if webhook is None else f"/{kinds.get(api, 'webhook', webhook)['id']}"
    period = {"startInstant": since, **({} if until is None else {"endInstant": until})}
    path, body = ("resend", {"eventId": event}) if since is None else ("recover", period)
    count = api.send("POST", f"/api/webhook{target}/{path}", body)["deliveries"]
    output.message(f"{count} deliveries queued.", deliveries=count)
