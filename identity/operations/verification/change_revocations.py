"""What revocations of changed email addresses and of changed phone numbers have in common."""

from __future__ import annotations

import functools
from typing import Final

from identity.call import Call, Document
from identity.events.changes import Change
from identity.ids import TenantId
from identity.operations.messaging import user_events
from identity.operations.passwords import change_password_ids
from identity.operations.sessions import session_termination
from identity.operations.verification import verification_codes
from identity.operations.verification.verification_codes import VerificationKind
from identity.services import Services
from identity.store.one_time_tokens import OneTimeTokenUse

SECONDS: Final = 72 * 3600
"""The time in which the previous address or number can revoke a change."""

_PASSWORDLESS: Final = "passwordless"


def owner_of(user_id: str) -> str:
    """Return the owner of the verification of a pending change, from which no other endpoint completes it."""
    return f"change {user_id}"


async def restore(
    services: Services, call: Call, stored: Document, user: Document, use: OneTimeTokenUse, *, is_replaced: bool
) -> None:
    """Consume a revocation, store the user as restored, and log the user out everywhere.

    Events announce the user only if the address or number was replaced. Raises NotFound for a token that is used,
    Conflict for a user that was changed meanwhile, Duplicate, and WebhookTransactionFailed.
    """
    termination = await session_termination.prepare(services, call, stored)
    change = Change(
        writes=[
            functools.partial(verification_codes.consume_and_replace, services, stored, user, use),
            *session_termination.writes(services, call, termination),
        ],
        before_commit=[*(user_events.before_update(stored, user) if is_replaced else ()), *termination.events],
        after_commit=user_events.after_update(stored, user, new_password=False) if is_replaced else (),
    )
    await services.bus.commit(call, change)
    await session_termination.finish(services, call, termination)


async def revoke_codes(services: Services, user: Document, kind: VerificationKind) -> None:
    """After a change: revoke what was sent to the replaced address or number, and any other pending change."""
    tenant_id, user_id = TenantId(user["tenantId"]), str(user["id"])
    for owner in (user_id, owner_of(user_id)):
        await verification_codes.revoke(services, tenant_id, kind, owner)
    await change_password_ids.revoke_all(services, user)
    await services.tokens.one_time_tokens.revoke_all(tenant_id, _PASSWORDLESS, user_id)
