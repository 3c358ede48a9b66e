"""The events around a change of one object: `x.create`, `x.update`, `x.delete`, each with its `.complete`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from identity.call import Call, Document
from identity.events.bus import Event
from identity.ids import TenantId
from identity.services import Services
from identity.store.mongo import Session


async def perform(
    services: Services,
    call: Call,
    name: str,
    document: Document | None,
    stored: Document | None,
    write: Callable[[Session | None], Awaitable[None]],
) -> None:
    """Write a change with its events; `document` and `stored` are the object after and before, as events tell it.

    Without `stored` it is created, without `document` deleted. Raises WebhookTransactionFailed, with nothing written.
    """
    after, before = document, stored
    told: Document = (after if after is not None else before) or {}
    payload = {name: told}
    if after is not None and before is not None:
        payload["original"] = before
    deed = "create" if before is None else "delete" if after is None else "update"
    await services.bus.perform(
        call.within(TenantId(told["tenantId"])),
        write,
        offered=[Event(f"{name}.{deed}", payload)],
        announced=[Event(f"{name}.{deed}.complete", payload)],
    )
