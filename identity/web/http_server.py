"""The HTTP server under the application: what it refuses before any handler sees the request.

Beside Tornado's own strictness (both lengths at once, odd lengths, folded headers, several hosts) it refuses heads
with bare line feeds, which proxies read differently from one another, and answers what is too large in words.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import tornado.httpserver
import tornado.web
from tornado.http1connection import HTTP1Connection
from tornado.httputil import (
    HTTPHeaders,
    HTTPInputError,
    HTTPMessageDelegate,
    ParseBodyConfig,
    ParseMultipartConfig,
    RequestStartLine,
    ResponseStartLine,
    set_parse_body_config,
)
from tornado.iostream import IOStream, StreamClosedError

from identity.config import Server as Settings
from identity.errors import TooLarge
from identity.web.body_limits import BODY_SECONDS, LargeBodies
from identity.web.error_bodies import errors_body

# A body that is too large is still read this far, without being kept: closing while the client sends would reset the
# connection, and the client would never see the answer.
_DRAINED_BYTES = 8 * 2**20

_HEAD_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n"
    b"X-Content-Type-Options: nosniff\r\n\r\n"
)

# Proxies differ in which of several lengths they use, also where they are equal (RFC 9112 section 6.3).
_LENGTHS = re.compile(rb"\r\ncontent-length[ \t]*:", re.IGNORECASE)
_LENGTH_LIST = re.compile(rb"\r\ncontent-length[ \t]*:[^\r\n]*,", re.IGNORECASE)

ReadHead = Callable[..., Awaitable[bytes]]


def serving(application: tornado.web.Application, settings: Settings, large: LargeBodies) -> Server:
    """A server for the application, with the configured limits. Forwarded headers are ours to read: xheaders is off."""
    # Nothing here takes files; what is not parsed cannot be parsed wrongly.
    set_parse_body_config(ParseBodyConfig(multipart=ParseMultipartConfig(enabled=False)))
    server = Server(
        application,
        xheaders=False,
        max_header_size=settings.max_header_bytes,
        idle_connection_timeout=settings.idle_seconds,
        body_timeout=30,
    )
    server.large = large
    return server


class Server(tornado.httpserver.HTTPServer):
    """Tornado's server, stricter about heads and with words for what is too large."""

    large: LargeBodies

    def handle_stream(self, stream: IOStream, address: Any) -> None:
        """Read every head of this connection through `_read_head`."""
        stream.read_until_regex = functools.partial(  # type: ignore[method-assign]
            _read_head, stream, stream.read_until_regex
        )
        super().handle_stream(stream, address)

    def start_request(self, server_conn: object, request_conn: Any) -> HTTPMessageDelegate:
        """Count the body of this request while it comes in."""
        return _Bounded(super().start_request(server_conn, request_conn), request_conn, self.large)


async def _read_head(stream: IOStream, read: ReadHead, regex: bytes, max_bytes: int) -> bytes:
    """The head of a request; one that is too large is answered with 431 where its end is in sight."""
    head = await read(regex, max_bytes=2 * max_bytes)
    if len(head) > max_bytes:
        await stream.write(_HEAD_TOO_LARGE)
        stream.close()
        raise StreamClosedError
    if head.count(b"\n") != head.count(b"\r\n"):
        raise HTTPInputError("a line of the head ends without a carriage return")
    if len(_LENGTHS.findall(head)) > 1 or _LENGTH_LIST.search(head):
        raise HTTPInputError("the head has more than one content length")
    return head


class _Bounded(HTTPMessageDelegate):
    """Hands a request on unless its body is too large, and then answers 413 itself."""

    def __init__(self, inner: HTTPMessageDelegate, connection: HTTP1Connection, large: LargeBodies) -> None:
        self._inner = inner
        self._connection = connection
        self._large = large
        self._max_bytes = large.ordinary_bytes
        self._leave: Callable[[], None] | None = None
        self._is_closed = False
        self._size = 0
        self._is_answered = False

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Awaitable[None] | None:
        self._connection.set_max_body_size(2**62)
        if isinstance(start_line, RequestStartLine) and self._large.wants(start_line, headers):
            return self._enter(start_line, headers)
        return self._begin(start_line, headers)

    async def _enter(self, start_line: RequestStartLine, headers: HTTPHeaders) -> None:
        """Go on when there is a place for a large body, which is kept until the answer is written."""
        leave = await self._large.enter(start_line, headers)
        if leave is not None:
            self._leave = leave
            self._max_bytes = self._large.bytes
            self._connection.set_body_timeout(BODY_SECONDS)
            finish = self._connection.finish

            def finished() -> None:
                leave()
                finish()

            self._connection.finish = finished  # type: ignore[method-assign]
            if self._is_closed:
                leave()
        await (self._begin(start_line, headers) or _nothing())

    def _begin(self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders) -> Awaitable[None] | None:
        # What is no length at all is refused when the connection goes on to read the body.
        length = headers.get("Content-Length", "")
        if length.isdecimal() and int(length[:19]) > self._farthest:
            self._answer({"Connection": "close"})
            return None
        return self._inner.headers_received(start_line, headers)

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        self._size += len(chunk)
        if self._size <= self._max_bytes:
            return self._inner.data_received(chunk)
        if self._size > self._farthest and not self._is_answered:
            self._answer({"Connection": "close"})
        return None

    def finish(self) -> None:
        if self._size > self._max_bytes:
            self._answer({})
        else:
            self._inner.finish()

    def on_connection_close(self) -> None:
        self._is_closed = True
        if self._leave is not None:
            self._leave()
        self._inner.on_connection_close()

    @property
    def _farthest(self) -> int:
        return self._max_bytes + _DRAINED_BYTES

    def _answer(self, more: dict[str, str]) -> None:
        self._is_answered = True
        body = orjson.dumps(errors_body(TooLarge(f"The request body is larger than {self._max_bytes} bytes.")))
        headers = HTTPHeaders(
            {
                "Cache-Control": "no-store",
                "Content-Length": str(len(body)),
                "Content-Type": "application/json",
                "X-Content-Type-Options": "nosniff",
                **more,
            }
        )
        start_line = ResponseStartLine("HTTP/1.1", TooLarge.status, "Content Too Large")
        self._connection.write_headers(start_line, headers, body)
        self._connection.finish()


async def _nothing() -> None:
    """What there is to wait for where the next one needs no time."""
