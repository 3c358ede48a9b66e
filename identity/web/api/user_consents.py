"""/api/user/consent and /api/user/scope-consent: consents of users, and to scopes (an extension of our own)."""

from __future__ import annotations

from identity.call import Call
from identity.operations.api import scope_consent_api
from identity.operations.users import user_consents as operations
from identity.web import crud
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, calls, endpoint


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


class UserScopeConsentsHandler(ApiHandler):
    """The scope consents of a user."""

    get = calls(
        scope_consent_api.retrieve_all,
        "Retrieve the scope consents of a user.",
        wrapper="scopeConsents",
        answer="api/scope-consents.response.json",
    )


class ScopeConsentHandler(ApiHandler):
    """The scope consent of a user for one application."""

    get = calls(
        scope_consent_api.retrieve,
        "Retrieve the scope consent for an application.",
        wrapper="scopeConsent",
        answer="api/scope-consent.response.json",
    )

    delete = calls(
        scope_consent_api.withdraw, "Withdraw it, and revoke the refresh tokens of the user for the application."
    )


ROUTES = [
    *crud.routes(operations.RESOURCE, collection=UserConsentsHandler, item=UserConsentHandler),
    Route("/api/user/scope-consent/{user_id}", UserScopeConsentsHandler),
    Route("/api/user/scope-consent/{user_id}/{application_id}", ScopeConsentHandler),
]
