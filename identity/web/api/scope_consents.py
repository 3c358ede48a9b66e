"""/api/user/scope-consent: what users allowed applications, as far as it is remembered. An extension of our own."""

from __future__ import annotations

from identity.call import Call
from identity.operations.api import scope_consent_api as operations
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, endpoint


class UserScopeConsentsHandler(ApiHandler):
    """All decisions of a user."""

    @endpoint(access=Access.API_KEY, answer="api/scope-consents.response.json")
    async def get(self, call: Call, user_id: str) -> Reply:
        """Retrieve what a user allowed applications."""
        return Reply({"scopeConsents": await operations.retrieve_all(self.services, call, user_id)})


class ScopeConsentHandler(ApiHandler):
    """The decision of a user about one application."""

    @endpoint(access=Access.API_KEY, answer="api/scope-consent.response.json")
    async def get(self, call: Call, user_id: str, application_id: str) -> Reply:
        """Retrieve what a user allowed an application."""
        return Reply({"scopeConsent": await operations.retrieve(self.services, call, user_id, application_id)})

    @endpoint(access=Access.API_KEY)
    async def delete(self, call: Call, user_id: str, application_id: str) -> Reply:
        """Withdraw it: the user is asked again, and the application's refresh tokens of the user end."""
        await operations.withdraw(self.services, call, user_id, application_id)
        return Reply()


ROUTES = [
    Route("/api/user/scope-consent/{user_id}", UserScopeConsentsHandler),
    Route("/api/user/scope-consent/{user_id}/{application_id}", ScopeConsentHandler),
]
