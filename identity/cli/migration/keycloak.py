"""Realm exports of Keycloak: `kc.sh export --users realm_file`, or with `different_files` all files of the folder."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any, Final

from identity.cli.migration.export import Export, Json, objects, redirect_urls, stable_id, without_empty

_BUILT_IN: Final = frozenset(
    {"account", "account-console", "admin-cli", "broker", "realm-management", "security-admin-console"}
)
_PBKDF2: Final = {
    ("pbkdf2-sha256", 32): "salted-pbkdf2-hmac-sha256",
    ("pbkdf2-sha256", 64): "salted-pbkdf2-hmac-sha256-512",
    ("pbkdf2-sha512", 64): "salted-pbkdf2-hmac-sha512-512",
}
_ARGON2: Final = {"hashLength": "32", "memory": "19456", "parallelism": "1", "type": "id", "version": "1.3"}
"""The parameters of argon2id in this service; the factor is the number of passes."""


def read(values: Sequence[Any]) -> Export:
    """Return the content of realm files and user files."""
    export, client_ids, group_ids = Export(), dict[str, str](), dict[str, str]()
    files = objects(values)
    for file in files:
        for client in file.get("clients", []):
            _add_client(export, client, file.get("roles", {}).get("client", {}), client_ids)
        for group in file.get("groups", []):
            _add_group(export, group, group_ids)
    for file in files:
        for user in file.get("users", []):
            _add_user(export, user, client_ids, group_ids)
    return export


def _add_client(export: Export, client: Json, roles: Json, client_ids: dict[str, str]) -> None:
    name = client["clientId"]
    if name in _BUILT_IN or client.get("protocol", "openid-connect") != "openid-connect":
        if name not in _BUILT_IN:
            export.skip("application", name, f"its protocol is {client['protocol']}")
        return
    client_ids[name] = stable_id("keycloak", str(client.get("id", name)))
    oauth: Json = {
        "authorizedRedirectURLs": redirect_urls(export, name, client.get("redirectUris", [])),
        "clientSecret": client.get("secret") if "*" not in str(client.get("secret")) else None,
        "enabledGrants": ["authorization_code", "refresh_token"],
    }
    if client.get("publicClient"):
        oauth["clientAuthenticationPolicy"] = "NotRequired"
    export.applications.append(
        {
            "id": client_ids[name],
            "name": name,
            "oauthConfiguration": without_empty(oauth),
            "roles": [{"name": role["name"]} for role in roles.get(name, [])],
        }
    )


def _add_group(export: Export, group: Json, group_ids: dict[str, str]) -> None:
    path = group.get("path") or f"/{group['name']}"
    group_ids[path] = stable_id("keycloak", str(group.get("id", path)))
    export.groups.append({"id": group_ids[path], "name": path.lstrip("/")})
    for child in group.get("subGroups", []):
        _add_group(export, {"path": f"{path}/{child['name']}", **child}, group_ids)


def _add_user(export: Export, user: Json, client_ids: dict[str, str], group_ids: dict[str, str]) -> None:
    if "serviceAccountClientId" in user:
        return
    name = str(user.get("username") or user.get("email") or user.get("id", "?"))
    registrations = [
        {"applicationId": client_ids[client], "roles": roles}
        for client, roles in user.get("clientRoles", {}).items()
        if client in client_ids
    ]
    data = without_empty({"attributes": user.get("attributes"), "realmRoles": user.get("realmRoles")})
    members = {
        "id": stable_id("keycloak", str(user.get("id", name))),
        **{member: user.get(member) for member in ("email", "username", "firstName", "lastName")},
        "insertInstant": user.get("createdTimestamp"),
        "data": {"keycloak": data} if data else None,
        "registrations": registrations,
        "memberships": [{"groupId": group_ids[path]} for path in user.get("groups", []) if path in group_ids],
    }
    flags = {"active": user.get("enabled", True), "verified": user.get("emailVerified", False)}
    if "UPDATE_PASSWORD" in user.get("requiredActions", []):
        flags["passwordChangeRequired"] = True
    export.users.append({**without_empty(members), **flags, **_password(export, name, user.get("credentials", []))})


def _password(export: Export, name: str, credentials: Sequence[Json]) -> Json:
    """Return the password members, or none if there is no hash in a scheme of this service."""
    stored = next((one for one in credentials if one.get("type") == "password"), None)
    for other in credentials:
        if other.get("type") != "password":
            export.skip("credential", name, f"credentials of the type {other.get('type')} are not imported")
    if stored is None:
        return {}
    try:
        secret, settings = json.loads(stored["secretData"]), json.loads(stored["credentialData"])
        scheme = _scheme(settings, len(base64.b64decode(secret["value"], validate=True)))
        iterations = int(settings["hashIterations"])
    except (KeyError, TypeError, ValueError, binascii.Error):
        export.skip("password", name, "the credential is not in the form of Keycloak")
        return {}
    if scheme is None:
        export.skip("password", name, f"hashes of {settings.get('algorithm')} with these parameters cannot be verified")
        return {}
    salt, value = secret["salt"], secret["value"]
    return {"encryptionScheme": scheme, "factor": iterations, "salt": salt, "password": value}


def _scheme(settings: Json, size: int) -> str | None:
    if settings["algorithm"] != "argon2":
        return _PBKDF2.get((settings["algorithm"], size))
    given = settings.get("additionalParameters", {})
    is_same = all(given.get(name) == [value] for name, value in _ARGON2.items())
    return "argon2id" if is_same else None
