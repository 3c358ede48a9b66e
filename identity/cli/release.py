"""The command release: let quiesced processes send again."""

from __future__ import annotations

import click

from identity import termination
from identity.cli import settings
from identity.cli.settings import Options
from identity.config import Config


@click.command("release")
@click.pass_obj
def command(options: Options) -> None:
    """Let the processes that run with --quiesced send: webhooks, mails, text messages and logout tokens."""
    termination.run(_released(settings.load(options)))
    click.echo("Released: quiesced processes of this instance begin to send within seconds.")


async def _released(loaded: Config) -> None:
    async with settings.connected(loaded, may_share=True) as connected:
        await settings.app().release(connected)
