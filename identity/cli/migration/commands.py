"""The command import: creates the objects of an export that do not exist, so that an import can be repeated."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import click

from identity.cli.admin.users import find_tenant
from identity.cli.api import Api, RefusedError
from identity.cli.connection import with_api
from identity.cli.migration import auth0, fusionauth, keycloak
from identity.cli.migration.export import Export, Json, Skipped, read_json
from identity.cli.output import Output
from identity.schemas import Schemas

_SOURCES: Final = {"auth0": auth0.read, "fusionauth": fusionauth.read, "keycloak": keycloak.read}
BATCH: Final = 500
_SEARCHED: Final = 50
_EXISTS: Final = "exists already"


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
        report = import_objects(
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


@dataclasses.dataclass(slots=True)
class Report:
    """What was, or in a dry run would be, created, and what was not."""

    created: dict[str, int] = dataclasses.field(default_factory=lambda: {"application": 0, "group": 0, "user": 0})
    skipped: list[Skipped] = dataclasses.field(default_factory=list)


def import_objects(api: Api, tenant_id: str, export: Export, *, dry_run: bool, advance: Callable[[int], Any]) -> Report:
    """Create what does not exist in the tenant. `advance` gets the number of users that were dealt with."""
    report = Report(skipped=list(export.skipped))
    for kind, documents in (("application", export.applications), ("group", export.groups)):
        for document in documents:
            _create(api, tenant_id, kind, document, report, dry_run=dry_run)
    users = list(_valid(export.users, report))
    advance(len(export.users) - len(users))
    for start in range(0, len(users), BATCH):
        batch = users[start : start + BATCH]
        if dry_run:
            _compare(api, tenant_id, batch, report)
        else:
            _import(api, tenant_id, batch, report)
        advance(len(batch))
    return report


def _create(api: Api, tenant_id: str, kind: str, document: Json, report: Report, *, dry_run: bool) -> None:
    path = f"/api/{kind}/{document['id']}"
    name = str(document.get("name", document["id"]))
    if api.exchange("GET", path, headers={"X-FusionAuth-TenantId": tenant_id})[0] == 200:
        report.skipped.append(Skipped(kind, name, _EXISTS))
        return
    if not dry_run:
        body = {kind: {member: value for member, value in document.items() if member != "id"}}
        try:
            api.send("POST", path, body, tenant_id=tenant_id)
        except RefusedError as error:
            report.skipped.append(Skipped(kind, name, error.message))
            return
    report.created[kind] += 1


def _valid(users: Iterable[Json], report: Report) -> Iterable[Json]:
    """Yield the users that have the form of the API, each id once."""
    shape, seen = Schemas()["api/imported-user.json"], set[str | None]()
    for user in users:
        _, errors = shape.examine({"user": user})
        reason = ", ".join(error.code for error in errors)
        if not reason and "id" in user and user["id"] in seen:
            reason = "is in the files twice"
        if reason:
            report.skipped.append(Skipped("user", _name(user), reason))
            continue
        seen.add(user.get("id"))
        yield user


def _compare(api: Api, tenant_id: str, users: Sequence[Json], report: Report) -> None:
    """Count the users whose ids do not exist."""
    for start in range(0, len(users), _SEARCHED):
        some = users[start : start + _SEARCHED]
        ids = [user["id"] for user in some if "id" in user]
        path = "/api/user/search"
        found = api.send("POST", path, {"search": {"ids": ids, "numberOfResults": _SEARCHED}}, tenant_id=tenant_id)
        existing = {user["id"] for user in found.get("users", [])} if ids else set()
        for user in some:
            _count(user, _EXISTS if user.get("id") in existing else None, report)


def _import(api: Api, tenant_id: str, users: Sequence[Json], report: Report) -> None:
    """Import users. Those that the API refuses are left out, and the others are sent again."""
    waiting = list(users)
    while waiting:
        body = {"users": waiting, "validateDbConstraints": True}
        status, _, text = api.exchange("POST", "/api/user/import", body, {"X-FusionAuth-TenantId": tenant_id})
        refused = _refused(text) if status == 400 else {}
        if not refused:
            if status != 200:
                api.send("POST", "/api/user/import", body, tenant_id=tenant_id)
            report.created["user"] += len(waiting)
            return
        for index, reason in refused.items():
            _count(waiting[index], reason, report)
        waiting = [user for index, user in enumerate(waiting) if index not in refused]


def _refused(text: str) -> dict[int, str]:
    """Return the index and the reason of each refused user."""
    found: dict[int, list[str]] = {}
    for path, errors in json.loads(text).get("fieldErrors", {}).items():
        if index := re.match(r"users\[(\d+)\]", path):
            found.setdefault(int(index[1]), []).extend(error["code"] for error in errors)
    return {
        index: _EXISTS if all(code.startswith("[duplicate]") for code in codes) else ", ".join(codes)
        for index, codes in found.items()
    }


def _count(user: Json, reason: str | None, report: Report) -> None:
    if reason is None:
        report.created["user"] += 1
    else:
        report.skipped.append(Skipped("user", _name(user), reason))


def _name(user: Json) -> str:
    return str(user.get("email") or user.get("username") or user.get("phoneNumber") or user.get("id", "?"))
