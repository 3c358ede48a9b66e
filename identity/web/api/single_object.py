"""/api/integration and /api/system-configuration: one object per instance, without an id in its path."""

from __future__ import annotations

from identity.call import Call, Document
from identity.operations.configuration import integrations, system_configuration
from identity.operations.objects import crud
from identity.store.system_settings import DOCUMENT_ID
from identity.web.base_handlers import Route
from identity.web.crud import ResourceHandler
from identity.web.endpoint import Access, Reply, Tenancy, endpoint

_SCHEMA = "{resource.schema}"
_ANSWER = "{resource.schema}#{resource.name}"


class SingleObjectHandler(ResourceHandler):
    """The object."""

    verbs = {"GET": "retrieve", "PUT": "update", "PATCH": "patch"}

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.BY_OPERATION, answer=_ANSWER)
    async def get(self, call: Call) -> Reply:
        """Retrieve."""
        return await self.respond(await crud.retrieve(self.services, call, self.resource, DOCUMENT_ID))

    @endpoint(access=Access.API_KEY, raw_body=True, tenancy=Tenancy.BY_OPERATION, takes=_SCHEMA, answer=_ANSWER)
    async def put(self, call: Call, body: Document) -> Reply:
        """Replace."""
        return await self.respond(await crud.update(self.services, call, self.resource, body, DOCUMENT_ID))

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.BY_OPERATION, takes=_SCHEMA, answer=_ANSWER)
    async def patch(self, call: Call) -> Reply:
        """Change parts."""
        kind, patch = self.patch_body()
        return await self.respond(await crud.patch(self.services, call, self.resource, kind, patch, DOCUMENT_ID))


ROUTES = [
    Route("/api/integration", SingleObjectHandler, {"resource": integrations.RESOURCE}),
    Route("/api/system-configuration", SingleObjectHandler, {"resource": system_configuration.RESOURCE}),
]
