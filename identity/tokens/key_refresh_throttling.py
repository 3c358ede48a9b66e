"""Throttled refresh of a client's cached settings, for tokens whose key is unknown.

Most such tokens are invalid. But a process that was suspended may have missed a key change, so the settings are read
again, rarely enough that invalid tokens cost little.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable

from identity.call import Document

_INTERVAL_SECONDS = 1.0
_MAXIMUM_CLIENTS = 1000


class KeyRefreshThrottle:
    """Invalidates a client's cached documents, at most once a second per client."""

    def __init__(self, forget: Callable[[str, str], None]) -> None:
        """`forget` invalidates a tenant and an application or entity type by their ids."""
        self._forget = forget
        self._last: collections.OrderedDict[str, float] = collections.OrderedDict()

    def take(self, tenant: Document, settings: Document) -> bool:
        """Invalidate the documents and return True, unless they were invalidated within the last second."""
        now, client_id = time.monotonic(), settings["id"]
        if now - self._last.get(client_id, float("-inf")) < _INTERVAL_SECONDS:
            return False
        self._last[client_id] = now
        self._last.move_to_end(client_id)
        while len(self._last) > _MAXIMUM_CLIENTS:
            self._last.popitem(last=False)
        self._forget(tenant["id"], client_id)
        return True
