"""/api/theme: the generic verbs, and copies."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.objects.resource_definition import Resource
from identity.operations.configuration import themes as operations
from identity.web.base_handlers import Route
from identity.web.crud import CollectionHandler, ObjectHandler, SearchHandler
from identity.web.endpoint import Access, Reply, endpoint


class ThemesHandler(CollectionHandler):
    """Create with a random id, retrieve all."""

    resource: Resource = operations.RESOURCE

    @endpoint(access=Access.API_KEY, raw_body=True)
    async def post(self, call: Call, body: Document) -> Reply:
        """Create, or copy."""
        return self.shown(await operations.create(self.services, call, body, None))


class ThemeHandler(ObjectHandler):
    """One theme."""

    resource: Resource = operations.RESOURCE

    @endpoint(access=Access.API_KEY, raw_body=True)
    async def post(self, call: Call, object_id: str, body: Document) -> Reply:
        """Create, or copy."""
        return self.shown(await operations.create(self.services, call, body, object_id))


class ThemeSearchHandler(SearchHandler):
    """Search."""

    resource: Resource = operations.RESOURCE


ROUTES = [
    Route("/api/theme/search", ThemeSearchHandler),
    Route("/api/theme", ThemesHandler),
    Route("/api/theme/{object_id}", ThemeHandler),
]
