"""The risk of logins: collects the facts about a login that `domain.login.client_risk` evaluates."""

from __future__ import annotations

import asyncio

from identity.call import ApiKeyCaller, Call, Document
from identity.domain.login import client_risk
from identity.domain.login.client_risk import ClientRisk, RiskFacts
from identity.domain.objects import event_info, ip_access
from identity.domain.two_factor import two_factor
from identity.ids import TenantId
from identity.operations.login import known_devices, threat_detection
from identity.services import Services


def is_assessed(tenant: Document, application: Document | None) -> bool:
    """Return whether every login is assessed: the tenant enables it, or the login policy depends on the risk."""
    return is_enabled(tenant) or two_factor.login_policy(tenant, application) in client_risk.POLICY_LEVELS


def is_enabled(tenant: Document) -> bool:
    """Return whether the tenant reports every signal of the level HIGH as a threat."""
    return bool(tenant.get("clientRiskConfiguration", {}).get("enabled", False))


async def assess(
    services: Services, call: Call, tenant: Document, user: Document, *, is_new_device: bool, is_trusted: bool
) -> ClientRisk:
    """Assess a login of a user, as stored before it.

    `is_new_device` is what an API caller reports about the device, `is_trusted` whether a second factor was completed
    on it. On the first login of a user every device is new, which says nothing.
    """
    place = threat_detection.find_place(services, call)
    is_new = is_new_device or known_devices.is_new_device(services, call, user)
    failures, is_blocklisted = await asyncio.gather(
        services.logs.failed_logins.find(TenantId(user["tenantId"]), user["id"]),
        _is_blocklisted(services, call.user_address),
    )
    facts = RiskFacts(
        call.now,
        user,
        is_new_device=is_new and "lastLoginInstant" in user,
        is_travel_impossible=bool(threat_detection.find_threats(user["private"].get("place"), place)),
        is_device_trusted=is_trusted,
        is_address_blocklisted=is_blocklisted,
        user_agent=_user_agent(call),
        failures=[entry["instant"] for entry in failures],
    )
    return client_risk.assess(facts, tenant.get("clientRiskConfiguration", {}), services.config.client_risk)


async def _is_blocklisted(services: Services, address: str | None) -> bool:
    """Return whether a file or an IP access control list of the operator blocks the address; None is unknown."""
    if address is None:
        return False
    if services.limits.blocklist.contains(address):
        return True
    for list_id in services.config.client_risk.blocklist_ids:
        found = await services.limits.ip_access_control_lists.find_cached(None, list_id)
        if found is not None and not ip_access.allows(found["entries"], address):
            return True
    return False


def _user_agent(call: Call) -> str | None:
    """Return the user agent of the user; None where only that of a backend is known."""
    is_backend = isinstance(call.caller, ApiKeyCaller) or call.is_client_authenticated
    if is_backend and "userAgent" not in call.event_info:
        return None
    return str(event_info.build(call).get("userAgent", ""))
