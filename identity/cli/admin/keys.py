"""create-api-key and rotate-key."""

from __future__ import annotations

import datetime
import time

import click

from identity.cli.admin.users import find_tenant
from identity.cli.api import Api, Json
from identity.cli.connection import with_api
from identity.cli.output import Output

_DAY_MILLISECONDS = 86_400_000


@click.command("create-api-key")
@click.argument("name")
@click.option("--tenant", metavar="NAME|ID", help="Confine the key to a tenant.")
@click.option(
    "--permission", "permissions", multiple=True, metavar="METHOD:PATH",
    help="Grant a method of an endpoint, such as GET:/api/user; may be repeated. Default: everything.",
)  # fmt: skip
@click.option("--days", type=click.IntRange(min=1), help="Let the key expire after this number of days.")
@with_api
def create_api_key(
    api: Api, output: Output, name: str, tenant: str | None, permissions: tuple[str, ...], days: int | None
) -> None:
    """Create an API key and print its value. Through the API this requires a key manager's key."""
    key: Json = {"name": name, "retrievable": False, "permissions": {"endpoints": _endpoints(permissions)}}
    if tenant is not None:
        key["tenantId"] = find_tenant(api, tenant)
    if days is not None:
        key["expirationInstant"] = round(time.time() * 1000) + days * _DAY_MILLISECONDS
    created = api.send("POST", "/api/api-key", {"apiKey": key})["apiKey"]
    output.message(f"API key [{name}] created: {created['id']}\nKey: {created['key']}", **created)


@click.command("rotate-key")
@click.option(
    "--tenant", metavar="NAME|ID", help="Tenant whose signing keys are replaced. Default: the default tenant."
)
@with_api
def rotate_key(api: Api, output: Output, tenant: str | None) -> None:
    """Generate new signing keys for a tenant, with the algorithms of the present ones, and use them.

    The key set continues to publish the present keys until all tokens that they signed have expired.
    """
    tenant_id = find_tenant(api, tenant)
    found = api.get(f"/api/tenant/{tenant_id}")["tenant"]
    configured = found["jwtConfiguration"]
    members = [name for name in ("accessTokenKeyId", "idTokenKeyId") if name in configured]
    fresh = {old: _generate(api, found, old) for old in dict.fromkeys(configured[name] for name in members)}
    changes = {name: fresh[configured[name]]["id"] for name in members}
    api.send("PATCH", f"/api/tenant/{tenant_id}", {"tenant": {"jwtConfiguration": changes}})
    kids = ", ".join(f"{key['kid']} ({key['algorithm']})" for key in fresh.values())
    output.message(f"Tenant {found['name']} signs with {kids}.", tenantId=tenant_id, **changes)


COMMANDS = (create_api_key, rotate_key)


def _generate(api: Api, tenant: Json, key_id: str) -> Json:
    """Generate a key of the same algorithm and length."""
    present = api.get(f"/api/key/{key_id}")["key"]
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    wanted = {name: present[name] for name in ("algorithm", "length") if name in present}
    body = {"key": {**wanted, "name": f"Signing key of {tenant['name']} ({now})"[:191], "issuer": tenant["issuer"]}}
    generated: Json = api.send("POST", "/api/key/generate", body)["key"]
    return generated


def _endpoints(permissions: tuple[str, ...]) -> dict[str, list[str]]:
    endpoints: dict[str, list[str]] = {}
    for each in permissions:
        method, separator, path = each.partition(":")
        if not separator:
            raise click.UsageError(f"{each} is not a permission; write METHOD:PATH, such as GET:/api/user")
        endpoints.setdefault(path, []).append(method.upper())
    return endpoints
