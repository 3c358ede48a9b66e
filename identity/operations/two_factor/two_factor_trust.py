"""Device trust and trust tokens, which a completed second factor yields."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from identity.call import Call, Document
from identity.domain.login.login_outcomes import Authenticated
from identity.domain.objects import external_identifiers
from identity.domain.objects.external_identifiers import Lifetimes
from identity.domain.two_factor import two_factor
from identity.ids import ApplicationId, Secret, TenantId, UserId, new_secret
from identity.instants import later
from identity.services import Services
from identity.store.mongo import Session
from identity.store.one_time_tokens import OneTimeTokenUse

COOKIE: Final = "fusionauth.trust"
"""The cookie with the secret of a trusted device."""

_KIND: Final = "trust"


async def find_valid_trusts(
    services: Services, call: Call, user: Document, application: Document | None, secret: str | None
) -> Sequence[Document]:
    """Return the trusts of a device that apply to a login of the user, each with `startInstant` and `expiration`."""
    return two_factor.valid_trusts(await find_trusts(services, call, user, secret), application, call.now)


async def find_trusts(services: Services, call: Call, user: Document, secret: str | None) -> list[Document]:
    """Return the live trusts of a device, whatever the application accepts."""
    if not secret:
        return []
    tenant_id, user_id = TenantId(user["tenantId"]), UserId(user["id"])
    found = await services.sessions.two_factor_trusts.find_live(tenant_id, user_id, secret, call.now)
    return [] if found is None else [trust for trust in found["trusts"] if trust["expiration"] > call.now]


async def apply_device_trust(services: Services, call: Call, login: Authenticated, secret: str | None) -> Authenticated:
    """Return the login, with the second factor satisfied if the device is trusted.

    The device is looked up only if the login requires a second factor.
    """
    if not secret or login.has_second_factor:
        return login
    if not two_factor.is_challenged(login.tenant, login.application, login.user, is_trusted=False):
        return login
    is_trusted = bool(await find_valid_trusts(services, call, login.user, login.application, secret))
    if two_factor.is_challenged(login.tenant, login.application, login.user, is_trusted=is_trusted):
        return login
    return dataclasses.replace(login, has_second_factor=True)


async def trust_device(
    services: Services,
    call: Call,
    tenant: Document,
    application: Document | None,
    user: Document,
    *,
    secret: str | None = None,
) -> tuple[Secret, int]:
    """Trust a device. Return the secret that identifies it from now on, and its lifetime in seconds.

    `secret` is the current secret of the device: if it belongs to the user it is kept, and the device is also trusted
    for this application.
    """
    tenant_id, user_id = TenantId(tenant["id"]), UserId(user["id"])
    seconds = external_identifiers.two_factor_trust_seconds(tenant, application)
    application_id = None if application is None else ApplicationId(application["id"])
    expires = later(call.now, seconds=seconds)
    known = None
    if secret:
        known = await services.sessions.two_factor_trusts.find_live(tenant_id, user_id, secret, call.now)
    device_secret = new_secret() if known is None else Secret(secret)
    await services.sessions.two_factor_trusts.trust(
        tenant_id, user_id, device_secret, application_id, now=call.now, expires=expires
    )
    return device_secret, seconds


async def revoke_all(services: Services, user: Document, session: Session | None = None) -> None:
    """Revoke the trust in all devices of a user."""
    await services.sessions.two_factor_trusts.delete_all(TenantId(user["tenantId"]), {"userId": user["id"]}, session)


async def issue_trust_token(services: Services, tenant: Document, user: Document, challenge: str | None) -> Secret:
    """Issue a token that proves to another request that the user completed a second factor.

    A `challenge` has to be presented with the token.
    """
    ttl_seconds = Lifetimes.of(tenant).trust_token_seconds
    document: Document = {} if challenge is None else {"trustChallenge": challenge}
    token = await services.tokens.one_time_tokens.issue(
        TenantId(tenant["id"]), _KIND, user["id"], document, ttl_seconds
    )
    assert token is not None
    return token


async def is_valid_trust_token(services: Services, user: Document, token: str, challenge: str | None = None) -> bool:
    """Whether a trust token belongs to the user and was issued for this challenge, or for none."""
    found = await services.tokens.one_time_tokens.find(TenantId(user["tenantId"]), _KIND, token)
    return found is not None and found.owner == user["id"] and found.document.get("trustChallenge") == challenge


def trust_token_use(services: Services, user: Document, token: str) -> OneTimeTokenUse:
    """Return the single use of a trust token, to consume in the write it allows; check `is_valid_trust_token` first."""
    return services.tokens.one_time_tokens.use(TenantId(user["tenantId"]), _KIND, token)
