"""The whole document: every route of the API and of the protocols, its pages left out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from identity import __version__
from identity.call import Document
from identity.operations.api.discovery import JsonDocument
from identity.web.base_handlers import Route
from identity.web.openapi import operations
from identity.web.openapi.components import Components

_PREFIXES: Final = ("/api/", "/oauth2/", "/.well-known/", "/{tenant_id}/")

_SECURITY_SCHEMES: Final = {
    "apiKey": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "An API key, with nothing before it.",
    },
    "bearer": {"type": "http", "scheme": "bearer", "description": "An access token (RFC 6750)."},
    "client": {
        "type": "http",
        "scheme": "basic",
        "description": "Client id and secret, each encoded as in a form (RFC 6749 section 2.3.1); or both in the form.",
    },
}

_TENANT: Final = {
    "name": "X-FusionAuth-TenantId",
    "in": "header",
    "description": "The tenant to work in; needed where several exist and neither the key nor the path tells it.",
    "schema": {"type": "string", "format": "uuid"},
}

_PROOF: Final = {
    "name": "DPoP",
    "in": "header",
    "description": "A proof of the key that tokens are, or shall be, bound to (RFC 9449 section 4).",
    "schema": {"type": "string"},
}


def of_routes(routes: Iterable[Route]) -> Document:
    """The document, the same for the same code."""
    components = Components()
    paths: dict[str, Document] = {}
    for route in routes:
        if route.template.startswith(_PREFIXES):
            for path, method, operation in operations.of_route(route, components):
                paths.setdefault(path, {})[method] = operation
    tags = sorted({tag for path in paths.values() for operation in path.values() for tag in operation["tags"]})
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Identity",
            "version": __version__,
            "summary": "Users, applications, tokens and webhooks.",
            "description": "The management API and the OAuth 2.0 and OpenID Connect endpoints of this service. "
            "HEAD is answered wherever GET is, with the same status and headers and without a body.",
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag, "description": f"The {tag} endpoints."} for tag in tags],
        "paths": {path: paths[path] for path in sorted(paths)},
        "components": {
            "schemas": {name: components.schemas[name] for name in sorted(components.schemas)},
            "parameters": {"proof": _PROOF, "tenant": _TENANT},
            "securitySchemes": _SECURITY_SCHEMES,
        },
    }


class PreparedDocument:
    """The document as bytes, built at the first request."""

    def __init__(self, routes: Callable[[], Sequence[Route]]) -> None:
        self._routes = routes
        self._making: asyncio.Task[JsonDocument] | None = None

    async def get(self) -> JsonDocument:
        """The bytes; the first caller makes them, in a thread, and the others wait."""
        if self._making is None:
            self._making = asyncio.create_task(asyncio.to_thread(self._made))
        return await asyncio.shield(self._making)

    def _made(self) -> JsonDocument:
        return JsonDocument(of_routes(self._routes()))
