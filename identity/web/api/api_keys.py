"""/api/api-key, for key managers only."""

from __future__ import annotations

from identity.call import Call
from identity.operations.configuration import api_keys
from identity.operations.objects import crud as crud_operations
from identity.web import crud
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, Tenancy, endpoint


class ApiKeysHandler(crud.CollectionHandler, access=Access.KEY_MANAGER, tenancy=Tenancy.BY_OPERATION):
    """Create, or copy, with a random id."""

    is_row = False

    @endpoint(access=Access.KEY_MANAGER, tenancy=Tenancy.BY_OPERATION, answer={})
    async def get(self, call: Call) -> Reply:
        """Refuse: the id is missing."""
        raise self.missing_id()


class ApiKeyHandler(crud.ObjectHandler, access=Access.KEY_MANAGER, tenancy=Tenancy.BY_OPERATION):
    """One API key; it stops working as soon as it is deleted."""

    is_row = False


class ApiKeySearchHandler(ApiHandler):
    """`/api/api-key/search`, an extension."""

    @endpoint(access=Access.KEY_MANAGER, tenancy=Tenancy.BY_OPERATION, answer="api/api-keys.response.json")
    async def get(self, call: Call) -> Reply:
        """Retrieve every API key that the caller may manage, without its value."""
        found = await api_keys.retrieve_all(self.services, call)
        shown = [crud_operations.to_response(self.services, api_keys.RESOURCE, api_key) for api_key in found]
        return Reply({"apiKeys": shown, "total": len(shown)})


ROUTES = [
    Route("/api/api-key/search", ApiKeySearchHandler),
    *crud.routes(api_keys.RESOURCE, collection=ApiKeysHandler, item=ApiKeyHandler),
]
