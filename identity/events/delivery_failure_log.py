"""What administrators hear of failing webhooks: a few rows of the event log, however many deliveries fail."""

from __future__ import annotations

import urllib.parse
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from identity.call import Document
from identity.domain.objects.log_throttling import LogThrottle
from identity.ids import EventId
from identity.instants import Clock
from identity.store.outbox_rows import DeliveryAttempt, EventRow

Ending = Literal["will be tried again", "was given up", "stopped a change"]

SILENCE_SECONDS = 300
"""How long after a row nothing more is written of the same webhook and ending, in one process."""

_UNTOLD = frozenset({"audit-log.create", "event-log.create"})
"""Their failures would be written to the log that they tell of: a loop."""


class DeliveryFailureLog:
    """Writes failures to the event log, within bounds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._write: Callable[[str], Awaitable[None]] | None = None
        self._silences = LogThrottle(SILENCE_SECONDS)

    def write_to(self, write: Callable[[str], Awaitable[None]]) -> None:
        """Where rows go; `write` never raises. Said later than the rest, because the event log itself has events."""
        self._write = write

    async def failed(
        self, webhook: Document, event_type: str, event_id: EventId, what: DeliveryAttempt, ending: Ending
    ) -> None:
        """A delivery did not succeed."""
        if event_type in _UNTOLD:
            return
        reason = what.exception or f"the receiver answered {what.status}"
        about = f"Event [{event_type}] with id [{event_id}] was not delivered and {ending}: {reason.rstrip('.')}."
        await self._tell(webhook, ending, about)

    async def left_out(self, webhook: Document, names: Sequence[str]) -> None:
        """Headers of a webhook cannot be sent."""
        about = f"Its headers [{', '.join(names)}] are left out: their names cannot stand in an HTTP request."
        await self._tell(webhook, "headers", about)

    async def oversized(self, row: EventRow, size: int, limit: int, *, is_refused: bool) -> bool:
        """The body of an event is large, or too large to be delivered; answers whether that was told."""
        if row.type in _UNTOLD:
            return False
        setting = "webhooks.payload_max_bytes" if is_refused else "webhooks.payload_warn_bytes"
        ending = "It was not delivered." if is_refused else "Many receivers refuse such bodies."
        size_told = f"has {size} bytes, more than the {limit} of [{setting}]"
        text = f"Event [{row.type}] with id [{row.event_id}] {size_told}. {ending}"
        return await self._write_once((row.tenant_id or "", row.type, setting), text)

    async def _tell(self, webhook: Document, subject: str, about: str) -> None:
        text = f"Webhook [{webhook['id']}] at [{_host(webhook['url'])}]. {about}"
        await self._write_once((webhook["id"], subject), text)

    async def _write_once(self, subject: tuple[str, ...], text: str) -> bool:
        """Write a row, unless one of the same subject was written a short while ago; answers whether it was."""
        kept_back = self._silences.kept_back(subject, self._clock.now())
        if self._write is None or kept_back is None:
            return False
        more = f" {kept_back} earlier failures of this kind were not written." if kept_back else ""
        await self._write(f"{text}{more}")
        return True


def _host(url: str) -> str:
    """Scheme and host: paths and queries of webhooks hold tokens, and rows of the event log go to other webhooks."""
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
