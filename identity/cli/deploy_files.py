"""The command deploy-files: the unit, the configuration of nginx, the alerts and the dashboard of this version."""

from __future__ import annotations

from pathlib import Path

import click

from identity.errors import StartupError
from identity.shipped_files import DEPLOY_FILES, deploy_file


@click.command("deploy-files")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--overwrite", is_flag=True, help="Replace files in DIR that differ.")
def command(folder: Path, overwrite: bool) -> None:
    """Write the systemd unit, the nginx configuration, the alert rules and the dashboard to DIR.

    The folder is created if necessary. Files that differ from those of this version are kept, and nothing is written,
    unless --overwrite is given.
    """
    contents = {folder / Path(name).name: deploy_file(name).read_bytes() for name in DEPLOY_FILES}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        differing = [file for file, content in contents.items() if file.exists() and file.read_bytes() != content]
        if differing and not overwrite:
            names = ", ".join(file.name for file in differing)
            raise StartupError(f"{folder} contains other versions of {names}. Add --overwrite to replace them.")
        for file, content in contents.items():
            file.write_bytes(content)
    except OSError as error:
        raise StartupError(f"cannot write to {folder}: {error.strerror}") from error
    for name, place in DEPLOY_FILES.items():
        click.echo(f"{folder / Path(name).name}  ->  {place}")
