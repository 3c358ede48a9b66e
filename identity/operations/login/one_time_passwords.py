"""One-time passwords: what a change of password answers with, so that its user is logged in without typing it again."""

from __future__ import annotations

import dataclasses
from typing import Final

from identity.call import Document
from identity.errors import NotFound, Unavailable
from identity.ids import Secret, TenantId
from identity.operations.login.login_side_effects import LoginSideEffects
from identity.services import Services
from identity.store.mongo import Session

AUTHENTICATION_TYPE: Final = "ONE_TIME_PASSWORD"
TENANT_ALONE: Final = ""
_KIND: Final = "one-time-password"


@dataclasses.dataclass(frozen=True, slots=True)
class OneTimePasswordDetails:
    """What comes with the login: the caller's own `state`, and whether it may give a refresh token.

    `has_second_factor`: a second factor was there when the password was changed. `trusted_at` is the application, or
    nothing for the tenant alone, at whose login it was there or was not needed: elsewhere it says nothing.
    """

    state: Document | None = None
    may_refresh: bool = True
    has_second_factor: bool = False
    trusted_at: str | None = None

    def counts_at(self, application: Document | None) -> bool:
        """Whether a login to an application, or to the tenant alone, need not ask for a second factor."""
        at = TENANT_ALONE if application is None else application["id"]
        return self.has_second_factor or self.trusted_at == at


@dataclasses.dataclass(frozen=True, slots=True)
class RedeemedOneTimePassword:
    """Whom a one-time password lets in; `along` uses it up."""

    user: Document
    about: OneTimePasswordDetails
    side_effects: LoginSideEffects


async def issue(services: Services, tenant: Document, user: Document, about: OneTimePasswordDetails) -> Secret:
    """A one-time password of a user."""
    ttl_seconds = int(tenant["externalIdentifierConfiguration"]["oneTimePasswordTimeToLiveInSeconds"])
    tenant_id = TenantId(tenant["id"])
    secret = await services.one_time_tokens.issue(tenant_id, _KIND, user["id"], dataclasses.asdict(about), ttl_seconds)
    if secret is None:
        raise Unavailable("No one-time password can be made now. Try again.")
    return secret


async def redeem(services: Services, tenant_id: TenantId, value: str) -> RedeemedOneTimePassword:
    """Whom it lets into the tenant. Raises NotFound for one that is unknown, over, used or another tenant's."""
    ticket = await services.one_time_tokens.find(tenant_id, _KIND, value)
    user = None if ticket is None else await services.users.find(tenant_id, ticket.owner)
    if ticket is None or user is None:
        raise NotFound(log_detail="no such one-time password")
    use = services.one_time_tokens.use(tenant_id, _KIND, value)

    async def spend(_session: Session | None) -> None:
        if not await use.consume():
            raise NotFound(log_detail="the one-time password was used meanwhile")

    return RedeemedOneTimePassword(user, OneTimePasswordDetails(**ticket.document), LoginSideEffects(spend))


async def revoke_all(services: Services, user: Document) -> None:
    """Let every one-time password of a user count no more."""
    await services.one_time_tokens.revoke_all(TenantId(user["tenantId"]), _KIND, str(user["id"]))
