"""What the API calls the reactor: which features are on. All of them are free; an operator may switch some off."""

from __future__ import annotations

from identity.call import Document
from identity.services import Services

FEATURES = (
    "advancedIdentityProviders",
    "advancedLambdas",
    "advancedMultiFactorAuthentication",
    "advancedOAuthScopes",
    "advancedOAuthScopesCustomScopes",
    "advancedOAuthScopesThirdPartyApplications",
    "advancedRegistration",
    "applicationMultiFactorAuthentication",
    "applicationThemes",
    "breachedPasswordDetection",
    "connectors",
    "dPoP",
    "entityManagement",
    "intelligentMFA",
    "multiFactorLambdas",
    "scimServer",
    "tenantManagerApplication",
    "threatDetection",
    "universalApplication",
    "webAuthn",
    "webAuthnPlatformAuthenticators",
    "webAuthnRoamingAuthenticators",
)


def status(services: Services) -> Document:
    """Each feature as `license.features` has it."""
    has = services.config.license.has
    return {"licensed": True, **{name: "ACTIVE" if has(name) else "DISABLED" for name in FEATURES}}
