"""/api/user-action."""

from __future__ import annotations

from identity.call import Call
from identity.operations.user_actions import user_actions as operations
from identity.web import crud
from identity.web.crud import CollectionHandler, ObjectHandler
from identity.web.endpoint import Access, Reply, endpoint

_SCHEMA = operations.RESOURCE.schema
_OBJECT = f"{_SCHEMA}#userAction"


class UserActionsHandler(CollectionHandler):
    """Create with a random id, retrieve all."""

    @endpoint(access=Access.API_KEY, query={"inactive": "boolean"})
    async def get(self, call: Call) -> Reply:
        """Retrieve the active user actions, or with `inactive` the others."""
        return await self.respond_all(operations.retrieve_all(self.services, call, inactive=self.flag("inactive")))


class UserActionHandler(ObjectHandler):
    """One user action."""

    @endpoint(access=Access.API_KEY, query={"reactivate": "boolean"}, takes=_SCHEMA, answer=_OBJECT)
    async def put(self, call: Call, object_id: str) -> Reply:
        """Replace, or with `reactivate` activate again."""
        if self.flag("reactivate"):
            return await self.respond(await operations.reactivate(self.services, call, object_id))
        return await self.respond(await self.operation("update", call)(self.json_object(), object_id))

    @endpoint(access=Access.API_KEY, query={"hardDelete": "boolean"})
    async def delete(self, call: Call, object_id: str) -> Reply:
        """Deactivate, or with `hardDelete` delete."""
        if self.flag("hardDelete"):
            await self.operation("delete", call)(object_id)
        else:
            await operations.deactivate(self.services, call, object_id)
        return Reply()


ROUTES = [*crud.routes(operations.RESOURCE, collection=UserActionsHandler, item=UserActionHandler)]
