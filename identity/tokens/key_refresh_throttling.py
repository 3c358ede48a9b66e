"""Throttled refresh of a client's cached settings, for tokens whose key is unknown.

Most such tokens are invalid. But a process that was suspended may have missed a key change, so the settings are read
again, rarely enough that invalid tokens cost little.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from cachetools import TTLCache

from identity.call import Document

_INTERVAL_SECONDS = 1.0
_MAXIMUM_CLIENTS = 1000


class KeyRefreshThrottle:
    """Invalidates a client's cached documents, at most once a second per client."""

    def __init__(self, forget: Callable[[str, str], None]) -> None:
        """`forget` invalidates a tenant and an application or entity type by their ids."""
        self._forget = forget
        self._recent: TTLCache[str, bool] = TTLCache(_MAXIMUM_CLIENTS, _INTERVAL_SECONDS, timer=time.monotonic)

    def try_refresh(self, tenant: Document, settings: Document) -> bool:
        """Invalidate the documents and return True, unless they were invalidated within the last second."""
        if settings["id"] in self._recent:
            return False
        self._recent[settings["id"]] = True
        self._forget(tenant["id"], settings["id"])
        return True
