"""/api/user/scope-consent: remembered consents of users to scopes of applications. An extension of our own."""

from __future__ import annotations

from identity.call import Call
from identity.operations.api import scope_consent_api as operations
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, endpoint


class UserScopeConsentsHandler(ApiHandler):
    """The scope consents of a user."""

    @endpoint(access=Access.API_KEY, answer="api/scope-consents.response.json")
    async def get(self, call: Call, user_id: str) -> Reply:
        """Retrieve the scope consents of a user."""
        return Reply({"scopeConsents": await operations.retrieve_all(self.services, call, user_id)})


class ScopeConsentHandler(ApiHandler):
    """The scope consent of a user for one application."""

    @endpoint(access=Access.API_KEY, answer="api/scope-consent.response.json")
    async def get(self, call: Call, user_id: str, application_id: str) -> Reply:
        """Retrieve the scope consent for an application."""
        return Reply({"scopeConsent": await operations.retrieve(self.services, call, user_id, application_id)})

    @endpoint(access=Access.API_KEY)
    async def delete(self, call: Call, user_id: str, application_id: str) -> Reply:
        """Withdraw it, and revoke the refresh tokens of the user for the application."""
        await operations.withdraw(self.services, call, user_id, application_id)
        return Reply()


ROUTES = [
    Route("/api/user/scope-consent/{user_id}", UserScopeConsentsHandler),
    Route("/api/user/scope-consent/{user_id}/{application_id}", ScopeConsentHandler),
]
