"""Breach detection: the status of a password, and the errors of a breached new password."""

from __future__ import annotations

from typing import Final

from identity.call import Document
from identity.domain.login import breach_detection as breach_rules
from identity.domain.passwords import password_policy
from identity.errors import FieldError
from identity.operations.objects import features
from identity.services import Services

FEATURE: Final = "breachedPasswordDetection"


def is_enabled(services: Services, tenant: Document) -> bool:
    """Whether the tenant enables breach detection and the instance has the feature."""
    return bool(breach_rules.settings_of(tenant)["enabled"]) and features.is_on(services, FEATURE)


async def check_password(services: Services, tenant: Document, user: Document, password: str) -> str | None:
    """Return the `breachedPasswordStatus` of a password, by the tenant's match mode.

    None where detection is disabled, or the source of breach data is unavailable: an outage affects no user.
    """
    if not is_enabled(services, tenant):
        return None
    statuses = breach_rules.STATUSES_BY_MATCH_MODE[breach_rules.settings_of(tenant)["matchMode"]]
    is_unavailable = False
    if services.config.breaches.pairs:
        for status, text in breach_rules.credential_pairs(user, password):
            if status not in statuses:
                continue
            is_found = await services.runtime.breached_passwords.contains(breach_rules.digest(text))
            if is_found:
                return status
            is_unavailable |= is_found is None
    if password_policy.is_common(password):
        return breach_rules.COMMON_MATCH
    if breach_rules.ANY_MATCH in statuses:
        is_found = await services.runtime.breached_passwords.contains(breach_rules.digest(password))
        if is_found:
            return breach_rules.ANY_MATCH
        is_unavailable |= is_found is None
    return None if is_unavailable else breach_rules.NOT_BREACHED


async def problems(services: Services, tenant: Document, user: Document, password: str, path: str) -> list[FieldError]:
    """Return the error of a breached new password, reported on `path`."""
    found = await check_password(services, tenant, user, password)
    if found in {None, breach_rules.NOT_BREACHED}:
        return []
    return [
        FieldError.of(
            breach_rules.ERROR_CODES[str(found)], path, "This password appeared in a data breach. Choose another one."
        )
    ]
