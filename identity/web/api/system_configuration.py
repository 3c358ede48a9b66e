"""/api/system-configuration: one object without an id."""

from __future__ import annotations

from identity.call import Call, Document
from identity.operations.configuration import system_configuration
from identity.operations.objects import crud
from identity.store.system_settings import DOCUMENT_ID
from identity.web.base_handlers import Route
from identity.web.crud import ResourceHandler
from identity.web.endpoint import Access, Reply, Tenancy, endpoint

_SCHEMA = "api/system-configuration.json"
_ANSWER = f"{_SCHEMA}#systemConfiguration"


class SystemConfigurationHandler(ResourceHandler):
    """The configuration."""

    resource = system_configuration.RESOURCE
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


ROUTES = [Route("/api/system-configuration", SystemConfigurationHandler)]
