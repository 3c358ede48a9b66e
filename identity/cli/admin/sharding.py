"""The command shard."""

from __future__ import annotations

import json
import os

import click
import uvloop

from identity import config
from identity.cli.settings import Options, app


@click.command("shard")
@click.option("--execute", is_flag=True, help="Run the commands on the mongos of mongodb.uri instead of printing them.")
@click.pass_obj
def shard(options: Options, *, execute: bool) -> None:
    """Shard the large collections by tenant. Untried on a sharded cluster: try it on a copy of the data first."""
    settings = config.load(options.config, os.environ)
    if execute:
        for command in uvloop.run(app().shard(settings)):
            click.echo(f"done: {json.dumps(command)}")
        return
    click.echo("// mongosh, connected to a mongos")
    for command in app().shard_commands(settings):
        click.echo(f"db.adminCommand({json.dumps(command)})")
