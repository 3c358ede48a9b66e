"""Dispatch SCIM requests: permissions, the operation of each method, searches, and bulk requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from identity.call import Document
from identity.domain.scim import messages, models
from identity.domain.scim.errors import ScimError
from identity.operations.scim import groups, users
from identity.operations.scim.clients import ScimCall
from identity.operations.scim.resources import Answer, Request
from identity.services import Services

_PREFIXES: Final[Mapping[str, str]] = {
    models.USER: "scim:user",
    models.ENTERPRISE_USER: "scim:enterprise:user",
    models.GROUP: "scim:group",
}
_VERBS: Final[Mapping[str, str]] = {
    "DELETE": "delete",
    "GET": "read",
    "PATCH": "update",
    "POST": "create",
    "PUT": "update",
}

_Handle = Callable[[Services, ScimCall, Request], Awaitable[Answer | None]]
_USERS: Final[Mapping[str, _Handle]] = {
    "DELETE": users.delete,
    "GET": users.retrieve,
    "PATCH": users.change,
    "POST": users.create,
    "PUT": users.change,
}
_GROUPS: Final[Mapping[str, _Handle]] = {
    "DELETE": groups.delete,
    "GET": groups.retrieve,
    "PATCH": groups.change,
    "POST": groups.create,
    "PUT": groups.change,
}


async def handle(services: Services, scim: ScimCall, request: Request) -> Answer | None:
    """Handle a request on one resource or, for POST, on a resource type; None after a deletion.

    Raises ScimError, Invalid, LambdaFailed and WebhookTransactionFailed.
    """
    scim.require(permission(request.resource_type, request.method))
    if request.resource_type == models.GROUP:
        return await _GROUPS[request.method](services, scim, request)
    return await _USERS[request.method](services, scim, request)


async def search(
    services: Services, scim: ScimCall, resource_types: Sequence[str], parameters: Mapping[str, Any]
) -> Document:
    """Return the ListResponse of a search; one of several types lists their resources one type after the other.

    Raises ScimError.
    """
    for resource_type in resource_types:
        scim.require(permission(resource_type, "GET"))
    query = messages.read_query(scim.tenant, resource_types, parameters)
    total, found = 0, list[Document]()
    for resource_type in resource_types:
        skip = max(0, query.start - 1 - total)
        counted, page = await _page(services, scim, resource_type, query, skip, query.count - len(found))
        total, found = total + counted, [*found, *page]
    return messages.list_response(found, total, query.start)


def permission(resource_type: str, method: str) -> str:
    """Return the permission that a method of a resource type requires."""
    return f"{_PREFIXES[resource_type]}:{_VERBS[method]}"


def resource_type_of(endpoint: str) -> str:
    """Return the resource type of a path such as `/Users`. Raises ScimError."""
    for name, path in models.ENDPOINTS.items():
        if path == endpoint:
            return name
    raise ScimError(404, f"There is no resource type at {endpoint[:100]}.")


async def _page(
    services: Services, scim: ScimCall, resource_type: str, query: messages.Query, skip: int, limit: int
) -> tuple[int, list[Document]]:
    if resource_type == models.GROUP:
        return await groups.search(services, scim, query, skip, limit)
    return await users.search(services, scim, resource_type, query, skip, limit)
