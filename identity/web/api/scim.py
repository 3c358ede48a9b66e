"""/api/scim/resource/v2: SCIM 2.0 (RFC 7644), for clients with an access token of a SCIM client entity.

The operations, and with them the library of the protocol, are loaded by the first request in a thread: that takes half
a second of processor time and more on a busy machine, and many services do not use SCIM.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import threading
from typing import TYPE_CHECKING, Any, Final

from identity.call import Call, Document
from identity.domain.scim import errors
from identity.domain.scim.errors import ScimError
from identity.errors import MethodNotAllowed, ServiceError
from identity.operations.objects import audited_writes
from identity.operations.scim import clients
from identity.permissions import endpoint_of
from identity.web.base_handlers import BaseHandler, Route
from identity.web.endpoint import Access, Query, Reply, Tenancy, endpoint

if TYPE_CHECKING:
    from identity.operations.scim.resources import Answer, Request

MEDIA_TYPE: Final = "application/scim+json"
_ROOT: Final = "/api/scim/resource/v2"
_SELECTION: Final[Query] = {"attributes": "text", "excludedAttributes": "text"}
_SEARCH: Final[Query] = {
    "attributes": "text",
    "count": "text",
    "excludedAttributes": "text",
    "filter": "text",
    "sortBy": "text",
    "sortOrder": "text",
    "startIndex": "text",
}
_RESOURCE: Final = "api/scim-resource.json"
_LIST: Final = "api/scim-list.response.json"
_PROTOCOL: Final = ("bulk", "discovery", "requests", "resources")
"""The modules of `identity.operations.scim` that load the library of the protocol."""
_COMMON: Final[dict[str, Any]] = {"access": Access.ENTITY, "tenancy": Tenancy.BY_OPERATION, "feature": "scimServer"}


_loaded = threading.Event()


async def _load_protocol() -> None:
    """Import the operations in a thread; later calls return at once.

    An import on the event loop would wait for the lock of one that runs in a thread.
    """
    if not _loaded.is_set():
        await asyncio.to_thread(_import_protocol)


def _import_protocol() -> None:
    for name in _PROTOCOL:
        importlib.import_module(f"identity.operations.scim.{name}")
    _loaded.set()


class ScimHandler(BaseHandler):
    """Shared by the handlers of SCIM: the authentication of clients, the media type, and the error bodies."""

    uuid_paths = False
    media_type = MEDIA_TYPE
    accepted_types = frozenset({MEDIA_TYPE, "application/json", ""})

    authenticated: clients.ScimCall | None = None

    async def scim_call(self, call: Call) -> clients.ScimCall:
        """Authenticate the client, and load the library of the protocol. Raises ScimError."""
        header = self.request.headers
        self.authenticated = await clients.authenticate(
            self.services, call, header.get("Authorization", ""), header.get("X-FusionAuth-TenantId")
        )
        await _load_protocol()
        return self.authenticated

    async def audit(self, call: Call, reply: Reply) -> None:
        """Write a row of the audit log about a change, with `audit.api_writes`."""
        if self.authenticated is None:
            return
        call, caller = self.authenticated.call, self.authenticated.caller
        if audited_writes.is_recorded(self.services, caller, self.method):
            endpoint = endpoint_of(self.template)
            write = audited_writes.ApiWrite(self.method, endpoint, self.request.path, {}, reply.status)
            await audited_writes.record(self.services, call, caller, write)

    def send(self, reply: Reply) -> None:
        """Send a reply with the media type of the protocol."""
        if reply.body is not None:
            reply = dataclasses.replace(reply, headers={"Content-Type": MEDIA_TYPE, **reply.headers})
        super().send(reply)

    def refuse(self, error: ServiceError) -> None:
        """Send the error in the shape of the protocol."""
        body = errors.body_of(error)
        headers = {"WWW-Authenticate": self.challenge()} if body["status"] == "401" else {}
        if isinstance(error, MethodNotAllowed):
            headers["Allow"] = self.allow()
        self.send(Reply(body, int(body["status"]), headers))

    def challenge(self) -> str:
        """Return the challenge of a 401, with an error code only if the request has a token (RFC 6750 section 3.1)."""
        scheme, _, token = self.request.headers.get("Authorization", "").strip().partition(" ")
        return 'Bearer error="invalid_token"' if scheme.lower() == "bearer" and token.strip() else "Bearer"

    def fail(self) -> None:
        """Send an unexpected failure, without details."""
        self.refuse(ServiceError())

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Render Tornado's own errors in the same shape."""
        if status_code == MethodNotAllowed.status:
            self.refuse(MethodNotAllowed())
        else:
            self.refuse(ScimError(status_code, "The request cannot be read."))


