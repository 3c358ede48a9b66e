"""/api/api-key, for key managers only."""

from __future__ import annotations

from identity.call import Call
from identity.operations.configuration import api_keys
from identity.web import crud
from identity.web.endpoint import Access, Reply, Tenancy, endpoint


class ApiKeysHandler(crud.CollectionHandler, access=Access.KEY_MANAGER, tenancy=Tenancy.BY_OPERATION):
    """Create, or copy, with a random id; keys cannot be listed."""

    is_row = False

    @endpoint(access=Access.KEY_MANAGER, tenancy=Tenancy.BY_OPERATION, answer={})
    async def get(self, call: Call) -> Reply:
        """Refuse: the id is missing."""
        raise self.missing_id()


class ApiKeyHandler(crud.ObjectHandler, access=Access.KEY_MANAGER, tenancy=Tenancy.BY_OPERATION):
    """One API key; it stops working as soon as it is deleted."""

    is_row = False


ROUTES = [*crud.routes(api_keys.RESOURCE, collection=ApiKeysHandler, item=ApiKeyHandler)]
