"""/api/user-action."""

from __future__ import annotations

from identity.call import Call
from identity.domain.objects.resource_definition import Resource
from identity.operations.objects import crud
from identity.operations.user_actions import user_actions as operations
from identity.web.base_handlers import Route
from identity.web.crud import CollectionHandler, ObjectHandler
from identity.web.endpoint import Access, Reply, endpoint


class UserActionsHandler(CollectionHandler):
    """Create with a random id, retrieve all."""

    resource: Resource = operations.RESOURCE

    @endpoint(access=Access.API_KEY, query={"inactive": "boolean"})
    async def get(self, call: Call) -> Reply:
        """Retrieve the active user actions, or with `inactive` the others."""
        return await self.all(operations.retrieve_each(self.services, call, inactive=self.flag("inactive")))


class UserActionHandler(ObjectHandler):
    """One user action."""

    resource: Resource = operations.RESOURCE

    @endpoint(access=Access.API_KEY, query={"reactivate": "boolean"})
    async def put(self, call: Call, object_id: str) -> Reply:
        """Replace, or with `reactivate` switch on again."""
        if self.flag("reactivate"):
            return self.shown(await operations.reactivate(self.services, call, object_id))
        return self.shown(await crud.update(self.services, call, self.resource, self.json_object(), object_id))

    @endpoint(access=Access.API_KEY, query={"hardDelete": "boolean"})
    async def delete(self, call: Call, object_id: str) -> Reply:
        """Deactivate, or with `hardDelete` remove for good."""
        if self.flag("hardDelete"):
            await crud.delete(self.services, call, self.resource, object_id)
        else:
            await operations.deactivate(self.services, call, object_id)
        return Reply()


ROUTES = [
    Route("/api/user-action", UserActionsHandler),
    Route("/api/user-action/{object_id}", UserActionHandler),
]
