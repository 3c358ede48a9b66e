"""The commands of `identity`, and how their errors end the process."""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from identity import __version__, shipped_files
from identity.cli import exit_codes, memory, settings
from identity.cli import run as run_command
from identity.config import ConfigError
from identity.errors import StartupError, Unavailable

_COMMANDS: Final[Mapping[str, str]] = {
    "run": "run:command",
    "check-config": "check_config:command",
    "rotate-master-key": "master_keys:rotate",
    "reencrypt": "master_keys:reencrypt",
    "release": "release:command",
    "doctor": "doctor:command",
    "deploy-files": "deploy_files:command",
    "admin": "admin:commands",
    "export": "declarative.commands:export",
    "plan": "declarative.commands:plan",
    "apply": "declarative.commands:apply",
    "import": "migration.commands:command",
    "user-data": "user_data:commands",
}
"""The commands by name, as module:attribute. They are imported when they are needed, for a fast start."""


class _Commands(click.Group):
    """A group whose commands are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(f"identity.cli.{module}"), attribute)
        return command


@click.group(cls=_Commands, invoke_without_command=True)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Folder of identity.yaml, or a file. Default: config/ in the current folder, or else the shipped one.",
)
@click.option("--role", type=click.Choice(run_command.ROLES), default="all", help="The same as for run.")
@click.pass_context
def commands(context: click.Context, config: Path | None, role: str) -> int | None:
    """Run the identity service, or one of its commands. Without a command: run."""
    context.obj = settings.Options(context.info_name or "identity", config or settings.default_config())
    return run_command.serve(context.obj, role) if context.invoked_subcommand is None else None


@commands.command()
def version() -> None:
    """Print the version."""
    click.echo(__version__)


@commands.command("config-folder")
def config_folder() -> None:
    """Print the folder of the shipped configuration, to copy it."""
    click.echo(shipped_files.folder("config"))


def main(arguments: Sequence[str], program: str = "identity") -> int:
    """Run the command line and return the exit code. Errors that an operator can correct print a message."""
    memory.use_one_heap()
    try:
        return int(commands.main(args=list(arguments), prog_name=program, standalone_mode=False) or exit_codes.OK)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except ConfigError as error:
        click.echo(f"{program}: the configuration is not usable:\n{error}", err=True)
        return exit_codes.CONFIG
    except StartupError as error:
        click.echo(f"{program}: {error}", err=True)
        return exit_codes.FAILURE
    except (click.Abort, KeyboardInterrupt):
        return 128 + signal.SIGINT
    except Exception as error:
        failure = _store_failure(error)
        if failure is None:
            raise
        click.echo(f"{program}: {failure}", err=True)
        return exit_codes.FAILURE


def _store_failure(error: Exception) -> str | None:
    """Return the message for an error of a store that arose in a command; None for any other error."""
    from identity.store import mongo, redis  # noqa: PLC0415 (loaded by the commands that use them)

    for kinds, store, setting in (
        (mongo.STORE_ERRORS, "MongoDB", "mongodb.uri"),
        (redis.STORE_ERRORS, "Redis", "redis.url"),
    ):
        if isinstance(error, kinds):
            reason = mongo.short(error) or type(error).__name__
            return f"{store} failed during the command ({setting}): {reason}; examine it with: identity check-config"
    return str(error) if isinstance(error, Unavailable) else None


def entry_point() -> None:
    """Run the console script `identity`."""
    sys.exit(main(sys.argv[1:]))
