"""The system configuration in memory: asked for at every request, read from MongoDB only when it changed."""

from __future__ import annotations

import structlog

from identity.call import Document
from identity.domain.objects.system_configuration import SentEvents, SystemSettings
from identity.store.cache import stale_if_unavailable
from identity.store.documents import Documents
from identity.store.outages import OUTAGES

DOCUMENT_ID = "system"

_log = structlog.get_logger(__name__)


class SystemSettingsCache:
    """The settings that hold now. While MongoDB is away, those that held before."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._document: Document | None = None
        self._settings: SystemSettings | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether `settings` is known to be the present state."""
        return self._document is not None and self._documents.peek(DOCUMENT_ID) is self._document

    @property
    def settings(self) -> SystemSettings:
        """The settings as they were last known; `refresh` was awaited at least once."""
        if self._settings is None:
            raise LookupError("the system configuration was never read")
        return self._settings

    async def sent_events(self) -> SentEvents:
        """What is kept of events that are sent now."""
        await self.refresh()
        return SentEvents() if self._settings is None else self._settings.sent_events

    async def refresh(self) -> None:
        """Read the document again if it may have changed. Raises an outage only before the first reading."""
        try:
            with stale_if_unavailable():
                document = await self._documents.find_cached(None, DOCUMENT_ID)
        except OUTAGES as error:
            if self._settings is None:
                raise
            _log.debug("system configuration as before: its store is away", error=type(error).__name__)
            return
        if document is not None and document is not self._document:
            self._settings = SystemSettings.of(document)
            self._document = document
