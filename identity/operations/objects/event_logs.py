"""The event log: failures and debug output for administrators, such as of lambdas, mail servers and webhooks.

Each new row emits `event-log.create`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Literal, get_args

import structlog

from identity.call import Call, Document
from identity.domain.objects import search as searches
from identity.domain.objects.resource_definition import Resource, SearchRules
from identity.errors import Invalid, NotFound
from identity.events.changes import Change, Event
from identity.ids import TenantId
from identity.services import Services
from identity.store.outages import OUTAGES
from identity.store.rate_limits import Limit

_log = structlog.get_logger(__name__)

Kind = Literal["Debug", "Error", "Information"]

_LONGEST = 65_536
"""The maximum length of a message: a lambda can print any amount, and the row is sent to webhooks as one event."""


async def record(services: Services, call: Call, kind: Kind, message: str) -> None:
    """Create a row and notify webhooks. Never raises: the recorded operation has succeeded or failed already."""
    try:
        # Scripts can print lone surrogates, which UTF-8 cannot encode.
        await _add(services, call, kind, message[:_LONGEST].encode(errors="replace").decode())
    except Exception as error:  # noqa: BLE001 (logging must not fail the operation)
        _log.warning("event log not written", type=kind, text=message[:500], error=type(error).__name__)


async def debug(
    services: Services, call: Call, tenant_id: TenantId, subject: str, message: str, kind: Kind = "Debug"
) -> None:
    """Create a row about something that callers can repeat at will; at most 60 rows per minute and `subject`."""
    try:
        is_limited = await services.limits.rate_limits.consume(tenant_id, [Limit("event log", subject, 60, 60)])
    except OUTAGES:
        return
    if not is_limited:
        await record(services, call, kind, message)


async def retrieve(services: Services, row_id: int) -> Document:
    """Return a row. Raises NotFound."""
    row = await services.logs.event_logs.find(None, row_id)
    if row is None:
        raise NotFound
    return row


async def search(
    services: Services, _call: Call, request: Mapping[str, Any], prefix: str
) -> tuple[int, list[Document]]:
    """Return how many rows match, and one page of them. Raises Invalid."""
    query = searches.read(RESOURCE.search_rules, request, prefix)
    if request.get("type") and request.get("type") not in get_args(Kind):
        message = f"The [{prefix}type] must be one of {', '.join(get_args(Kind))}."
        raise Invalid.field("couldNotConvert", f"{prefix}type", message)
    return await services.logs.event_logs.search(None, query)


RESOURCE = Resource(
    "eventLog",
    path="/api/system/event-log",
    label="Event log",
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
"""The event log in the API, which is read-only."""


async def _add(services: Services, call: Call, kind: Kind, message: str) -> None:
    row: Document = {
        "id": await services.logs.event_logs.next_id(),
        "insertInstant": call.now,
        "message": message,
        "type": kind,
    }
    write = functools.partial(services.logs.event_logs.insert, None, row)
    await services.bus.commit(call, Change([write], after_commit=[Event("event-log.create", {"eventLog": row})]))
