"""The kinds of objects that commands name, from the table of resources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import click

from identity.cli.api import Api, Json, NotFoundError
from identity.collections import STORED_RESOURCES
from identity.domain.objects.resource_definition import Resource
from identity.operations.configuration import api_keys
from identity.operations.entities import entities


def kebab(name: str) -> str:
    """Return a name of JSON as it is written on a command line: ipAccessControlList, ip-access-control-list."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


_LISTED: Final = tuple(row for row in STORED_RESOURCES if row.verbs & {"retrieve_all", "search"})
KINDS: Final[Mapping[str, Resource]] = {
    kebab(row.name): row for row in (*_LISTED, entities.RESOURCE, api_keys.RESOURCE)
}
"""The kinds of the resource table, by the name that commands use."""

USER: Final = "user"
_USERS: Final = "/api/user"

NAMES: Final = (*sorted(KINDS), USER)


def find_all(api: Api, kind: str, text: str | None, limit: int) -> list[Json]:
    """Return the objects of a kind, at most `limit`; `text` is a part of the name. Raises ApiError."""
    if kind == USER:
        criteria = {"queryString": text or "*", "numberOfResults": limit}
        found: list[Json] = api.send("POST", "/api/user/search", {"search": criteria}).get("users", [])
        return found
    row = KINDS[kind]
    if row is entities.RESOURCE:
        listed: list[Json] = api.get(f"{row.path}/search", queryString=text or "*", numberOfResults=limit)[row.plural]
        return listed
    # The list of API keys, for key managers, is a search in the published API.
    is_listed = "retrieve_all" in row.verbs and row is not api_keys.RESOURCE
    path = row.path if is_listed else f"{row.path}/search"
    objects: list[Json] = api.get(path).get(row.plural, [])
    return [one for one in objects if text is None or text.lower() in str(one.get("name", "")).lower()][:limit]


def get(api: Api, kind: str, wanted: str) -> Json:
    """Return the object with an id, or else the only one with a name or login id. Raises ApiError and UsageError."""
    if kind == USER:
        return get_user(api, wanted, None)
    row = KINDS[kind]
    found = api.find(f"{row.path}/{wanted}") if re.fullmatch(r"[0-9a-fA-F-]{36}", wanted) else None
    if found is not None:
        document: Json = found[row.name]
        return document
    is_entity = row is entities.RESOURCE
    listed = find_all(api, kind, f'name:"{wanted}"' if is_entity else None, 100 if is_entity else 1_000_000)
    matches = [one for one in listed if one.get("name") == wanted]
    if not matches:
        raise NotFoundError(f"there is no {kind} with the id or name [{wanted}]")
    if len(matches) > 1:
        ids = ", ".join(str(one["id"]) for one in matches)
        raise click.UsageError(f"several objects have the name [{wanted}]; name one by its id: {ids}")
    return matches[0]


def find_user(api: Api, tenant_id: str, **query: str) -> Json | None:
    """Return the user of a tenant that a query selects, or None. Raises ApiError."""
    try:
        user: Json = api.send("GET", _USERS, query=query, tenant_id=tenant_id)["user"]
    except NotFoundError:
        return None
    return user


def get_user(api: Api, wanted: str, tenant_id: str | None) -> Json:
    """Return the user with an id or login id. Raises ApiError."""
    try:
        if re.fullmatch(r"[0-9a-fA-F-]{36}", wanted):
            found = api.send("GET", f"{_USERS}/{wanted}", tenant_id=tenant_id)
        else:
            found = api.send("GET", _USERS, query={"loginId": wanted}, tenant_id=tenant_id)
    except NotFoundError as error:
        scope = "" if tenant_id is None else f" in the tenant {tenant_id}"
        raise NotFoundError(f"there is no user with the id or login id [{wanted}]{scope}") from error
    user: Json = found["user"]
    return user
