"""/api/user/scope-consent: remembered consents of users to scopes of applications. An extension of our own."""

from __future__ import annotations

from identity.operations.api import scope_consent_api as operations
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import calls


class UserScopeConsentsHandler(ApiHandler):
    """The scope consents of a user."""

    get = calls(
        operations.retrieve_all,
        "Retrieve the scope consents of a user.",
        wrapper="scopeConsents",
        answer="api/scope-consents.response.json",
    )


class ScopeConsentHandler(ApiHandler):
    """The scope consent of a user for one application."""

    get = calls(
        operations.retrieve,
        "Retrieve the scope consent for an application.",
        wrapper="scopeConsent",
        answer="api/scope-consent.response.json",
    )

    delete = calls(operations.withdraw, "Withdraw it, and revoke the refresh tokens of the user for the application.")


ROUTES = [
    Route("/api/user/scope-consent/{user_id}", UserScopeConsentsHandler),
    Route("/api/user/scope-consent/{user_id}/{application_id}", ScopeConsentHandler),
]
