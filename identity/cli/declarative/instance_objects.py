"""Reading the objects of an instance through its API."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from identity.cli.api import Api, Json, UnauthorizedError
from identity.cli.declarative import documents
from identity.cli.declarative.documents import Object
from identity.cli.declarative.kinds import KINDS, Kind

_PAGE: Final = 500


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
