"""Commit users of whom something was verified, together with the events and the use of what verified it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

from identity.call import Call, Document
from identity.events.changes import Change, Event
from identity.ids import TenantId
from identity.operations.objects import crud
from identity.operations.verification import verification_codes
from identity.services import Services
from identity.store.one_time_tokens import OneTimeTokenUse


@dataclasses.dataclass(frozen=True, slots=True)
class UserVerification:
    """The verified user, with the events before and after the commit."""

    user: Document
    before_commit: Sequence[Event]
    after_commit: Sequence[Event] = ()


@crud.retry_on_conflict
async def commit(
    services: Services,
    call: Call,
    user: Document,
    verify: Callable[[Document], UserVerification | None],
    use: OneTimeTokenUse | None,
) -> tuple[Document, bool]:
    """Commit the verification of a stored user; return the user, and whether the verification is new.

    `verify` receives the user as stored now and returns None if it is verified already; it raises NotFound if what was
    to be verified is gone. Of concurrent callers with the same `use` one succeeds, the others raise NotFound. Raises
    WebhookTransactionFailed, with nothing consumed.
    """
    tenant_id = TenantId(user["tenantId"])
    call, stored = call.within(tenant_id), await services.directory.users.get(tenant_id, user["id"])
    verification = verify(stored)
    if verification is None:
        await services.bus.commit(call, Change([functools.partial(verification_codes.consume, use)]))
        return stored, False
    write = functools.partial(verification_codes.consume_and_replace, services, stored, verification.user, use)
    await services.bus.commit(call, Change([write], verification.before_commit, verification.after_commit))
    return verification.user, True
