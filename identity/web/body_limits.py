"""Which requests may bring a larger body than others: imports, by API keys that may make one, one at a time.

Who has no key cannot make the service take in a hundred megabytes, and who has one waits for the others that do: the
next body is not read before the last one was worked through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from tornado.httputil import HTTPHeaders, RequestStartLine

from identity.services import Services
from identity.store.outages import OUTAGES
from identity.web import authentication

PATHS: Final = frozenset({"/api/user/import", "/api/user/refresh-token/import"})
BODY_SECONDS: Final = 300
"""How long a large body may take to come in."""


class LargeBodies:
    """The limits of this process; what is within `ordinary_bytes` needs no leave."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.ordinary_bytes = services.config.server.max_body_bytes
        self.bytes = max(self.ordinary_bytes, services.config.server.max_import_bytes)
        self._place = asyncio.Semaphore(1)

    def wants(self, start_line: RequestStartLine, headers: HTTPHeaders) -> bool:
        """Whether a request is of a kind that may be large, and is, or does not say how large it is."""
        if start_line.method != "POST" or start_line.path.partition("?")[0].rstrip("/") not in PATHS:
            return False
        length = headers.get("Content-Length", "")
        return not length.isdecimal() or self.ordinary_bytes < int(length[:19])

    async def enter(self, start_line: RequestStartLine, headers: HTTPHeaders) -> Callable[[], None] | None:
        """Wait for the place of a large body; answers what gives it back, or None for who may not have it."""
        authorization, now = headers.get("Authorization", ""), self._services.clock.now()
        endpoint = start_line.path.partition("?")[0].rstrip("/")
        try:
            if not await authentication.may_call(self._services, authorization, now, endpoint, start_line.method):
                return None
        except OUTAGES:
            return None
        await self._place.acquire()
        is_left = False

        def leave() -> None:
            nonlocal is_left
            if not is_left:
                is_left = True
                self._place.release()

        return leave
