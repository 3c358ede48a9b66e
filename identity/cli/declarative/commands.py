"""The commands export, plan and apply, which read the objects of an instance through its API."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.text import Text

from identity.cli import exit_codes
from identity.cli.api import Api, Json, UnauthorizedError
from identity.cli.connection import with_api
from identity.cli.declarative import apply as application
from identity.cli.declarative import diff, documents, files, kickstart_export
from identity.cli.declarative.documents import Object
from identity.cli.declarative.kinds import KINDS, Kind
from identity.cli.declarative.plan import Change, Plan, compute
from identity.cli.output import Output

_PAGE: Final = 500

_folder = click.option(
    "--dir", "folder", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder of the files."
)
_prune = click.option("--prune", is_flag=True, help="Delete objects that are in no file, except protected ones.")
_prune_data = click.option(
    "--prune-data", is_flag=True, help="As --prune, also where data of users is deleted: tenants, applications, groups."
)


@click.command("export")
@_folder
@click.option("--full", is_flag=True, help="Write members that have their default, too.")
@click.option(
    "--secrets", type=click.Path(path_type=Path, dir_okay=False), help="Write secrets to this file, mode 0600."
)
@click.option("--kickstart", is_flag=True, help="Write kickstart.yaml for a new instance instead.")
@with_api
def export(api: Api, output: Output, folder: Path, secrets: Path | None, *, full: bool, kickstart: bool) -> None:
    """Write the configuration of an instance as YAML files. Secrets are written as references."""
    kinds = readable_kinds(api)
    if len(kinds) < len(KINDS):
        output.warning("API keys are not exported: that requires the API key of a key manager")
    objects = fetch(api, {kind.name for kind in kinds})
    found = kickstart_export.write(folder, objects) if kickstart else files.write(folder, objects, kinds, full=full)
    if secrets is not None:
        files.write_secrets(secrets, found)
    counts = {kind.name: sum(one.kind is kind for one in objects) for kind in kinds}
    output.message(f"{len(objects)} objects exported to {folder}.", folder=str(folder), objects=counts)


@click.command("plan")
@_folder
@_prune
@_prune_data
@click.option("--check", is_flag=True, help=f"End with exit code {exit_codes.DIFFERENCES} if there are changes.")
@with_api
def plan(api: Api, output: Output, folder: Path, *, prune: bool, prune_data: bool, check: bool) -> int:
    """Show what apply would change. Nothing is changed."""
    found = _plan(api, folder, prune=prune, prune_data=prune_data)
    _print(output, found)
    return exit_codes.DIFFERENCES if check and found.changes else exit_codes.OK


@click.command("apply")
@_folder
@_prune
@_prune_data
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@with_api
def apply(api: Api, output: Output, folder: Path, *, prune: bool, prune_data: bool, yes: bool) -> None:
    """Make an instance equal to the files. Repeating it changes nothing."""
    found = _plan(api, folder, prune=prune, prune_data=prune_data)
    if not output.is_json or not found.changes:
        _print(output, found)
    if not found.changes:
        return
    if not yes:
        click.confirm("Apply these changes?", abort=True, err=True)
    with output.progress("Applying", len(found.changes)) as bar:

        def report(_change: Change) -> None:
            bar.advance(bar.task_ids[0])

        application.apply(api, found, report)
    output.message(f"Applied: {diff.summary(found).removeprefix('Plan: ')}", **diff.as_json(found))


def _plan(api: Api, folder: Path, *, prune: bool, prune_data: bool) -> Plan:
    """Compare the kinds that the folder manages."""
    wanted = files.read(folder)
    managed = files.managed_kinds(folder)
    # Ids of default objects are resolved by name, so that all kinds that others refer to are needed.
    needed = {kind.name for kind in KINDS if kind.name in managed or not (kind.is_singleton or kind.is_leaf)}
    current = fetch(api, needed)
    found = compute(wanted, current, prune=prune or prune_data, prune_data=prune_data)
    changes = tuple(change for change in found.changes if change.subject.kind.name in managed)
    kept = tuple(stays for stays in found.kept if stays.subject.kind.name in managed)
    return Plan(changes, kept)


def _print(output: Output, found: Plan) -> None:
    if output.is_json:
        output.object(diff.as_json(found))
        return
    console = Console(highlight=False, soft_wrap=True)
    for style, line in diff.lines(found):
        console.print(Text(line, style=style or "default"))


def fetch(api: Api, kinds: Collection[str]) -> list[Object]:
    """Return all objects of some kinds. Raises ApiError."""
    return [documents.of_response(kind, one) for kind in KINDS if kind.name in kinds for one in _fetch(api, kind)]


def readable_kinds(api: Api) -> tuple[Kind, ...]:
    """Return the kinds that the API key may read: API keys are for key managers only. Raises ApiError."""
    try:
        api.get("/api/api-key/search")
    except UnauthorizedError:
        return tuple(kind for kind in KINDS if not kind.is_api_key)
    return KINDS


def _fetch(api: Api, kind: Kind) -> Iterator[Json]:
    if kind.is_entity or kind.is_grant:
        for tenant in api.get("/api/tenant")["tenants"]:
            yield from _search(api, kind, tenant["id"])
    elif kind.is_api_key:
        # Key managers come from a kickstart or --local, and cannot be created through the API.
        yield from (one for one in api.get("/api/api-key/search")["apiKeys"] if not one.get("keyManager"))
    else:
        answer = api.get(kind.row.path)
        yield from [answer[kind.row.name]] if kind.is_singleton else answer.get(kind.row.plural, [])


def _search(api: Api, kind: Kind, tenant_id: str) -> Iterator[Json]:
    """Yield the objects of a tenant page by page. Grants to users are data of users."""
    path, start = f"{kind.row.path}/search", 0
    every = {"queryString": "*"} if kind.is_entity else {}
    while True:
        query = {**every, "startRow": start, "numberOfResults": _PAGE}
        found = api.send("GET", path, query=query, tenant_id=tenant_id).get(kind.row.plural, [])
        yield from ({**one, "tenantId": tenant_id} for one in found if "userId" not in one)
        start += len(found)
        if len(found) < _PAGE:
            return
