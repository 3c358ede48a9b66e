"""/api/lambda: the generic operations, and the list of one type."""

from __future__ import annotations

from identity.call import Call
from identity.operations.lambdas import lambdas as operations
from identity.web import crud
from identity.web.endpoint import Access, Reply, endpoint


class LambdasHandler(crud.CollectionHandler):
    """Create with a random id, retrieve all or those of a type."""

    @endpoint(access=Access.API_KEY, query={"type": "text"})
    async def get(self, call: Call) -> Reply:
        """Retrieve all, or those of a type."""
        found = await operations.retrieve_all(self.services, self.query().get("type", "").strip() or None)
        return Reply({self.resource.plural: [await self.to_response(document) for document in found]})


ROUTES = [*crud.routes(operations.RESOURCE, collection=LambdasHandler)]
