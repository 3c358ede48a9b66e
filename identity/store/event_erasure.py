"""Erasure of personal data from the events of the outbox and the responses of their receivers.

The body of an event is replaced by one without the details. Deliveries that are due continue with the new body, except
those that announce the deletion of the user: they keep theirs until they are delivered or given up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import orjson
import structlog

from identity.call import Document
from identity.domain.users import personal_data
from identity.domain.users.personal_data import Traces
from identity.errors import StartupError
from identity.ids import EventId, TenantId
from identity.instants import Instant
from identity.store import mongo
from identity.store.event_bodies import EventBodies
from identity.store.mongo import Database
from identity.store.store_circuit_breaker import time_limit
from identity.store.vault import Vault

_log = structlog.get_logger(__name__)

_FIELDS: Final = (
    "type", "tenantId", "linkedObjectId", "insertInstant", "expiresAt", "body", "isSealed", "parts", "edition",
)  # fmt: skip
_BATCH: Final = 200
"""The number of events that are decoded at once, which blocks the event loop."""
_RESPONSES: Final = {"attempts.$[].responseBody": "", "attempts.$[].responseHeaders": ""}

_Redact = Callable[[Document, Document], Document]
"""The new event for a stored row and the event in its body."""


class EventErasure:
    """The collections `events` and `deliveries`, for the erasure."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._bodies = EventBodies(database, vault)
        self._events: mongo.Collection = database.collection("events")
        self._deliveries: mongo.Collection = database.collection("deliveries")

    async def erase_of_users(self, tenant_id: TenantId, user_ids: Collection[str], now: Instant) -> list[EventId]:
        """Erase the details of the events about users; return the events that are yet to be delivered."""
        where = {"tenantId": tenant_id, "linkedObjectId": {"$in": list(user_ids)}}
        return await self._erase(where, _without_details, now, only_changed=False)

    async def erase_of_tenant(self, tenant_id: TenantId, now: Instant) -> list[EventId]:
        """Erase the details of all events of a tenant; return the events that are yet to be delivered."""
        return await self._erase({"tenantId": tenant_id}, _without_details, now, only_changed=False)

    async def redact_across_tenants(self, traces: Traces, now: Instant) -> list[EventId]:
        """Erase deleted users from the events that may name several; return the changed ones yet to be delivered."""
        by_tenant = traces.by_tenant()

        def redact(row: Document, event: Document) -> Document:
            tenant_id = row.get("tenantId") or event.get("tenantId")
            own = traces if tenant_id is None else by_tenant.get(tenant_id)
            return event if own is None else personal_data.redacted_event(event, own)

        return await self._erase({"type": {"$in": list(personal_data.SHARED)}}, redact, now)

    async def erase_addresses(
        self, tenant_id: TenantId, object_ids: Collection[str], traces: Traces, now: Instant
    ) -> list[EventId]:
        """Erase addresses from the events about some objects; return the changed events yet to be delivered."""

        def redact(_row: Document, event: Document) -> Document:
            return dict(traces.without_addresses(event))

        return await self._erase({"tenantId": tenant_id, "linkedObjectId": {"$in": list(object_ids)}}, redact, now)

    async def settle(self, tenant_id: TenantId, event_ids: Sequence[EventId], now: Instant) -> list[EventId]:
        """Erase the events that are delivered or given up by now; return the others.

        The announcement of a deletion loses its details only now. All lose responses that came after their erasure.
        """

        def redact(row: Document, event: Document) -> Document:
            return _without_details(row, event) if row["type"] in personal_data.DELETIONS else event

        where = {"_id": {"$in": list(event_ids)}, "tenantId": {"$in": [tenant_id, None]}}
        return await self._erase(where, redact, now, only_changed=False)

    async def _erase(
        self, where: Mapping[str, Any], redact: _Redact, now: Instant, *, only_changed: bool = True
    ) -> list[EventId]:
        pending: list[EventId] = []
        with time_limit(0):  # there may be many events, and an interrupted erasure is repeated
            async for row in self._events.find(where, dict.fromkeys(_FIELDS, 1), batch_size=_BATCH):
                event = await self._event(row)
                fresh = redact(row, _stated(row) if event is None else event)
                if only_changed and fresh == event:
                    continue
                is_due = await self._is_due(row["_id"])
                if is_due:
                    pending.append(EventId(row["_id"]))
                    if row["type"] in personal_data.DELETIONS:
                        continue
                if fresh != event:
                    body = orjson.dumps({"event": fresh}, option=orjson.OPT_SORT_KEYS)
                    await self._bodies.replace(self._events, row, body, now)
                await self._deliveries.update_many(
                    {"eventId": row["_id"], "attempts.0": {"$exists": True}}, {"$unset": _RESPONSES}
                )
        return pending

    async def _event(self, row: Document) -> Document | None:
        """The event of a row; None if the body cannot be read."""
        try:
            if body := await self._bodies.read(row):
                event: Document = orjson.loads(body)["event"]
                return event
        except StartupError as error:
            _log.warning("an event that cannot be read is erased", event_id=row["_id"], error=str(error))
        return None

    async def _is_due(self, event_id: str) -> bool:
        return await self._deliveries.find_one({"eventId": event_id, "state": "due"}, {"_id": 1}) is not None


def _stated(row: Document) -> Document:
    """The event as far as its row states it."""
    stated = {"createInstant": row["insertInstant"], "id": row["_id"], "type": row["type"]}
    return stated | {name: row[name] for name in ("linkedObjectId", "tenantId") if name in row}


def _without_details(_row: Document, event: Document) -> Document:
    return personal_data.without_details(event)
