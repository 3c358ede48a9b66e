"""/api/user/consent: consents of users."""

from __future__ import annotations

from identity.call import Call
from identity.operations.users import user_consents as operations
from identity.web import crud
from identity.web.endpoint import Access, Reply, endpoint


class UserConsentsHandler(crud.ResourceHandler):
    """Create with a random id, retrieve those of a user."""

    is_row = False
    post = crud.CollectionHandler.post

    @endpoint(access=Access.API_KEY, query={"userId": "uuid"}, answer="api/user-consents.response.json")
    async def get(self, call: Call) -> Reply:
        """Retrieve the consents of a user."""
        user_id = self.required_query_id("userId")
        return Reply({"userConsents": await operations.retrieve_of_user(self.services, call, user_id)})


class UserConsentHandler(crud.ObjectHandler):
    """One consent; DELETE revokes it."""

    is_row = False


ROUTES = [*crud.routes(operations.RESOURCE, collection=UserConsentsHandler, item=UserConsentHandler)]