class ResourceHandler(ScimHandler):
    """The methods on resources of one type."""

    scim_type: str

    async def handle(self, call: Call, resource_id: str | None = None, body: Document | None = None) -> Reply:
        """Handle the request by the operation of its method."""
        scim = await self.scim_call(call)
        from identity.operations.scim import requests, resources  # noqa: PLC0415

        headers = self.request.headers
        request: Request = resources.Request(
            self.method,
            self.scim_type,
            resource_id,
            body or {},
            self.query(),
            resources.Preconditions(headers.get("If-Match"), headers.get("If-None-Match")),
        )
        return self.reply(await requests.handle(self.services, scim, request))

    def reply(self, answer: Answer | None) -> Reply:
        """Return the response to a handled request."""
        if answer is None:
            return Reply(status=204)
        headers = {"ETag": answer.version}
        if answer.resource is None:
            return Reply(status=304, headers=headers)
        is_created = self.method == "POST"
        location = {"Location": answer.location} if is_created else {"Content-Location": answer.location}
        return Reply(answer.resource, 201 if is_created else 200, {**headers, **location})


class ResourcesHandler(ResourceHandler):
    """Resources of one type."""

    @endpoint(query=_SEARCH, answer=_LIST, **_COMMON)
    async def get(self, call: Call) -> Reply:
        """Search by query parameters."""
        scim = await self.scim_call(call)
        from identity.operations.scim import requests  # noqa: PLC0415

        return Reply(await requests.search(self.services, scim, [self.scim_type], self.query()))

    @endpoint(raw_body=True, takes=_RESOURCE, query=_SELECTION, answer={201: _RESOURCE}, **_COMMON)
    async def post(self, call: Call, body: Document) -> Reply:
        """Create."""
        return await self.handle(call, None, body)


class OneResourceHandler(ResourceHandler):
    """One resource."""

    @endpoint(query=_SELECTION, answer={200: _RESOURCE, 304: None}, **_COMMON)
    async def get(self, call: Call, resource_id: str) -> Reply:
        """Retrieve."""
        return await self.handle(call, resource_id)

    @endpoint(raw_body=True, takes=_RESOURCE, query=_SELECTION, answer=_RESOURCE, **_COMMON)
    async def put(self, call: Call, resource_id: str, body: Document) -> Reply:
        """Replace."""
        return await self.handle(call, resource_id, body)

    @endpoint(raw_body=True, takes="api/scim-patch.request.json", query=_SELECTION, answer=_RESOURCE, **_COMMON)
    async def patch(self, call: Call, resource_id: str, body: Document) -> Reply:
        """Patch."""
        return await self.handle(call, resource_id, body)

    @endpoint(answer={204: None}, **_COMMON)
    async def delete(self, call: Call, resource_id: str) -> Reply:
        """Delete."""
        return await self.handle(call, resource_id)


class SearchHandler(ScimHandler):
    """The search of resources by a request body (RFC 7644 section 3.4.3)."""

    scim_types: tuple[str, ...]

    @endpoint(raw_body=True, takes="api/scim-search.request.json", answer=_LIST, **_COMMON)
    async def post(self, call: Call, body: Document) -> Reply:
        """Search by a SearchRequest."""
        scim = await self.scim_call(call)
        from identity.operations.scim import requests  # noqa: PLC0415

        return Reply(await requests.search(self.services, scim, self.scim_types, body))


class BulkHandler(ScimHandler):
    """Several operations in one request (RFC 7644 section 3.7)."""

    @endpoint(raw_body=True, takes="api/scim-bulk.json", answer="api/scim-bulk.json", **_COMMON)
    async def post(self, call: Call, body: Document) -> Reply:
        """Run the operations of a BulkRequest."""
        scim = await self.scim_call(call)
        from identity.operations.scim import bulk  # noqa: PLC0415

        return Reply(await bulk.run(self.services, scim, body))


