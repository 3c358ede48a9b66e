"""The HTTP server below the application: its connections, and the limits of bodies.

The body of a caller without authority is small: parsing a megabyte of JSON or of fields occupies the event loop for
up to a second. Authority is an API key, a session of the console or the token of a SCIM client, verified before the
body is read. Imports may have larger bodies, with an API key that may make them, and one at a time: callers without a
key cannot make the service buffer a hundred megabytes, and the next large body is read only after the last one was
processed. Uploads, which are kept on the disk, do not wait for each other.
"""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import orjson
import tornado.web
from tornado.httputil import (
    HTTPHeaders,
    HTTPMessageDelegate,
    ParseBodyConfig,
    ParseMultipartConfig,
    RequestStartLine,
    ResponseStartLine,
    set_parse_body_config,
)

from identity.config.sections import Server as Settings
from identity.domain.scim import errors as scim_errors
from identity.errors import TooLarge
from identity.services import Services
from identity.store.outages import OUTAGES
from identity.web import accepting, authentication
from identity.web.accepting import Accepting
from identity.web.http_connection import Connection
from identity.web.http_exchange import Exchange
from identity.web.response import errors_body

# A body that is too large is read and discarded up to this size: closing while the client sends would reset the
# connection, and the client would not receive the response.
_DRAINED_BYTES = 8 * 2**20

_ORDINARY_BODY_SECONDS: Final = 30.0
LARGE_BODY_PATHS: Final = frozenset({"/api/user/import", "/api/user/refresh-token/import"})
BODY_SECONDS: Final = 300
"""The time in which a large body must arrive."""

IsPermitted = Callable[[Services, HTTPHeaders], Awaitable[bool]]
"""Returns whether the sender of a request has the authority for it."""


class Server:
    """Accepts connections, and passes their requests to the application, bounded by the size of their bodies."""

    def __init__(self, application: tornado.web.Application, settings: Settings, large: LargeBodyLimit) -> None:
        # The import of users on the console, which accepts a file, parses it itself after these limits.
        set_parse_body_config(ParseBodyConfig(multipart=ParseMultipartConfig(enabled=False)))
        self._application = application
        self._large = large
        self._maximum_connections = accepting.maximum_connections()
        self._listeners: list[tuple[socket.socket, Accepting]] = []
        self._openings: set[asyncio.Task[Any]] = set()
        self.max_head_bytes = settings.max_header_bytes
        self.idle_seconds = settings.idle_seconds
        self.body_seconds = _ORDINARY_BODY_SECONDS
        self.connections: set[Connection] = set()

    def add_sockets(self, sockets: Iterable[socket.socket]) -> None:
        """Accept connections on these sockets as long as there are file descriptors for them."""
        for listener in sockets:
            self._listeners.append((listener, Accepting(listener, self._open, self._has_room)))

    def _has_room(self) -> bool:
        return len(self.connections) + len(self._openings) < self._maximum_connections

    def _open(self, accepted: socket.socket, _address: object) -> None:
        """Serve an accepted connection."""
        accepted.setblocking(False)
        loop = asyncio.get_running_loop()
        opening = loop.create_task(loop.connect_accepted_socket(functools.partial(Connection, self), accepted))
        self._openings.add(opening)
        opening.add_done_callback(self._openings.discard)

    def stop(self) -> None:
        """Accept no more connections."""
        for listener, accepting_connections in self._listeners:
            accepting_connections.stop()
            listener.close()
        self._listeners.clear()

    async def close_all_connections(self) -> None:
        """Close the connections at once."""
        connections = list(self.connections)
        for connection in connections:
            connection.abort()
        for connection in connections:
            await connection.closed

    def start_request(self, exchange: Exchange) -> HTTPMessageDelegate:
        """Return the application, which receives no body that is too large."""
        return _Bounded(self._application.start_request(exchange, exchange), exchange, self._large)


