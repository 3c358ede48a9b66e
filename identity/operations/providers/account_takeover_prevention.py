"""Links by email to a local account with an unverified address: its earlier credentials are removed.

Anyone can register an account under another person's address and wait for the owner to sign in through a provider
(account pre-hijacking). The provider verified the address, so that its user receives the account. All credentials and
sessions of the earlier registrant are revoked.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from identity.call import Call, Document
from identity.domain.users import users as user_rules
from identity.events.changes import Event
from identity.ids import TenantId
from identity.operations.messaging import user_events
from identity.operations.sessions import session_termination
from identity.operations.sessions.session_termination import SessionTermination
from identity.operations.two_factor import two_factor_trust
from identity.operations.users import identity_provider_links
from identity.operations.verification import (
    change_revocations,
    email_changes,
    phone_change_revocations,
    phone_changes,
)
from identity.services import Services
from identity.store.mongo import Write

_CREDENTIALS = frozenset({"password", "previousPasswords", "verifiedPhone"})


@dataclasses.dataclass(frozen=True, slots=True)
class AccountClaim:
    """The removal of a user's earlier credentials, with its events."""

    stored: Document
    sign_out: SessionTermination
    links: tuple[Document, ...]

    def before_commit(self, user: Document) -> list[Event]:
        """Return the events that webhooks may veto."""
        return [*self.sign_out.events, *user_events.email_verified(user)]

    def after_commit(self, user: Document) -> list[Event]:
        """Return the events after the commit."""
        return [identity_provider_links.link_event("user.identity-provider.unlink", user, link) for link in self.links]


def requires_claim(user: Document) -> bool:
    """Return whether an account that was found by its email address must be claimed."""
    return not user["verified"]


def is_ambiguous(user: Document) -> bool:
    """Return whether another login id of the account, its phone number, is verified."""
    return user_rules.has_verified_phone(user)


def without_credentials(user: Document, call: Call) -> Document:
    """Return the user without earlier credentials, with the verified address."""
    kept = {name: value for name, value in user.items() if name != "passwordLastUpdateInstant"}
    private = {name: value for name, value in user["private"].items() if name not in _CREDENTIALS}
    registrations = [
        {name: value for name, value in registration.items() if name != "authenticationToken"}
        for registration in user["registrations"]
    ]
    claimed = {
        **kept,
        "passwordChangeRequired": False,
        "private": private,
        "registrations": registrations,
        "twoFactor": {"methods": [], "recoveryCodes": []},
    }
    claimed.pop("passwordChangeReason", None)
    return user_rules.with_verified_reason(claimed, "Trusted", call.now)


async def prepare(services: Services, call: Call, stored: Document) -> AccountClaim:
    """Return what the claim of a stored user ends."""
    tenant_id = TenantId(stored["tenantId"])
    links = await services.directory.identity_provider_links.find_of_user(tenant_id, stored["id"])
    return AccountClaim(stored, await session_termination.prepare(services, call, stored), tuple(links))


def writes(services: Services, call: Call, claim: AccountClaim | None, login: Sequence[Write]) -> Sequence[Write]:
    """Return the writes of a login with those that end the earlier credentials."""
    if claim is None:
        return login
    tenant_id, user_id = TenantId(claim.stored["tenantId"]), claim.stored["id"]
    return [
        # Before those of the login, which include the new link.
        functools.partial(services.directory.identity_provider_links.delete_all, tenant_id, {"userId": user_id}),
        functools.partial(two_factor_trust.revoke_all, services, claim.stored),
        *login,
        *session_termination.writes(services, call, claim.sign_out),
    ]


async def finish(services: Services, call: Call, claim: AccountClaim | None) -> None:
    """End sessions and access tokens after the commit, and invalidate open verifications and password changes."""
    if claim is None:
        return
    tenant_id, user_id = TenantId(claim.stored["tenantId"]), claim.stored["id"]
    await session_termination.finish(services, call, claim.sign_out)
    for kind in (email_changes.KIND, phone_changes.KIND):
        await change_revocations.revoke_codes(services, claim.stored, kind)
    for revocation in (email_changes.REVOCATION, phone_change_revocations.REVOCATION):
        await services.tokens.one_time_tokens.revoke_all(tenant_id, revocation, user_id)
