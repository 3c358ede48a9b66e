"""The command check-config: all faults of the configuration, without starting or changing anything."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click
import uvloop

from identity import config
from identity.cli import exit_codes, listening, open_files
from identity.cli.settings import Options, app, running, secret_files
from identity.config import Config, ConfigError
from identity.errors import StartupError
from identity.store import data_dir, vault
from identity.store.embedded.stores import EmbeddedStores


@click.command("check-config")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_obj
def command(options: Options, *, as_json: bool) -> int:
    """Check the configuration, and list applications that do not comply with the profile strict."""
    checked = str(config.file_of(options.config))
    try:
        settings = config.load(options.config, os.environ)
    except ConfigError as error:
        if as_json:
            click.echo(json.dumps({"configuration": checked, "faults": error.problems}, indent=2))
            return exit_codes.CONFIG
        raise
    mongodb_fault = uvloop.run(app().mongodb_fault(settings))
    stores = (mongodb_fault, uvloop.run(app().redis_fault(settings)))
    faults = [*_local_faults(settings), *(fault for fault in stores if fault is not None)]
    if not faults and (fault := _master_key_fault(settings)) is not None:
        faults.append(fault)
    applications = _applications(settings) if mongodb_fault is None else {"applicationsUnread": mongodb_fault}
    warnings = [*config.warnings(settings), *_open_secrets(settings), *applications.pop("mailServers", [])]
    if as_json:
        known = {"configuration": checked, "faults": faults, "warnings": warnings}
        click.echo(json.dumps({**known, **applications}, indent=2))
    else:
        click.echo("\n".join(_text(checked, faults, warnings, applications)))
    return exit_codes.FAILURE if faults else exit_codes.OK


def _local_faults(settings: Config) -> Iterator[str]:
    """Yield what prevents a start on this machine although the configuration itself is valid."""
    checks: list[Callable[[], Any]] = [
        functools.partial(data_dir.require_usable, settings.data_dir),
        functools.partial(listening.require_address, settings),
        open_files.require_sufficient,
    ]
    if settings.master_key_file.exists():
        checks.append(functools.partial(app().read_master_keys, settings.master_key_file))
    for check in checks:
        try:
            check()
        except StartupError as error:
            yield str(error)


def _master_key_fault(settings: Config) -> str | None:
    """Return why the master key does not belong to the database; None also if the database cannot be read."""
    try:
        reachable = running(settings)
    except StartupError:
        is_lost = EmbeddedStores.have_data(settings.data_dir) and not settings.master_key_file.exists()
        return vault.NO_MASTER_KEY.format(file=settings.master_key_file) if is_lost else None
    try:
        fault: str | None = uvloop.run(app().master_key_fault(reachable))
    except StartupError as error:
        return str(error)
    return fault


def _open_secrets(settings: Config) -> Iterator[str]:
    """Yield a warning for each secret file that others may read; a start sets its mode."""
    for file in filter(data_dir.readable_by_others, secret_files(settings)):
        yield f"{file} holds secrets, and others may read it: chmod 0600 {file}"


def _applications(settings: Config) -> dict[str, Any]:
    """Return findings about applications, issuers, themes and mail servers, or why MongoDB cannot be read."""
    try:
        reachable = running(settings)
        return {
            "applications": uvloop.run(app().profiles_of_applications(reachable)),
            "duplicateIssuers": uvloop.run(app().duplicate_issuers(reachable)),
            "unusedMessages": uvloop.run(app().unused_theme_messages(reachable)),
            "mailServers": uvloop.run(app().mail_server_faults(reachable)),
        }
    except StartupError as error:
        return {"applicationsUnread": str(error)}


def _text(checked: str, faults: Sequence[str], warnings: Sequence[str], applications: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the report."""
    yield f"{checked}: " + (f"{len(faults)} faults found" if faults else "no faults found")
    yield from (f"  {fault}" for fault in faults)
    yield from (f"warning: {warning}" for warning in warnings)
    if "applications" in applications:
        yield from _issuers_text(applications["duplicateIssuers"])
        yield from _messages_text(applications["unusedMessages"])
        yield from _profiles_text(applications["applications"])
    else:
        yield f"applications not checked: {applications['applicationsUnread']}"


def _issuers_text(duplicates: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the tenants that share an issuer."""
    for duplicate in duplicates:
        tenants = ", ".join(f"{tenant['name']} ({tenant['tenantId']})" for tenant in duplicate["tenants"])
        yield f"the issuer {duplicate['issuer']} is shared by tenants: {tenants};"
        yield "  relying parties cannot distinguish their tokens by issuer"


def _messages_text(themes: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the themes with messages that no page shows, and the keys of those."""
    for theme in themes:
        yield f"no page shows {len(theme['keys'])} messages of the theme {theme['name']} ({theme['themeId']}):"
        yield f"  {', '.join(theme['keys'])}"


def _profiles_text(applications: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the applications that do not comply with strict, with their shortcomings."""
    short = [application for application in applications if application["shortcomings"]]
    counts = f"{len(applications)} applications, {len(short)} do not comply"
    yield f"{counts} with the profile strict (docs/oauth/profiles.md)"
    for application in short:
        yield f"\n{application['name']} ({application['applicationId']}) of {application['tenantName']}"
        yield from (f"  {one['path']} {one['problem']} ({one['rule']})" for one in application["shortcomings"])