class ConfigHandler(ScimHandler):
    """The supported features of the protocol (RFC 7643 section 5)."""

    @endpoint(answer=_RESOURCE, **_COMMON)
    async def get(self, call: Call) -> Reply:
        """Retrieve the ServiceProviderConfig."""
        scim = await self.scim_call(call)
        from identity.operations.scim import discovery  # noqa: PLC0415

        return Reply(discovery.service_provider_config(self.services, scim))


class ResourceTypesHandler(ScimHandler):
    """The resource types (RFC 7643 section 6)."""

    @endpoint(query={"filter": "text"}, answer=_LIST, **_COMMON)
    async def get(self, call: Call) -> Reply:
        """Retrieve all ResourceTypes."""
        return await self.found(call)

    async def found(self, call: Call, resource_type: str | None = None) -> Reply:
        """Return all, or the one with this id."""
        scim = await self.scim_call(call)
        from identity.operations.scim import discovery  # noqa: PLC0415

        discovery.require_no_filter(self.query())
        return Reply(discovery.resource_types(scim, resource_type))


class ResourceTypeHandler(ResourceTypesHandler):
    """A resource type (RFC 7643 section 6)."""

    @endpoint(query={"filter": "text"}, answer=_RESOURCE, **_COMMON)
    async def get(self, call: Call, resource_type_id: str) -> Reply:
        """Retrieve one ResourceType."""
        return await self.found(call, resource_type_id)


class SchemasHandler(ScimHandler):
    """The schemas of the tenant (RFC 7643 section 7)."""

    @endpoint(query={"filter": "text"}, answer=_LIST, **_COMMON)
    async def get(self, call: Call) -> Reply:
        """Retrieve all Schemas."""
        return await self.found(call)

    async def found(self, call: Call, urn: str | None = None) -> Reply:
        """Return all, or the one with this id."""
        scim = await self.scim_call(call)
        from identity.operations.scim import discovery  # noqa: PLC0415

        discovery.require_no_filter(self.query())
        return Reply(discovery.schemas(scim, urn))


class SchemaHandler(SchemasHandler):
    """A schema of the tenant (RFC 7643 section 7)."""

    @endpoint(query={"filter": "text"}, answer=_RESOURCE, **_COMMON)
    async def get(self, call: Call, schema_id: str) -> Reply:
        """Retrieve one Schema."""
        return await self.found(call, schema_id)


class MeHandler(ScimHandler):
    """The alias of the authenticated user (RFC 7644 section 3.11): clients are entities, not users."""

    @endpoint(answer={}, **_COMMON)
    async def get(self, call: Call) -> Reply:
        """Refuse."""
        await self.scim_call(call)
        raise ScimError(501, "/Me is not supported: clients are entities, not users.")

    post = put = patch = delete = get


class UnknownPathHandler(ScimHandler):
    """Paths that the protocol does not define."""

    @endpoint(answer={}, **_COMMON)
    async def get(self, call: Call, path: str) -> Reply:
        """Refuse."""
        await self.scim_call(call)
        raise ScimError(404, "There is no such endpoint.")


def _routes_of(scim_type: str, path: str) -> list[Route]:
    return [
        Route(f"{_ROOT}/{path}", ResourcesHandler, {"scim_type": scim_type}),
        Route(f"{_ROOT}/{path}/.search", SearchHandler, {"scim_types": (scim_type,)}),
        Route(f"{_ROOT}/{path}/{{resource_id}}", OneResourceHandler, {"scim_type": scim_type}),
    ]


ROUTES = [
    *_routes_of("User", "Users"),
    *_routes_of("EnterpriseUser", "EnterpriseUsers"),
    *_routes_of("Group", "Groups"),
    Route(f"{_ROOT}/.search", SearchHandler, {"scim_types": ("User", "Group")}),
    Route(f"{_ROOT}/Bulk", BulkHandler),
    Route(f"{_ROOT}/ServiceProviderConfig", ConfigHandler),
    Route(f"{_ROOT}/ResourceTypes", ResourceTypesHandler),
    Route(f"{_ROOT}/ResourceTypes/{{resource_type_id}}", ResourceTypeHandler),
    Route(f"{_ROOT}/Schemas", SchemasHandler),
    Route(f"{_ROOT}/Schemas/{{schema_id}}", SchemaHandler),
    Route(f"{_ROOT}/Me", MeHandler),
    Route(f"{_ROOT}/{{path}}", UnknownPathHandler),
]
