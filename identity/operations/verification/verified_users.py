"""Stored users of whom something becomes verified: one change, with its events, and with what proved it used up."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from identity.call import Call, Document
from identity.events.changes import Event
from identity.ids import TenantId
from identity.operations.objects import crud
from identity.operations.verification import verification_codes
from identity.services import Services
from identity.store.mongo import Session
from identity.store.one_time_tokens import OneTimeTokenUse


@dataclasses.dataclass(frozen=True, slots=True)
class UserVerification:
    """The user as it becomes, what webhooks may veto about that, and the events that follow the commit."""

    user: Document
    events: Sequence[Event]
    announced: Sequence[Event] = ()


async def commit(
    services: Services,
    call: Call,
    user: Document,
    change_of: Callable[[Document], UserVerification | None],
    use: OneTimeTokenUse | None,
) -> tuple[Document, bool]:
    """Make a change to a stored user; answers the user as it is then, and whether that is news.

    `change_of` judges the user as MongoDB has it now: None when it is verified already, NotFound when what was to be
    verified is gone. Of many who show the same `use`, one gets through: NotFound for the others. Raises
    WebhookTransactionFailed, with nothing used up.
    """
    tenant_id = TenantId(user["tenantId"])

    async def attempt() -> tuple[Document, bool]:
        stored = await services.users.get(tenant_id, user["id"])
        change = change_of(stored)

        async def put(session: Session | None) -> None:
            await verification_codes.consume(use)
            if change is not None:
                await services.users.replace(tenant_id, change.user, stored["lastUpdateInstant"], session)

        before, after = ((), ()) if change is None else (change.events, change.announced)
        await services.bus.perform(call.within(tenant_id), put, before, after)
        return (stored, False) if change is None else (change.user, True)

    return await crud.retry_on_conflict(attempt)
