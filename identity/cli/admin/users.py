"""create-admin, reset-password, remove-second-factors and unlock."""

from __future__ import annotations

import secrets
import sys

import click

from identity.cli import kinds
from identity.cli.api import Api, Json
from identity.cli.connection import with_api
from identity.cli.output import Output
from identity.domain.configuration import administrator_roles
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID

_GENERATED_BYTES = 24

_password_stdin = click.option(
    "--password-stdin", is_flag=True, help="Read the password from standard input. Default: generate and print one."
)
_tenant = click.option("--tenant", metavar="NAME|ID", help="Tenant of the user. Default: that of the administrators.")


@click.command("create-admin")
@click.argument("email")
@_password_stdin
@with_api
def create_admin(api: Api, output: Output, email: str, *, password_stdin: bool) -> None:
    """Create an administrator, or make an existing user one."""
    tenant_id = administrators_tenant(api)
    registration = {"applicationId": ADMINISTRATOR_APPLICATION_ID, "roles": [administrator_roles.ADMIN]}
    user = kinds.find_user(api, tenant_id, loginId=email, loginIdTypes="email")
    if user is not None:
        user_id = user["id"]
        known = {one["applicationId"] for one in user.get("registrations", [])}
        method = "PATCH" if ADMINISTRATOR_APPLICATION_ID in known else "POST"
        api.send(method, f"/api/user/registration/{user_id}", {"registration": registration}, tenant_id=tenant_id)
        output.message(f"{email} is an administrator now; the password is unchanged.", userId=user_id)
        return
    password = _password(read=password_stdin)
    body = {
        "user": {"email": email, "password": password},
        "registration": registration,
        "skipVerification": True,
        "skipRegistrationVerification": True,
    }
    created = api.send("POST", "/api/user/registration", body, tenant_id=tenant_id)["user"]
    _show_password(output, f"Administrator {email} created.", created, password, shown=not password_stdin)


@click.command("reset-password")
@click.argument("login_id")
@_tenant
@_password_stdin
@with_api
def reset_password(api: Api, output: Output, login_id: str, tenant: str | None, *, password_stdin: bool) -> None:
    """Set a new password for the user with a login id or id, and unlock the account."""
    user = _get_user(api, login_id, tenant)
    password = _password(read=password_stdin)
    api.send("PATCH", f"/api/user/{user['id']}", {"user": {"password": password}}, tenant_id=user["tenantId"])
    _cancel_lock_outs(api, user)
    _show_password(output, f"Password of {login_id} changed.", user, password, shown=not password_stdin)


@click.command("unlock")
@click.argument("login_id")
@_tenant
@with_api
def unlock(api: Api, output: Output, login_id: str, tenant: str | None) -> None:
    """Cancel the actions that prevent a user from logging in, such as a lock-out, and reactivate the user."""
    user = _get_user(api, login_id, tenant)
    count = _cancel_lock_outs(api, user)
    if not user.get("active", True):
        api.send("PUT", f"/api/user/{user['id']}", query={"reactivate": "true"}, tenant_id=user["tenantId"])
    output.message(f"{login_id} may log in again; {count} actions canceled.", userId=user["id"], canceled=count)


@click.command("remove-second-factors")
@click.argument("login_id")
@_tenant
@with_api
def remove_second_factors(api: Api, output: Output, login_id: str, tenant: str | None) -> None:
    """Remove the two-factor methods and recovery codes of a user who lost them; the password alone is enough then."""
    user = _get_user(api, login_id, tenant)
    count = len(user.get("twoFactor", {}).get("methods", []))
    body: Json = {"user": {"twoFactor": {"methods": []}}}
    headers = {"Content-Type": "application/merge-patch+json"}
    api.send("PATCH", f"/api/user/{user['id']}", body, tenant_id=user["tenantId"], headers=headers)
    output.message(f"{count} two-factor methods of {login_id} removed.", userId=user["id"], removed=count)


COMMANDS = (create_admin, reset_password, remove_second_factors, unlock)


def administrators_tenant(api: Api) -> str:
    """Return the id of the tenant of the administrators' application, the default tenant. Raises ApiError."""
    return str(api.get(f"/api/application/{ADMINISTRATOR_APPLICATION_ID}")["application"]["tenantId"])


def find_tenant(api: Api, wanted: str | None) -> str:
    """Return the id of a tenant by its name or id; None is the default tenant. Raises ApiError."""
    return administrators_tenant(api) if wanted is None else str(kinds.get(api, "tenant", wanted)["id"])


def _get_user(api: Api, login_id: str, tenant: str | None) -> Json:
    """Return the user with a login id or id in a tenant. Raises ApiError."""
    return kinds.get_user(api, login_id, find_tenant(api, tenant))


def _cancel_lock_outs(api: Api, user: Json) -> int:
    tenant_id = user["tenantId"]
    query = {"userId": user["id"], "preventingLogin": "true"}
    actions = api.send("GET", "/api/user/action", query=query, tenant_id=tenant_id).get("actions", [])
    for action in actions:
        # The API records who cancels an action; an API key has no user.
        body = {"action": {"actionerUserId": user["id"], "comment": "Canceled on the command line"}}
        api.send("DELETE", f"/api/user/action/{action['id']}", body, tenant_id=tenant_id)
    return len(actions)


def _password(*, read: bool) -> str:
    if not read:
        return secrets.token_urlsafe(_GENERATED_BYTES)
    password = sys.stdin.readline().rstrip("\n")
    if not password:
        raise click.UsageError("standard input holds no password")
    return password


def _show_password(output: Output, text: str, user: Json, password: str, *, shown: bool) -> None:
    """Print a generated password, which nothing else shows again."""
    secret = {"password": password} if shown else {}
    output.message(f"{text}\nPassword: {password}" if shown else text, userId=user["id"], **secret)
