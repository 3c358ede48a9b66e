"""What administrators hear of failing webhooks: a few rows of the event log, however many deliveries fail."""

from __future__ import annotations

import urllib.parse
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from identity.call import Document
from identity.domain.silences import Silences
from identity.ids import EventId
from identity.instants import Clock
from identity.store.outbox import Attempt

Ending = Literal["will be tried again", "was given up", "stopped a change"]

SILENCE_SECONDS = 300
"""How long after a row nothing more is written of the same webhook and ending, in one process."""

_UNTOLD = frozenset({"audit-log.create", "event-log.create"})
"""Their failures would be written to the log that they tell of: a loop."""


class FailureLog:
    """Writes failures to the event log, within bounds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._write: Callable[[str], Awaitable[None]] | None = None
        self._silences = Silences(SILENCE_SECONDS)

    def write_to(self, write: Callable[[str], Awaitable[None]]) -> None:
        """Where rows go; `write` never raises. Said later than the rest, because the event log itself has events."""
        self._write = write

    async def failed(
        self, webhook: Document, event_type: str, event_id: EventId, what: Attempt, ending: Ending
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

    async def _tell(self, webhook: Document, subject: str, about: str) -> None:
        kept_back = self._silences.kept_back((webhook["id"], subject), self._clock.now())
        if self._write is None or kept_back is None:
            return
        more = f" {kept_back} earlier failures of this kind were not written." if kept_back else ""
        await self._write(f"Webhook [{webhook['id']}] at [{_host(webhook['url'])}]. {about}{more}")


def _host(url: str) -> str:
    """Scheme and host: paths and queries of webhooks hold tokens, and rows of the event log go to other webhooks."""
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
