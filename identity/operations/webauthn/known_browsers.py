"""The cookie of browsers in which a user used, added or declined a passkey: one per tenant, which names the user."""

from __future__ import annotations

import dataclasses
from typing import Final

from identity.call import Call, Document
from identity.ids import TenantId, UserId, fingerprint
from identity.instants import later
from identity.services import Services

COOKIE_PREFIX: Final = "fusionauth.webauthn-reauth."

_DECLINED: Final = "declined"


@dataclasses.dataclass(frozen=True, slots=True)
class BrowserCookie:
    """The cookie to set."""

    name: str
    value: str = dataclasses.field(repr=False)
    max_age_seconds: int


def cookie_name(tenant: Document) -> str:
    """Return the name of a tenant's cookie."""
    return COOKIE_PREFIX + fingerprint(tenant["id"])[:22]


def is_known(call: Call, tenant: Document) -> bool:
    """Whether the browser of a page has the cookie, of whichever user; True for callers that are no browsers."""
    return call.devices is None or cookie_name(tenant) in call.devices


def user_cookie(services: Services, call: Call, tenant: Document, user: Document) -> BrowserCookie:
    """Return the cookie that names a user who has a passkey in this browser."""
    seconds = _lifetime_seconds(tenant)
    expires = later(call.now, seconds=seconds)
    signed = services.sessions.known_devices.issue(TenantId(tenant["id"]), _subject(user["id"]), expires)
    return BrowserCookie(cookie_name(tenant), f"{user['id']}.{signed}", seconds)


def declined_cookie(tenant: Document) -> BrowserCookie:
    """Return the cookie of a browser in which a user declined to add a passkey."""
    return BrowserCookie(cookie_name(tenant), _DECLINED, _lifetime_seconds(tenant))


def find_user_id(services: Services, tenant_id: TenantId, value: str) -> UserId | None:
    """Return the user whom a cookie names; None if it is expired or was not issued for this tenant."""
    user_id, _, signed = value.partition(".")
    expires = services.sessions.known_devices.expires(tenant_id, _subject(user_id), signed)
    return None if expires is None or expires <= services.clock.now() else UserId(user_id)


def _subject(user_id: str) -> UserId:
    """Return what is signed for a user: the cookie must not pass for one of a known device, or the reverse."""
    return UserId(f"webauthn {user_id}")


def _lifetime_seconds(tenant: Document) -> int:
    return int(tenant["ssoConfiguration"]["deviceTrustTimeToLiveInSeconds"])
