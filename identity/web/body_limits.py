"""Limits of request bodies: imports may be larger, with an API key that may make them, and one at a time.

Callers without a key cannot make the service buffer a hundred megabytes, and the next large body is read only after
the last one was processed. Uploads, which are kept on the disk, do not wait for each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from tornado.httputil import HTTPHeaders, RequestStartLine

from identity.services import Services
from identity.store.outages import OUTAGES
from identity.web import authentication

PATHS: Final = frozenset({"/api/user/import", "/api/user/refresh-token/import"})
BODY_SECONDS: Final = 300
"""The time in which a large body must arrive."""


MayUpload = Callable[[Services, HTTPHeaders], Awaitable[bool]]
"""Returns whether the sender of a request may upload a file."""


class LargeBodyLimit:
    """The limit of large bodies in this process; bodies up to `ordinary_bytes` are not concerned.

    `uploads` are the paths of streamed uploads, each with its check.
    """

    def __init__(self, services: Services, uploads: Mapping[str, MayUpload]) -> None:
        self._services = services
        self._uploads = uploads
        self.ordinary_bytes = services.config.server.max_body_bytes
        self.bytes = max(self.ordinary_bytes, services.config.server.max_import_bytes)
        self._slot = asyncio.Semaphore(1)

    def applies_to(self, start_line: RequestStartLine, headers: HTTPHeaders) -> bool:
        """Return whether a request may have a large body, and has one or states no length."""
        if start_line.method != "POST" or _path(start_line) not in {*PATHS, *self._uploads}:
            return False
        length = headers.get("Content-Length", "")
        return not length.isdecimal() or self.ordinary_bytes < int(length[:19])

    async def acquire(self, start_line: RequestStartLine, headers: HTTPHeaders) -> Callable[[], None] | None:
        """Wait for the slot of a large body; return its release, or None for a caller without permission."""
        authorization, now = headers.get("Authorization", ""), self._services.clock.now()
        endpoint = _path(start_line)
        try:
            if endpoint in self._uploads:
                return _nothing if await self._uploads[endpoint](self._services, headers) else None
            if not await authentication.may_call(self._services, authorization, now, endpoint, start_line.method):
                return None
        except OUTAGES:
            return None
        await self._slot.acquire()
        is_released = False

        def release() -> None:
            nonlocal is_released
            if not is_released:
                is_released = True
                self._slot.release()

        return release


def _path(start_line: RequestStartLine) -> str:
    return start_line.path.partition("?")[0].rstrip("/")


def _nothing() -> None:
    """Release an upload, which holds no slot."""
