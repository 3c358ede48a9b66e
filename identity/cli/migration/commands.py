"""The command import: creates the objects of an export that do not exist, so that an import can be repeated."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from pathlib import Path
from typing import Final

import click

from identity.cli.admin.users import find_tenant
from identity.cli.api import Api
from identity.cli.connection import with_api
from identity.cli.migration import auth0, fusionauth, keycloak
from identity.cli.migration.export import read_json
from identity.cli.migration.importer import Importer
from identity.cli.output import Output

_SOURCES: Final = {"auth0": auth0.read, "fusionauth": fusionauth.read, "keycloak": keycloak.read}


@click.command("import")
@click.argument("source", type=click.Choice(sorted(_SOURCES)))
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path, exists=True, dir_okay=False)
)
@click.option("--tenant", metavar="NAME|ID", help="Tenant of the objects. Default: that of the administrators.")
@click.option(
    "--relying-party-id",
    metavar="DOMAIN",
    help="Relying party id of Keycloak's passkeys: its host name, unless the realm names another.",
)
@click.option("--dry-run", is_flag=True, help="List what would be created and what is skipped. Nothing is changed.")
@with_api
def command(
    api: Api,
    output: Output,
    source: str,
    files: tuple[Path, ...],
    tenant: str | None,
    relying_party_id: str | None,
    *,
    dry_run: bool,
) -> None:
    """Import users with their credentials, applications and groups of another product.

    Objects that exist are skipped, so that the command can be repeated.
    """
    read = _SOURCES[source]
    if relying_party_id is not None:
        if source != "keycloak":
            raise click.UsageError("--relying-party-id is for keycloak")
        read = functools.partial(keycloak.read, relying_party_id=relying_party_id)
    export = read([value for file in files for value in read_json(file)])
    tenant_id = find_tenant(api, tenant)
    with output.progress("Importing", len(export.users)) as bar:
        report = Importer(api, tenant_id, dry_run).run(export, lambda done: bar.advance(bar.task_ids[0], done))
    skipped = [dataclasses.asdict(one) for one in report.skipped]
    created = [dataclasses.asdict(one) for one in report.created]
    if output.is_json:
        summary = {"tenantId": tenant_id, "dryRun": dry_run, "created": report.counts(), "skipped": skipped}
        output.object({**summary, "objects": created})
        return
    if dry_run and created:
        output.rows(("kind", "name"), created)
    if skipped:
        output.rows(("kind", "name", "reason"), skipped)
    counts = ", ".join(f"{number} {kind}s" for kind, number in report.counts().items() if number) or "Nothing"
    ignored = ", ".join(f"{number} {kind}" for kind, number in Counter(one["kind"] for one in skipped).items())
    verb = "would be created" if dry_run else "created"
    output.message(f"{counts} {verb}." + (f" Skipped: {ignored}." if ignored else ""))
