"""Exports of FusionAuth: responses of its API, or bodies of its user import; users, applications and groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from identity.cli.migration.export import Export, Json, objects
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID
from identity.schemas import Schemas

_OAUTH: Final = (
    *("authorizedOriginURLs", "authorizedRedirectURLs", "authorizedURLValidationPolicy", "clientAuthenticationPolicy"),
    *("clientSecret", "enabledGrants", "generateRefreshTokens", "logoutURL", "proofKeyForCodeExchangePolicy"),
)
_APPLICATION: Final = ("data", "id", "name", "verifyRegistration")
_ROLE: Final = ("description", "id", "isDefault", "isSuperRole", "name")


def read(values: Sequence[Any]) -> Export:
    """Return the content of all files. Members that refer to objects that are not imported are left out."""
    export = Export()
    files = objects(values)
    for application in _all(files, "application"):
        if application["id"] != ADMINISTRATOR_APPLICATION_ID:
            export.applications.append(_application(application))
    known = Schemas()["api/imported-user.json"].schema["properties"]["user"]["properties"].keys()
    export.groups += [_picked(group, ("data", "id", "name")) for group in _all(files, "group")]
    for user in _all(files, "user"):
        export.users.append(_user(export, user, known - {"tenantId"}))
    return export


def _all(files: Sequence[Json], name: str) -> Iterator[Json]:
    for file in files:
        yield from file.get(f"{name}s", [])
        if name in file:
            yield file[name]


def _application(application: Json) -> Json:
    return {
        **_picked(application, _APPLICATION),
        "oauthConfiguration": _picked(application.get("oauthConfiguration", {}), _OAUTH),
        "roles": [_picked(role, _ROLE) for role in application.get("roles", [])],
    }


def _user(export: Export, user: Json, known: set[str]) -> Json:
    name = str(user.get("email") or user.get("username") or user.get("phoneNumber") or user.get("id"))
    registrations = []
    for one in user.get("registrations", []):
        if one["applicationId"] == ADMINISTRATOR_APPLICATION_ID:
            export.skip("registration", name, "administrators are created with identity admin create-admin")
        else:
            registrations.append(one)
    if "password" not in user:
        export.skip("password", name, "the file has no hash of the user")
    methods = [method for method in user.get("twoFactor", {}).get("methods", []) if _is_complete(method)]
    factors = {"twoFactor": {"methods": methods}} if methods else {}
    picked = {one: value for one, value in user.items() if one in known and one != "twoFactor"}
    return {**picked, "registrations": registrations, **factors}


def _is_complete(method: Json) -> bool:
    """Whether a two-factor method can be imported: responses lack the secret of an authenticator."""
    return method.get("method") != "authenticator" or "secret" in method


def _picked(document: Json, names: Sequence[str]) -> Json:
    return {name: document[name] for name in names if name in document}
