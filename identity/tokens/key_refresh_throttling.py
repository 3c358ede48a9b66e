"""Second looks: a token names a key that its client, as this process remembers it, does not know.

Usually it is rubbish. But a process that was held up may not have heard yet that the keys changed; so the client is
read again, seldom enough that rubbish costs next to nothing.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable

from identity.call import Document

_PAUSE_SECONDS = 1.0
_REMEMBERED = 1000


class KeyRefreshThrottle:
    """Forgets a client's documents, for each client once a second at most."""

    def __init__(self, forget: Callable[[str, str], None]) -> None:
        """`forget` takes the ids of a tenant and of an application or entity type."""
        self._forget = forget
        self._last: collections.OrderedDict[str, float] = collections.OrderedDict()

    def take(self, tenant: Document, settings: Document) -> bool:
        """Whether it is worth looking again: the documents are forgotten, and will be read from MongoDB."""
        now, client_id = time.monotonic(), settings["id"]
        if now - self._last.get(client_id, float("-inf")) < _PAUSE_SECONDS:
            return False
        self._last[client_id] = now
        self._last.move_to_end(client_id)
        while len(self._last) > _REMEMBERED:
            self._last.popitem(last=False)
        self._forget(tenant["id"], client_id)
        return True
