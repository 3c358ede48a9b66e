"""One-time passwords: returned by a password change, so that its user can log in without entering the new password."""

from __future__ import annotations

import dataclasses
import functools
from typing import Final

from identity.call import Document
from identity.domain.objects.external_identifiers import Lifetimes
from identity.errors import NotFound, Unavailable
from identity.ids import Secret, TenantId
from identity.operations.login.login_side_effects import LoginSideEffects
from identity.services import Services
from identity.store.mongo import Session
from identity.store.one_time_tokens import OneTimeTokenUse

AUTHENTICATION_TYPE: Final = "ONE_TIME_PASSWORD"
TENANT_ALONE: Final = ""
_KIND: Final = "one-time-password"


@dataclasses.dataclass(frozen=True, slots=True)
class OneTimePasswordDetails:
    """The members of a password change that a login with its one-time password inherits.

    `state` is the caller's own; `may_refresh`: the login may issue a refresh token. `has_second_factor`: the user
    completed a second factor for the change. `trusted_at`: the application, or TENANT_ALONE, whose login completed a
    second factor or required none; this holds for that login only.
    """

    state: Document | None = None
    may_refresh: bool = True
    has_second_factor: bool = False
    trusted_at: str | None = None

    def satisfies_second_factor(self, application: Document | None) -> bool:
        """Whether a login to an application, or to the tenant alone, requires no further second factor."""
        target = TENANT_ALONE if application is None else application["id"]
        return self.has_second_factor or self.trusted_at == target


@dataclasses.dataclass(frozen=True, slots=True)
class RedeemedOneTimePassword:
    """The user of a one-time password; committing `side_effects` consumes it."""

    user: Document
    details: OneTimePasswordDetails
    side_effects: LoginSideEffects


async def issue(services: Services, tenant: Document, user: Document, details: OneTimePasswordDetails) -> Secret:
    """Issue a one-time password. Raises Unavailable."""
    ttl_seconds = Lifetimes.of(tenant).one_time_password_seconds
    document = dataclasses.asdict(details)
    secret = await services.tokens.one_time_tokens.issue(
        TenantId(tenant["id"]), _KIND, user["id"], document, ttl_seconds
    )
    if secret is None:
        raise Unavailable("No one-time password can be made now. Try again.")
    return secret


async def redeem(services: Services, tenant_id: TenantId, value: str) -> RedeemedOneTimePassword:
    """Return the user of a one-time password. Raises NotFound if it is unknown, expired, used or another tenant's."""
    token = await services.tokens.one_time_tokens.find(tenant_id, _KIND, value)
    user = None if token is None else await services.directory.users.find(tenant_id, token.owner)
    if token is None or user is None:
        raise NotFound(log_detail="no such one-time password")
    use = services.tokens.one_time_tokens.use(tenant_id, _KIND, value)
    side_effects = LoginSideEffects(functools.partial(_consume, use))
    return RedeemedOneTimePassword(user, OneTimePasswordDetails(**token.document), side_effects)


async def revoke_all(services: Services, user: Document) -> None:
    """Revoke every one-time password of a user."""
    await services.tokens.one_time_tokens.revoke_all(TenantId(user["tenantId"]), _KIND, str(user["id"]))


async def _consume(use: OneTimeTokenUse, _session: Session | None) -> None:
    if not await use.consume():
        raise NotFound(log_detail="the one-time password was used meanwhile")
