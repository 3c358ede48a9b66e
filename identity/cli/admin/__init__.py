"""The commands `identity admin`: recovery, support and daily administration."""

from __future__ import annotations

import click

from identity.cli.admin import keys, log_tails, objects, sharding, tokens, users, webhooks


@click.group("admin")
def commands() -> None:
    """Administer an instance through its API, or with --local straight on its stores."""


for _command in (*users.COMMANDS, *keys.COMMANDS, *objects.COMMANDS, *log_tails.COMMANDS, *tokens.COMMANDS):
    commands.add_command(_command)
commands.add_command(sharding.shard)
commands.add_command(webhooks.commands)
