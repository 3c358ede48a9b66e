"""user-data export: what is stored about a user, as JSON or in a zip file."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Final

import click

from identity.cli.api import Api
from identity.cli.connection import with_api
from identity.cli.output import Output

_FILE_NAME: Final = "user-data.json"


@click.group("user-data")
def commands() -> None:
    """Export what is stored about a user."""


@commands.command("export")
@click.argument("user_id", metavar="ID", type=click.UUID)
@click.option(
    "-o", "--output", "target", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Write to a new file that only its owner can read; *.zip is compressed. Default: standard output.",
)  # fmt: skip
@with_api
def export(api: Api, output: Output, user_id: object, target: Path | None) -> None:
    """Print profile, registrations, groups, consents, links, factors, sessions, logins and log rows of a user.

    Contains no passwords, tokens or other secrets.
    """
    found = api.get(f"/api/user/data-export/{user_id}")["userData"]
    text = json.dumps(found, indent=2, sort_keys=True, ensure_ascii=False)
    if target is None:
        click.echo(text)
        return
    content = _zipped(text) if target.suffix.lower() == ".zip" else text.encode()
    try:
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
    except FileExistsError as error:
        raise click.ClickException(f"{target} exists already") from error
    except OSError as error:
        raise click.ClickException(f"{target} cannot be written: {error.strerror}") from error
    output.message(f"Data of the user {user_id} written to {target}.", userId=str(user_id), file=str(target))


def _zipped(text: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_FILE_NAME, text)
    return file.getvalue()
