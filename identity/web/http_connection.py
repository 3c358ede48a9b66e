"""HTTP/1.1 connections (RFC 9112): reading requests, flow control, deadlines, and the refusal of malformed requests.

Tornado's application handles the requests; `httptools` parses their heads. A malformed request is refused with 400,
and its connection is closed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import httptools
import structlog
from tornado.httputil import HTTPInputError, HTTPMessageDelegate
from tornado.iostream import StreamClosedError

from identity.web.http_exchange import Exchange, Peer, parse_head

_log = structlog.get_logger(__name__)

_HEAD_END: Final = re.compile(rb"\r?\n\r?\n")
_CHUNK_SIZE: Final = re.compile(rb"[0-9A-Fa-f]{1,15}")
_MAXIMUM_CHUNK_LINE: Final = 64
_COOKIES: Final = re.compile(rb"\r\ncookie[ \t]*:([^\r\n]*)", re.IGNORECASE)
_MAXIMUM_COOKIES: Final = 100
_MAXIMUM_COOKIE_BYTES: Final = 32_768
"""The limits of the cookies of a request. Parsing thousands occupies the event loop; nginx passes 32 kB."""
_PIECE_BYTES: Final = 65_536
"""The size of the pieces of a body, and of what is read ahead while a request is handled."""

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_BAD_REQUEST: Final = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_HEAD_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n"
    b"X-Content-Type-Options: nosniff\r\n\r\n"
)


class Server(Protocol):
    """What a connection needs of its server: limits, the open connections, and the application."""

    max_head_bytes: int
    idle_seconds: float
    body_seconds: float
    connections: set[Connection]

    def start_request(self, exchange: Exchange) -> HTTPMessageDelegate:
        """Return the delegate that receives a request."""


class Connection(asyncio.Protocol):
    """A connection that serves one request at a time; pipelined requests wait."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._buffer = bytearray()
        self._scanned_bytes = 0
        self._exchange: Exchange | None = None
        self._delegate: HTTPMessageDelegate | None = None
        # What remains of a body or a chunk; None where a chunk size is expected.
        self._remaining: int | None = None
        self._is_chunked = False
        self._is_suspended = False
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._drained: asyncio.Future[None] | None = None
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.peer = Peer("0.0.0.0")  # noqa: S104 (that of a Unix socket)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Read the first request."""
        self._transport = transport
        address = transport.get_extra_info("peername")
        if isinstance(address, tuple):
            self.peer = Peer(address[0])
        self._server.connections.add(self)
        self._expect_head()
        self._timer = self._loop.call_later(self._server.idle_seconds, self._check_deadline)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the request that is read or handled."""
        self._server.connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._drained is not None and not self._drained.done():
            self._drained.set_exception(StreamClosedError())
            self._drained.exception()
        delegate, self._delegate = self._delegate, None
        if delegate is not None:
            self._guard(delegate.on_connection_close)
        if self._exchange is not None:
            self._exchange.connection_lost()
        self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Process what has arrived; read no further while a request is handled."""
        self._buffer += data
        self._guard(self._process)
        if len(self._buffer) > _PIECE_BYTES and self._is_waiting():
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        """Make writers wait until the client has received enough."""
        self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        """Let writers continue."""
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def _guard(self, action: Callable[[], Any]) -> None:
        """Refuse a malformed request, and close the connection if the application fails unexpectedly."""
        try:
            action()
        except (HTTPInputError, httptools.HttpParserError) as error:
            _log.info("malformed HTTP request", address=self.peer.remote_ip, problem=str(error)[:200])
            self._refuse(_BAD_REQUEST)
        except asyncio.CancelledError:
            self.abort()
        except Exception:  # noqa: BLE001 (the state of the connection is unknown)
            _log.exception("request failed")
            self.abort()

    def _is_waiting(self) -> bool:
        """Return whether the application has to act before more data is processed."""
        return self._is_suspended or (self._exchange is not None and self._delegate is None)

    def _process(self) -> None:
        """Process the buffer as far as possible. Raises HTTPInputError and HttpParserError."""
        is_advancing = True
        while is_advancing and not self._is_waiting() and not self._transport.is_closing():
            if self._exchange is None:
                is_advancing = self._read_head()
            elif self._remaining is None:
                is_advancing = self._read_chunk_size()
            else:
                is_advancing = self._read_body(self._remaining)

    def _read_head(self) -> bool:
        """Begin the next request if its head is complete."""
        if self._buffer.startswith((b"\r", b"\n")):  # some clients end a body with a line end
            self._buffer = self._buffer.lstrip(b"\r\n")
        found, limit = _HEAD_END.search(self._buffer, max(0, self._scanned_bytes - 3)), self._server.max_head_bytes
        if found is None:
            self._scanned_bytes = len(self._buffer)
            if self._scanned_bytes > 2 * limit:
                self._refuse(_HEAD_TOO_LARGE)
            return False
        head = bytes(self._buffer[: found.end()])
        del self._buffer[: found.end()]
        self._scanned_bytes = 0
        if len(head) > limit or _has_excessive_cookies(head):
            self._refuse(_HEAD_TOO_LARGE)
            return False
        start_line, headers = parse_head(head)
        self._is_chunked = "Transfer-Encoding" in headers
        self._remaining = None if self._is_chunked else int(headers.get("Content-Length", "0"))
        self._deadline = None
        self._exchange = exchange = Exchange(self, start_line, headers)
        self._delegate = self._server.start_request(exchange)
        pending = self._delegate.headers_received(start_line, headers)
        if pending is None:
            self._headers_accepted()
        else:
            self._suspend(pending, self._headers_accepted)
        return True

    def _headers_accepted(self) -> None:
        exchange = self._exchange
        if exchange is not None and (self._remaining != 0 or exchange.expects_continue):
            self._deadline = self._loop.time() + (exchange.body_seconds or self._server.body_seconds)
            if exchange.expects_continue and not exchange.is_started:
                self.write(_CONTINUE)

    def _read_body(self, remaining: int) -> bool:
        """Deliver a piece of a body or chunk, or what follows its end."""
        if remaining and not self._buffer:
            return False
        if remaining:
            piece = bytes(self._buffer[: min(remaining, _PIECE_BYTES)])
            del self._buffer[: len(piece)]
            self._remaining = remaining - len(piece)
            if self._delegate is not None and self._exchange is not None and not self._exchange.is_finished:
                pending = self._delegate.data_received(piece)
                if pending is not None:
                    self._suspend(pending)
        elif self._is_chunked:
            if len(self._buffer) < 2:
                return False
            if self._buffer[:2] != b"\r\n":
                raise HTTPInputError("a chunk is longer than its size")
            del self._buffer[:2]
            self._remaining = None
        else:
            self._complete_message()
        return True

    def _read_chunk_size(self) -> bool:
        end = self._buffer.find(b"\r\n", 0, _MAXIMUM_CHUNK_LINE)
        if end < 0:
            if len(self._buffer) >= _MAXIMUM_CHUNK_LINE:
                raise HTTPInputError("a chunk size is too long")
            return False
        if _CHUNK_SIZE.fullmatch(self._buffer, 0, end) is None:
            raise HTTPInputError("a chunk size is invalid")
        size = int(self._buffer[:end], 16)
        if size:
            del self._buffer[: end + 2]
            self._remaining = size
            return True
        if len(self._buffer) < end + 4:
            return False
        if self._buffer[end : end + 4] != b"\r\n\r\n":
            raise HTTPInputError("trailers are not supported")
        del self._buffer[: end + 4]
        self._complete_message()
        return True

    def _complete_message(self) -> None:
        """Pass the complete request to the application, unless it has responded already."""
        delegate, exchange = self._delegate, self._exchange
        assert delegate is not None
        assert exchange is not None
        self._delegate, self._deadline, exchange.is_read = None, None, True
        if exchange.is_finished:
            delegate.on_connection_close()
        else:
            delegate.finish()

    def _suspend(self, pending: Awaitable[None], then: Callable[[], None] | None = None) -> None:
        """Stop reading until the application is ready."""
        self._is_suspended = True
        self._transport.pause_reading()

        def resume(done: asyncio.Future[None]) -> None:
            self._is_suspended = False
            self._guard(done.result)
            if then is not None:
                then()
            self._read_on()

        asyncio.ensure_future(pending).add_done_callback(resume)

    def _read_on(self) -> None:
        if self.is_open:
            self._guard(self._process)
        if self.is_open and not self._is_suspended:
            self._transport.resume_reading()

    @property
    def is_open(self) -> bool:
        """Whether data can still be sent."""
        return not self._transport.is_closing()

    def write(self, data: bytes) -> asyncio.Future[None]:
        """Send data; the future is done when the client has received enough to send more."""
        if self.is_open:
            self._transport.write(data)
            if self._drained is not None:
                return self._drained
        future = self._loop.create_future()
        if self.is_open:
            future.set_result(None)
        else:
            future.set_exception(StreamClosedError())
            future.exception()
        return future

    def response_finished(self, exchange: Exchange) -> None:
        """Close the connection after a response, or read the next request."""
        if not exchange.keeps_alive:
            self.close()
        elif self._drained is None:
            self._next_request()
        else:
            self._drained.add_done_callback(lambda _: self._next_request())

    def _next_request(self) -> None:
        self._exchange = None
        self._expect_head()
        if self._buffer or (self.is_open and not self._transport.is_reading()):
            self._loop.call_soon(self._read_on)

    def close(self) -> None:
        """Close the connection after what was written is sent."""
        self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def _refuse(self, response: bytes) -> None:
        """Answer a request that the application does not handle, and close the connection."""
        if self._exchange is None or not self._exchange.is_started:
            self.write(response)
        self.close()

    def _expect_head(self) -> None:
        self._deadline = self._loop.time() + self._server.idle_seconds

    def _check_deadline(self) -> None:
        """Close a connection whose request does not arrive in time. One timer serves all requests."""
        remaining_seconds = self._server.idle_seconds
        if self._deadline is not None:
            remaining_seconds = self._deadline - self._loop.time()
            if remaining_seconds <= 0:
                self.abort()
                return
        wait_seconds = min(remaining_seconds, self._server.idle_seconds)
        self._timer = self._loop.call_later(wait_seconds, self._check_deadline)


def _has_excessive_cookies(head: bytes) -> bool:
    if len(head) <= _MAXIMUM_COOKIE_BYTES and head.count(b";") < _MAXIMUM_COOKIES:
        return False
    cookies = _COOKIES.findall(head)
    count = sum(line.count(b";") + 1 for line in cookies)
    return count > _MAXIMUM_COOKIES or sum(map(len, cookies)) > _MAXIMUM_COOKIE_BYTES
