"""Breached passwords: what a password is judged to be, and why a new one is refused."""

from __future__ import annotations

from typing import Final

from identity.call import Document
from identity.domain.login import breach_detection as rules
from identity.errors import FieldError
from identity.operations.objects import features
from identity.services import Services

FEATURE: Final = "breachedPasswordDetection"


def is_enabled(services: Services, tenant: Document) -> bool:
    """Whether the tenant wants passwords to be looked for, and the operator lets it."""
    return bool(rules.settings_of(tenant)["enabled"]) and features.is_on(services, FEATURE)


async def check_password(services: Services, tenant: Document, user: Document, password: str) -> str | None:
    """The breachedPasswordStatus of a password, by what counts for the tenant.

    None when nothing is looked for, or the source could not say: nobody is to suffer from that.
    """
    if not is_enabled(services, tenant):
        return None
    counting = rules.STATUSES_BY_MATCH_MODE[rules.settings_of(tenant)["matchMode"]]
    is_unknown = False
    if services.config.breaches.pairs:
        for find, text in rules.credential_pairs(user, password):
            seen = await services.breached_passwords.contains(rules.digest(text)) if find in counting else False
            if seen:
                return find
            is_unknown |= seen is None
    if _is_common(password):
        return rules.COMMON_MATCH
    if rules.ANY_MATCH in counting:
        seen = await services.breached_passwords.contains(rules.digest(password))
        if seen:
            return rules.ANY_MATCH
        is_unknown |= seen is None
    return None if is_unknown else rules.NOT_BREACHED


async def problems(services: Services, tenant: Document, user: Document, password: str, path: str) -> list[FieldError]:
    """The error of a new password that is breached, told at `path`."""
    found = await check_password(services, tenant, user, password)
    if found in {None, rules.NOT_BREACHED}:
        return []
    return [
        FieldError.of(rules.ERROR_CODES[str(found)], path, "The password became known to others; choose another one.")
    ]


def _is_common(password: str) -> bool:
    # Imported by those who look: the list is of no use to the others.
    from identity.domain.passwords.common_passwords import COMMON_PASSWORDS  # noqa: PLC0415

    return password.casefold() in COMMON_PASSWORDS
