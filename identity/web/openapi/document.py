"""`/api/openapi.json`: every route of the API and of the protocols, without the pages, in OpenAPI 3.1."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from identity import __version__
from identity.call import Call, Document
from identity.operations.api.discovery import JsonDocument
from identity.web.base_handlers import ApiHandler, Route
from identity.web.cross_origin import CrossOriginAccess
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.openapi import operations, texts
from identity.web.openapi.components import Components
from identity.web.openapi.examples import Examples

_REFERENCE: Final = "/api/docs"
"""The pages that show this document."""
_PREFIXES: Final = ("/api/", "/oauth2/", "/.well-known/", "/{tenant_id}/")


def build(routes: Iterable[Route]) -> Document:
    """Build the document, which is the same for the same code."""
    components = Components()
    paths: dict[str, Document] = {}
    for route in routes:
        if route.template.startswith(_PREFIXES) and not route.template.startswith(_REFERENCE):
            for path, method, operation in operations.of_route(route, components):
                paths.setdefault(path, {})[method] = operation
    examples = Examples(components.schemas)
    for operation in (operation for path in paths.values() for operation in path.values()):
        examples.add_to(operation)
    tags = sorted({tag for path in paths.values() for operation in path.values() for tag in operation["tags"]})
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Identity",
            "version": __version__,
            "summary": "Users, applications, tokens and webhooks.",
            "description": "The management API and the OAuth 2.0 and OpenID Connect endpoints of this service. "
            "Every GET endpoint also accepts HEAD, with the same status and headers and without a body.",
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag, "description": f"The {tag} endpoints."} for tag in tags],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted(components.schemas.items())),
            "examples": dict(sorted(examples.components.items())),
            "parameters": texts.HEADERS,
            "securitySchemes": texts.SECURITY_SCHEMES,
        },
    }


class PreparedDocument:
    """The document as bytes, built at the first request."""

    def __init__(self, routes: Callable[[], Sequence[Route]]) -> None:
        self._routes = routes
        self._build: asyncio.Task[JsonDocument] | None = None

    async def get(self) -> JsonDocument:
        """Return the bytes; the first caller starts the build in a thread, and all callers await it."""
        if self._build is None:
            self._build = asyncio.create_task(asyncio.to_thread(lambda: JsonDocument(build(self._routes()))))
        return await asyncio.shield(self._build)


class OpenApiHandler(ApiHandler):
    """The OpenAPI document, which is public."""

    document: PreparedDocument
    cross_origin = CrossOriginAccess.OPEN

    @endpoint(access=Access.PUBLIC, tenancy=Tenancy.BY_OPERATION, answer={200: "api/openapi.response.json", 304: None})
    async def get(self, call: Call) -> Reply:
        """The description of the API in OpenAPI 3.1."""
        return self.prepared_reply(await self.document.get(), "public, max-age=300")


def routes(every: Callable[[], Sequence[Route]]) -> list[Route]:
    """Return the route of the document of `every` route."""
    return [Route("/api/openapi.json", OpenApiHandler, {"document": PreparedDocument(every)})]
