"""/api/key: the generic operations, generation and import."""

from __future__ import annotations

from identity.call import Call, Document
from identity.operations.configuration import keys as operations
from identity.web import crud
from identity.web.base_handlers import Route
from identity.web.endpoint import Access, Reply, endpoint


class GenerateHandler(crud.ResourceHandler):
    """Key generation."""

    resource = operations.RESOURCE

    @endpoint(access=Access.API_KEY, raw_body=True, takes="api/key.json", answer="api/key.json#key")
    async def post(self, call: Call, body: Document, object_id: str | None = None) -> Reply:
        """Generate, with a random id unless one is given."""
        return await self.respond(await operations.generate(self.services, call, body, object_id))


class ImportHandler(crud.ResourceHandler):
    """Key import."""

    resource = operations.RESOURCE

    @endpoint(access=Access.API_KEY, raw_body=True, takes="api/key.json", answer="api/key.json#key")
    async def post(self, call: Call, body: Document, object_id: str | None = None) -> Reply:
        """Import, with a random id unless one is given."""
        return await self.respond(await operations.import_key(self.services, call, body, object_id))


ROUTES = [
    Route("/api/key/generate", GenerateHandler),
    Route("/api/key/generate/{object_id}", GenerateHandler),
    Route("/api/key/import", ImportHandler),
    Route("/api/key/import/{object_id}", ImportHandler),
    *crud.routes(operations.RESOURCE),
]
