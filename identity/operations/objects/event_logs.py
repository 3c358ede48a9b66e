"""The event log: what an administrator should hear of that no caller can be told.

A failed lambda, a mail server that refuses, a webhook that does not answer. Each row is announced as
`event-log.create`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import structlog

from identity.call import Call, Document
from identity.domain.objects import search as searches
from identity.domain.objects.resource_definition import Resource, SearchRules
from identity.errors import Invalid, NotFound
from identity.events.changes import Event
from identity.ids import TenantId
from identity.services import Services
from identity.store.mongo import Session
from identity.store.outages import OUTAGES
from identity.store.rate_limits import Limit

_log = structlog.get_logger(__name__)

Kind = Literal["Debug", "Error", "Information"]

_LONGEST = 65_536
"""A lambda can print without end, and the row goes to webhooks as one event."""


async def record(services: Services, call: Call, kind: Kind, message: str) -> None:
    """Write a row, and announce it. Never raises: what is recorded here went wrong already, or succeeded."""
    try:
        # Scripts can print what UTF-8 has no bytes for, half a pair of surrogates for one.
        await _add(services, call, kind, message[:_LONGEST].encode(errors="replace").decode())
    except Exception as error:  # noqa: BLE001 (whatever it is: the deed that tells of itself must not fail by it)
        _log.warning("event log not written", type=kind, text=message[:500], error=type(error).__name__)


async def debug(
    services: Services, call: Call, tenant_id: TenantId, subject: str, message: str, kind: Kind = "Debug"
) -> None:
    """Write a row of what callers can bring about as often as they like: no more than somebody can read.

    `subject` names what shares the bound of 60 rows a minute.
    """
    try:
        is_too_much = await services.rate_limits.consume(tenant_id, [Limit("event log", subject, 60, 60)])
    except OUTAGES:
        return
    if not is_too_much:
        await record(services, call, kind, message)


async def retrieve(services: Services, row_id: int) -> Document:
    """One row. Raises NotFound."""
    row = await services.event_logs.find(None, row_id)
    if row is None:
        raise NotFound
    return row


async def search(
    services: Services, _call: Call, request: Mapping[str, Any], prefix: str
) -> tuple[int, list[Document]]:
    """How many rows match, and one page of them. Raises Invalid."""
    query = searches.read(RESOURCE.search_rules, request, prefix)
    if request.get("type") and request.get("type") not in get_args(Kind):
        message = f"The [{prefix}type] must be one of {', '.join(get_args(Kind))}."
        raise Invalid.field("couldNotConvert", f"{prefix}type", message)
    return await services.event_logs.search(None, query)


RESOURCE = Resource(
    "eventLog",
    "/api/system/event-log",
    "api/event-log.json",
    "event_logs",
    "eventLogs",
    "Event log",
    tenant_scoped=False,
    verbs=frozenset({"retrieve", "search"}),
    search_rules=SearchRules(
        {"start": "from", "end": "until", "message": "text", "type": "exact"},
        {"id": "_id", "insertInstant": "insertInstant", "message": "message", "type": "type"},
        default="insertInstant DESC, id DESC",
        members={"start": "insertInstant", "end": "insertInstant"},
        long=frozenset({"message"}),
    ),
    search=search,
)
"""Read only: what the API can ask of the event log."""


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
