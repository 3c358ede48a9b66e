"""Exports of Auth0: users and password hashes, a JSON object per line, and `auth0 apps list --json`."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, Final

from identity.cli.migration.export import (
    Export,
    Json,
    objects,
    phc_members,
    redirect_urls,
    stable_id,
    without_empty,
)

_PROFILE: Final = {
    "email": "email",
    "username": "username",
    "phone_number": "phoneNumber",
    "given_name": "firstName",
    "family_name": "lastName",
    "name": "fullName",
    "picture": "imageUrl",
}


def read(values: Sequence[Any]) -> Export:
    """Return the content of all files; rows about the same user are merged."""
    export, users = Export(), dict[str, Json]()
    for row in objects(values):
        if "client_id" in row:
            _add_client(export, row)
        elif (user_id := _user_id(row)) is not None:
            users[user_id] = {**users.get(user_id, {}), **row}
        else:
            export.skip("user", str(row.get("email", "?")), "the row has no user_id and no _id")
    for user_id, row in users.items():
        _add_user(export, user_id, row)
    return export


def _user_id(row: Json) -> str | None:
    """Return the id of a user; that of the password export lacks the prefix `auth0|`."""
    value = row.get("user_id") or row.get("_id")
    if isinstance(value, dict):
        value = value.get("$oid")
    if not value:
        return None
    return str(value) if "|" in str(value) else f"auth0|{value}"


def _add_client(export: Export, client: Json) -> None:
    name = str(client.get("name", client["client_id"]))
    if client.get("global") or client.get("app_type") == "resource_server":
        return
    oauth = {
        "authorizedRedirectURLs": redirect_urls(export, name, client.get("callbacks") or []),
        "clientSecret": client.get("client_secret"),
        "enabledGrants": ["authorization_code", "refresh_token"],
    }
    if client.get("token_endpoint_auth_method") == "none":
        oauth["clientAuthenticationPolicy"] = "NotRequired"
    application_id = stable_id("auth0", client["client_id"])
    export.applications.append({"id": application_id, "name": name, "oauthConfiguration": without_empty(oauth)})


def _add_user(export: Export, user_id: str, row: Json) -> None:
    name = str(row.get("email") or row.get("username") or user_id)
    members = {ours: row.get(theirs) for theirs, ours in _PROFILE.items()}
    metadata = {member: row.get(member) for member in ("user_metadata", "app_metadata")}
    data = without_empty({"user_id": user_id, **metadata})
    flags = {"active": not row.get("blocked", False), "verified": bool(row.get("email_verified", False))}
    password: Json = {}
    if text := row.get("passwordHash"):
        password = phc_members(str(text)) or {}
        if not password:
            export.skip("password", name, "the hash is neither bcrypt nor another PHC string")
    elif user_id.startswith("auth0|"):
        export.skip("password", name, "the files have no passwordHash of the user")
    export.users.append(
        {
            "id": stable_id("auth0", user_id),
            **without_empty({**members, "insertInstant": _milliseconds(row.get("created_at"))}),
            "data": {"auth0": data},
            **flags,
            **password,
        }
    )


def _milliseconds(text: Any) -> int | None:
    try:
        return int(datetime.datetime.fromisoformat(str(text)).timestamp() * 1000)
    except ValueError:
        return None
