"""The commands rotate-master-key and reencrypt."""

from __future__ import annotations

import click

from identity import termination
from identity.cli import settings
from identity.cli.settings import Options
from identity.config import Config


@click.command("rotate-master-key")
@click.pass_obj
def rotate(options: Options) -> None:
    """Add a new key at the top of the master key file."""
    loaded = settings.load(options)
    settings.app().rotate_master_key(loaded)
    click.echo(
        f"{loaded.master_key_file}: added a new key. Copy the file to every machine of this instance, restart all"
        f" processes, then run: {options.program} reencrypt"
    )


@click.command("reencrypt")
@click.pass_obj
def reencrypt(options: Options) -> None:
    """Encrypt all stored secrets with the newest master key."""
    loaded = settings.load(options)
    count = termination.run(_reencrypted(loaded))
    click.echo(f"{count} documents re-encrypted; older keys may now be removed from {loaded.master_key_file}")


async def _reencrypted(loaded: Config) -> int:
    async with settings.connected(loaded, may_share=True) as connected:
        return int(await settings.app().reencrypt(connected))
