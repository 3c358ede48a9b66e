"""The Reactor API: which licensed features are enabled. All are free; an operator may disable some."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.login import breach_detection
from identity.operations.objects import features
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

TENANT_MANAGER = "tenantManagerApplication"
"""A feature that this service does not have."""

_COMMON = "matchedCommonPasswordCount"
_COUNT_OF = {
    breach_detection.COMMON_MATCH: _COMMON,
    breach_detection.EXACT_MATCH: "matchedExactCount",
    breach_detection.ANY_MATCH: "matchedPasswordCount",
    breach_detection.SUB_ADDRESS_MATCH: "matchedSubAddressCount",
}
_COUNTED = ("actionRequired", *_COUNT_OF.values(), "passwordsCheckedCount")


def status(services: Services) -> Document:
    """Return the status of each feature, by its name in `license.features`."""
    off = {*features.off(services, FEATURES), TENANT_MANAGER}
    return {"licensed": True, **{name: "DISABLED" if name in off else "ACTIVE" for name in FEATURES}}


async def metrics(services: Services, call: Call) -> Document:
    """Return the number of users by breached password status, for each tenant that the caller may see."""
    found: Document = {}
    for row in await services.directory.users.count_breached_across_tenants():
        tenant_id, status = row["_id"]["tenantId"], row["_id"]["status"]
        if call.caller.tenant_id not in {None, tenant_id}:
            continue
        counts = found.setdefault(tenant_id, dict.fromkeys(_COUNTED, 0))
        counts["passwordsCheckedCount"] += row["count"]
        if status in _COUNT_OF:
            counts[_COUNT_OF[status]] += row["count"]
            counts["actionRequired"] += row["count"]
    # The name of the count of common passwords in earlier releases of this service.
    shown = {
        tenant_id: {**counts, "matchedCommonPasswordsCount": counts[_COMMON]} for tenant_id, counts in found.items()
    }
    return {"breachedPasswordMetrics": shown}
