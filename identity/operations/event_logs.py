"""The event log: what an administrator should hear of that no caller can be told.

A failed lambda, a mail server that refuses, a webhook that does not answer. Each row is announced as
`event-log.create`.
"""

from __future__ import annotations

from typing import Literal

import structlog

from identity.call import Call, Document
from identity.events.bus import Event
from identity.services import Services
from identity.store.mongo import Session

_log = structlog.get_logger(__name__)

Kind = Literal["Debug", "Error", "Information"]

_LONGEST = 65_536
"""A lambda can print without end, and the row goes to webhooks as one event."""


async def record(services: Services, call: Call, kind: Kind, message: str) -> None:
    """Write a row, and announce it. Never raises: what is recorded here went wrong already, or succeeded."""
    try:
        await _add(services, call, kind, message[:_LONGEST])
    except Exception as error:  # noqa: BLE001 (whatever it is: the deed that tells of itself must not fail by it)
        _log.warning("event log not written", type=kind, text=message[:500], error=type(error).__name__)


async def _add(services: Services, call: Call, kind: Kind, message: str) -> None:
    row: Document = {
        "id": await services.event_logs.next_id(),
        "insertInstant": call.now,
        "message": message,
        "type": kind,
    }

    async def write(session: Session | None) -> None:
        await services.event_logs.insert(None, row, session)

    await services.bus.perform(call, write, announced=[Event("event-log.create", {"eventLog": row})])
