"""Rows of the event log about failing webhooks: rate-limited per webhook, however many deliveries fail."""

from __future__ import annotations

import urllib.parse
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from identity.call import Document
from identity.domain.objects.log_throttling import LogThrottle
from identity.ids import EventId
from identity.instants import Clock
from identity.store.outbox_rows import DeliveryAttempt, EventRow

Consequence = Literal["will be tried again", "was given up", "stopped a change"]

THROTTLE_SECONDS = 300
"""The shortest time between two rows about the same webhook and consequence, per process."""

_UNLOGGED_EVENTS = frozenset({"audit-log.create", "event-log.create"})
"""A row about their failed deliveries would raise another such event: a loop."""


class DeliveryFailureLog:
    """Writes failures to the event log, throttled."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._write: Callable[[str], Awaitable[None]] | None = None
        self._throttle = LogThrottle(THROTTLE_SECONDS)

    def write_to(self, write: Callable[[str], Awaitable[None]]) -> None:
        """Set where rows go; `write` must not raise. Set late, because the event log needs the bus itself."""
        self._write = write

    async def failed(
        self, webhook: Document, event_type: str, event_id: EventId, attempt: DeliveryAttempt, consequence: Consequence
    ) -> None:
        """Log a failed attempt."""
        if event_type in _UNLOGGED_EVENTS:
            return
        reason = (attempt.exception or f"the receiver answered {attempt.status}").rstrip(".")
        text = f"Event [{event_type}] with id [{event_id}] was not delivered and {consequence}: {reason}."
        await self._log(webhook, consequence, text)

    async def headers_omitted(self, webhook: Document, names: Sequence[str]) -> None:
        """Log that configured headers of a webhook cannot be sent."""
        text = f"Its headers [{', '.join(names)}] are left out: their names are not valid in an HTTP request."
        await self._log(webhook, "headers", text)

    async def oversized(self, row: EventRow, size_bytes: int, limit: int, *, is_refused: bool) -> bool:
        """Log an event with a large body, or one too large to be delivered; return whether a row was written."""
        if row.type in _UNLOGGED_EVENTS:
            return False
        setting = "webhooks.payload_max_bytes" if is_refused else "webhooks.payload_warn_bytes"
        consequence = "It was not delivered." if is_refused else "Many receivers refuse such bodies."
        size = f"has {size_bytes} bytes, more than the {limit} of [{setting}]"
        text = f"Event [{row.type}] with id [{row.event_id}] {size}. {consequence}"
        return await self._write_throttled((row.tenant_id or "", row.type, setting), text)

    async def _log(self, webhook: Document, subject: str, text: str) -> None:
        text = f"Webhook [{webhook['id']}] at [{_origin(webhook['url'])}]. {text}"
        await self._write_throttled((webhook["id"], subject), text)

    async def _write_throttled(self, subject: tuple[str, ...], text: str) -> bool:
        """Write a row, unless one about the same subject was written recently; return whether it was written."""
        suppressed = self._throttle.suppressed_count(subject, self._clock.now())
        if self._write is None or suppressed is None:
            return False
        more = f" {suppressed} earlier failures of this kind were not written." if suppressed else ""
        await self._write(f"{text}{more}")
        return True


def _origin(url: str) -> str:
    """Scheme and host of a URL: path and query may hold tokens, and other webhooks receive event log rows."""
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