class _Bounded(HTTPMessageDelegate):
    """Passes a request on, or responds with 413 if its body is too large."""

    def __init__(self, inner: HTTPMessageDelegate, connection: Exchange, large: LargeBodyLimit) -> None:
        self._inner = inner
        self._connection = connection
        self._large = large
        self._max_bytes = large.anonymous_bytes
        self._release: Callable[[], None] | None = None
        self._is_closed = False
        self._size = 0
        self._is_refused = False
        self._is_scim = False

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Awaitable[None] | None:
        self._is_scim = isinstance(start_line, RequestStartLine) and start_line.path.startswith("/api/scim/")
        if not isinstance(start_line, RequestStartLine) or not self._large.exceeds(self._max_bytes, headers):
            return self._begin(start_line, headers)
        return self._raise_limit(start_line, headers)

    async def _raise_limit(self, start_line: RequestStartLine, headers: HTTPHeaders) -> None:
        """Continue with the limit of the caller's authority."""
        if self._large.applies_to(start_line, headers):
            await self._acquire(start_line, headers)
        elif await self._large.has_authority(start_line, headers):
            self._max_bytes = self._large.ordinary_bytes
        await (self._begin(start_line, headers) or _nothing())

    async def _acquire(self, start_line: RequestStartLine, headers: HTTPHeaders) -> None:
        """Raise the limit when a large body may be read; its slot is released after the response."""
        release = await self._large.acquire(start_line, headers)
        if release is not None:
            self._release = release
            self._max_bytes = self._large.bytes
            self._connection.body_seconds = BODY_SECONDS
            self._connection.on_finish = release
            if self._is_closed:
                release()
        elif await self._large.has_authority(start_line, headers):
            self._max_bytes = self._large.ordinary_bytes

    def _begin(self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders) -> Awaitable[None] | None:
        length = headers.get("Content-Length", "")
        if length.isdecimal() and int(length[:19]) > self._farthest:
            self._refuse({"Connection": "close"})
            return None
        return self._inner.headers_received(start_line, headers)

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        self._size += len(chunk)
        if self._size <= self._max_bytes:
            return self._inner.data_received(chunk)
        if self._size > self._farthest and not self._is_refused:
            self._refuse({"Connection": "close"})
        return None

    def finish(self) -> None:
        if self._size > self._max_bytes:
            self._refuse({})
            self._inner.on_connection_close()  # a handler that has received parts of the body ends
        else:
            self._inner.finish()

    def on_connection_close(self) -> None:
        self._is_closed = True
        if self._release is not None:
            self._release()
        self._inner.on_connection_close()

    @property
    def _farthest(self) -> int:
        return self._max_bytes + _DRAINED_BYTES

    def _refuse(self, more: dict[str, str]) -> None:
        self._is_refused = True
        error = TooLarge(f"The request body is larger than {self._max_bytes} bytes.")
        body = orjson.dumps(scim_errors.body_of(error) if self._is_scim else errors_body(error))
        headers = HTTPHeaders(
            {
                "Cache-Control": "no-store",
                "Content-Length": str(len(body)),
                "Content-Type": "application/scim+json" if self._is_scim else "application/json",
                "X-Content-Type-Options": "nosniff",
                **more,
            }
        )
        start_line = ResponseStartLine("HTTP/1.1", TooLarge.status, "Content Too Large")
        self._connection.write_headers(start_line, headers, body)
        self._connection.finish()


async def _nothing() -> None:
    """Return an awaitable for a delegate that needs none."""


class LargeBodyLimit:
    """The limits of bodies by the caller's authority; those of at most `anonymous_bytes` are not concerned.

    `uploads` are the paths of streamed uploads, each with its check. `callers` has the check of authority of paths
    whose callers have no API key, by the beginning of the path.
    """

    def __init__(
        self, services: Services, uploads: Mapping[str, IsPermitted], callers: Mapping[str, IsPermitted]
    ) -> None:
        self._services = services
        self._uploads = uploads
        self._callers = callers
        self.anonymous_bytes = services.config.server.max_anonymous_body_bytes
        self.ordinary_bytes = services.config.server.max_body_bytes
        self.bytes = max(self.ordinary_bytes, services.config.server.max_import_bytes)
        self._slot = asyncio.Semaphore(1)

    @staticmethod
    def exceeds(limit: int, headers: HTTPHeaders) -> bool:
        """Return whether a body is larger than the limit, or of unknown length."""
        length = headers.get("Content-Length", "")
        return int(length[:19]) > limit if length.isdecimal() else "Transfer-Encoding" in headers

    async def has_authority(self, start_line: RequestStartLine, headers: HTTPHeaders) -> bool:
        """Return whether the caller has an API key, or the authority that the path requires."""
        path = _path(start_line)
        try:
            for prefix, is_permitted in self._callers.items():
                if path == prefix or path.startswith(f"{prefix}/"):
                    return await is_permitted(self._services, headers)
            return await authentication.is_live_key(
                self._services, headers.get("Authorization", ""), self._services.clock.now()
            )
        except OUTAGES:
            return False

    def applies_to(self, start_line: RequestStartLine, headers: HTTPHeaders) -> bool:
        """Return whether a request may have a large body, and has one or states no length."""
        if start_line.method != "POST" or _path(start_line) not in {*LARGE_BODY_PATHS, *self._uploads}:
            return False
        return self.exceeds(self.ordinary_bytes, headers)

    async def acquire(self, start_line: RequestStartLine, headers: HTTPHeaders) -> Callable[[], None] | None:
        """Wait for the slot of a large body; return its release, or None for a caller without permission."""
        authorization, now = headers.get("Authorization", ""), self._services.clock.now()
        endpoint = _path(start_line)
        try:
            if endpoint in self._uploads:
                return _release_nothing if await self._uploads[endpoint](self._services, headers) else None
            if not await authentication.may_call(self._services, authorization, now, endpoint, start_line.method):
                return None
        except OUTAGES:
            return None
        await self._slot.acquire()
        # The end of the response and that of the connection both release the slot: only the first call counts.
        return functools.cache(self._slot.release)


def _path(start_line: RequestStartLine) -> str:
    return start_line.path.partition("?")[0].rstrip("/")


def _release_nothing() -> None:
    """Release an upload, which holds no slot."""
