"""The command import."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Final

import click

from identity.cli.admin.users import find_tenant
from identity.cli.api import Api
from identity.cli.connection import with_api
from identity.cli.migration import auth0, fusionauth, importer, keycloak
from identity.cli.migration.export import read_json
from identity.cli.output import Output

_SOURCES: Final = {"auth0": auth0.read, "fusionauth": fusionauth.read, "keycloak": keycloak.read}


@click.command("import")
@click.argument("source", type=click.Choice(sorted(_SOURCES)))
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path, exists=True, dir_okay=False)
)
@click.option("--tenant", metavar="NAME|ID", help="Tenant of the objects. Default: that of the administrators.")
@click.option("--dry-run", is_flag=True, help="Report what would be created. Nothing is changed.")
@with_api
def command(
    api: Api, output: Output, source: str, files: tuple[Path, ...], tenant: str | None, *, dry_run: bool
) -> None:
    """Import users with their password hashes, applications and groups of another product.

    Objects that exist are skipped, so that the command can be repeated.
    """
    export = _SOURCES[source]([value for file in files for value in read_json(file)])
    tenant_id = find_tenant(api, tenant)
    with output.progress("Importing", len(export.users)) as bar:
        report = importer.run(
            api, tenant_id, export, dry_run=dry_run, advance=lambda done: bar.advance(bar.task_ids[0], done)
        )
    skipped = [dataclasses.asdict(one) for one in report.skipped]
    if output.is_json:
        output.object({"tenantId": tenant_id, "dryRun": dry_run, "created": report.created, "skipped": skipped})
        return
    if skipped:
        output.rows(("kind", "name", "reason"), skipped)
    counts = ", ".join(f"{number} {kind}s" for kind, number in report.created.items())
    ignored = ", ".join(f"{number} {kind}" for kind, number in Counter(one["kind"] for one in skipped).items())
    verb = "would be created" if dry_run else "created"
    output.message(f"{counts} {verb}." + (f" Skipped: {ignored}." if ignored else ""))
