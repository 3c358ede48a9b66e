"""Known devices: one signed cookie per user who logged in with a browser, valid for the tenant's device trust TTL."""

from __future__ import annotations

import dataclasses
from typing import Final

from identity.call import Call, Document
from identity.ids import TenantId, UserId, fingerprint
from identity.instants import Instant, later
from identity.services import Services

COOKIE_PREFIX: Final = "fusionauth.known-device."


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceCookie:
    """A cookie that marks a browser as a known device of a user."""

    name: str
    value: str = dataclasses.field(repr=False)
    max_age_seconds: int


def is_new_device(services: Services, call: Call, user: Document) -> bool:
    """Whether a browser has no live device cookie of this user.

    False for API callers, which have no cookies and report new devices themselves.
    """
    if call.devices is None:
        return False
    value = call.devices.get(cookie_name(user["id"]), "")
    expires = services.sessions.known_devices.expires(TenantId(user["tenantId"]), UserId(user["id"]), value)
    return expires is None or expires <= call.now


def renew_cookie(
    services: Services, tenant: Document, user_id: UserId, current: str | None, now: Instant
) -> DeviceCookie | None:
    """Return a new cookie for a logged-in user, or None while the `current` one has over half its lifetime left."""
    seconds = int(tenant["ssoConfiguration"]["deviceTrustTimeToLiveInSeconds"])
    tenant_id = TenantId(tenant["id"])
    expires = services.sessions.known_devices.expires(tenant_id, user_id, current or "")
    if expires is not None and expires > later(now, seconds=seconds // 2):
        return None
    value = services.sessions.known_devices.issue(tenant_id, user_id, later(now, seconds=seconds))
    return DeviceCookie(cookie_name(user_id), value, seconds)


def cookie_name(user_id: str) -> str:
    """Return the name of a user's cookie, which does not reveal the user id."""
    return COOKIE_PREFIX + fingerprint(user_id)[:22]
