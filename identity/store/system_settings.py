"""The system configuration in memory: used by every request, and read from MongoDB only after it changed."""

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
    """The current settings; during an outage of MongoDB, the last known ones."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._document: Document | None = None
        self._settings: SystemSettings | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether `settings` are known to be current."""
        return self._document is not None and self._documents.peek(DOCUMENT_ID) is self._document

    @property
    def settings(self) -> SystemSettings:
        """The last known settings. Raises LookupError before the first `refresh`."""
        if self._settings is None:
            raise LookupError("the system configuration was never read")
        return self._settings

    async def sent_events(self) -> SentEvents:
        """The current retention settings of events."""
        await self.refresh()
        return SentEvents() if self._settings is None else self._settings.sent_events

    async def refresh(self) -> None:
        """Read the settings again if they may have changed. Raises one of OUTAGES only if they were never read."""
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
