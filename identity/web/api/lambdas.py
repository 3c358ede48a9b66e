"""/api/lambda: the generic verbs, and the list of one type."""

from __future__ import annotations

from identity.call import Call
from identity.domain.objects.resource_definition import Resource
from identity.operations.lambdas import lambdas as operations
from identity.web.base_handlers import Route
from identity.web.crud import CollectionHandler, ObjectHandler, SearchHandler
from identity.web.endpoint import Access, Reply, endpoint


class LambdasHandler(CollectionHandler):
    """Create with a random id, retrieve all or those of a type."""

    resource: Resource = operations.RESOURCE

    @endpoint(access=Access.API_KEY, query={"type": "text"})
    async def get(self, call: Call) -> Reply:
        """Retrieve all, or those of a type."""
        found = await operations.retrieve_all(self.services, self.query().get("type", "").strip() or None)
        return Reply({self.resource.plural: self.listed(found)})


class LambdaHandler(ObjectHandler):
    """One lambda."""

    resource: Resource = operations.RESOURCE


class LambdaSearchHandler(SearchHandler):
    """Search."""

    resource: Resource = operations.RESOURCE


ROUTES = [
    Route("/api/lambda/search", LambdaSearchHandler),
    Route("/api/lambda", LambdasHandler),
    Route("/api/lambda/{object_id}", LambdaHandler),
]
