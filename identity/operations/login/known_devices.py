"""The devices of hosted logins: a cookie for each user who logged in with a browser, for as long as the tenant says."""

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
    """A cookie that lets a browser be known as a device of a user."""

    name: str
    value: str = dataclasses.field(repr=False)
    max_age_seconds: int


def is_new_device(services: Services, call: Call, user: Document) -> bool:
    """Whether a browser at one of our pages does not show that this user logged in with it before.

    Callers of the API have no cookies of ours: they say so themselves.
    """
    if call.devices is None:
        return False
    value = call.devices.get(cookie_name(user["id"]), "")
    expires = services.known_devices.expires(TenantId(user["tenantId"]), UserId(user["id"]), value)
    return expires is None or expires <= call.now


def renew_cookie(
    services: Services, tenant: Document, user_id: UserId, shown: str | None, now: Instant
) -> DeviceCookie | None:
    """The cookie for a user who is logged in; None where the browser `shown` one that has half its time left."""
    seconds = int(tenant["ssoConfiguration"]["deviceTrustTimeToLiveInSeconds"])
    tenant_id = TenantId(tenant["id"])
    expires = services.known_devices.expires(tenant_id, user_id, shown or "")
    if expires is not None and expires > later(now, seconds=seconds // 2):
        return None
    value = services.known_devices.issue(tenant_id, user_id, later(now, seconds=seconds))
    return DeviceCookie(cookie_name(user_id), value, seconds)


def cookie_name(user_id: str) -> str:
    """The name of a user's cookie, which does not tell whose it is."""
    return COOKIE_PREFIX + fingerprint(user_id)[:22]
