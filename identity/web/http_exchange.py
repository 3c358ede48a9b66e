"""A request of an HTTP/1.1 connection and its response (RFC 9112), in the forms of Tornado.

Heads are strict where proxies differ: bare line feeds, folded headers, several lengths, a length beside a transfer
coding, and targets other than paths are malformed.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import httptools
from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPInputError,
    HTTPOutputError,
    RequestStartLine,
    ResponseStartLine,
)

_REQUEST_LINE: Final = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}) (/[!-~\x80-\xff]*|\*) (HTTP/1\.[01])\r\n")


class Peer:
    """The peer of a connection, by the names that Tornado's requests read."""

    __slots__ = ("protocol", "remote_ip")

    def __init__(self, remote_ip: str) -> None:
        self.remote_ip = remote_ip
        self.protocol = "http"


class Wire(Protocol):
    """What a response needs of its connection."""

    peer: Peer

    @property
    def is_open(self) -> bool:
        """Whether data can still be sent."""

    def write(self, data: bytes) -> asyncio.Future[None]:
        """Send data; the future is done when the client has received enough to send more."""

    def response_finished(self, exchange: Exchange) -> None:
        """Close the connection after a response, or read the next request."""

    def close(self) -> None:
        """Close the connection after what was written is sent."""

    def abort(self) -> None:
        """Close the connection at once."""


class RequestHeaders(HTTPHeaders):
    """The headers of a request that `httptools` has validated, which Tornado would do again for each."""

    def __init__(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        self._as_list: dict[str, list[str]] = {}
        self._combined_cache: dict[str, str] = {}
        for name, raw in pairs:
            key, value = _header_name(name), raw.decode("latin1").strip(" \t")
            if key in self._as_list:
                self._as_list[key].append(value)
                self._combined_cache.pop(key, None)
            else:
                self._as_list[key] = [value]
                self._combined_cache[key] = value

    def get(self, name: str, default: Any = None) -> Any:
        """As of HTTPHeaders; names in their usual case are found at once."""
        found = self._combined_cache.get(name)
        return super().get(name, default) if found is None else found


@functools.lru_cache(1024)
def _header_name(name: bytes) -> str:
    return "-".join(part.capitalize() for part in name.decode("latin1").split("-"))


class _Receiver:
    """Receives the headers from the parser."""

    __slots__ = ("pairs",)

    def __init__(self) -> None:
        self.pairs: list[tuple[bytes, bytes]] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.pairs.append((name, value))


def parse_head(head: bytes) -> tuple[RequestStartLine, HTTPHeaders]:
    """Return the request line and the headers of a head. Raises HTTPInputError and HttpParserError."""
    line = _REQUEST_LINE.match(head)
    if line is None:
        raise HTTPInputError("the request line is malformed")
    method, target, version = line.groups()
    received = _Receiver()
    parser = httptools.HttpRequestParser(received)
    try:
        parser.feed_data(head)
    except httptools.HttpParserUpgrade:
        pass  # an offer, which the server may ignore (RFC 9110 section 7.8)
    except httptools.HttpParserInvalidMethodError:
        # Unknown here; the application answers 501.
        received = _Receiver()
        httptools.HttpRequestParser(received).feed_data(b"GET" + head[len(method) :])
    headers = RequestHeaders(received.pairs)
    if "Transfer-Encoding" in headers and (headers["Transfer-Encoding"].lower(), version) != ("chunked", b"HTTP/1.1"):
        raise HTTPInputError("the transfer coding is not chunked")
    return RequestStartLine(method.decode(), target.decode("latin1"), version.decode()), headers


class Exchange(HTTPConnection):
    """A request and its response, in the form that Tornado's handlers write to.

    `on_finish` is called once the response is written.
    """

    __slots__ = (
        "_close_callback", "_connection", "_is_chunked", "_method", "_remaining", "_version", "body_seconds", "context",
        "expects_continue", "is_finished", "is_read", "is_started", "keeps_alive", "on_finish",
    )  # fmt: skip

    def __init__(self, connection: Wire, start_line: RequestStartLine, headers: HTTPHeaders) -> None:
        self._connection = connection
        self._method, self._version = start_line.method, start_line.version
        self._is_chunked = False
        self._remaining: int | None = None
        self._close_callback: Callable[[], None] | None = None
        self.context = connection.peer
        self.body_seconds: float | None = None
        self.on_finish: Callable[[], None] | None = None
        self.expects_continue = headers.get("Expect", "").lower() == "100-continue"
        options = headers.get("Connection", "").lower()
        if options not in {"", "close", "keep-alive"}:
            options = "close" if "close" in {option.strip() for option in options.split(",")} else ""
        self.keeps_alive = options == "keep-alive" if self._version == "HTTP/1.0" else options != "close"
        self.is_read = self.is_started = self.is_finished = False

    def write_headers(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders, chunk: bytes | None = None
    ) -> asyncio.Future[None]:
        """Send the head of the response, and the beginning of its body."""
        assert isinstance(start_line, ResponseStartLine)
        has_body = self._method != "HEAD" and start_line.code not in {204, 304}
        length = headers.get("Content-Length")
        self._is_chunked = has_body and length is None and self._version == "HTTP/1.1"
        self._remaining = int(length) if has_body and length is not None else None if has_body else 0
        if self._is_chunked:
            headers["Transfer-Encoding"] = "chunked"
        if headers.get("Connection", "").lower() == "close" or (has_body and not self._is_chunked and length is None):
            self.keeps_alive = False
        if not self.keeps_alive:
            headers["Connection"] = "close"
        elif self._version == "HTTP/1.0":
            headers["Connection"] = "Keep-Alive"
        lines = [f"{name}: {value}" for name, value in headers.get_all()]
        head = "\r\n".join((f"HTTP/1.1 {start_line.code} {start_line.reason}", *lines, "", ""))
        if not head.count("\r") == head.count("\n") == len(lines) + 2:
            raise ValueError("a header of the response contains a line end")
        self.is_started = True
        return self._connection.write(head.encode("latin1") + (self._framed(chunk) if chunk else b""))

    def write(self, chunk: bytes) -> asyncio.Future[None]:
        """Send a part of the body."""
        return self._connection.write(self._framed(chunk))

    def finish(self) -> None:
        """End the response. Raises HTTPOutputError if it is shorter than its length."""
        if self._remaining and self._connection.is_open:
            self._connection.abort()
            raise HTTPOutputError(f"the response is {self._remaining} bytes shorter than its Content-Length")
        if self._is_chunked and self._connection.is_open:
            self._connection.write(b"0\r\n\r\n")
        self.is_finished = True
        # The rest of a request whose response is sent early is not read.
        self.keeps_alive = self.keeps_alive and self.is_read
        self._close_callback = None
        if self.on_finish is not None:
            self.on_finish()
        self._connection.response_finished(self)

    def set_close_callback(self, callback: Callable[[], None] | None) -> None:
        """Set what is called if the client closes the connection before the response is finished."""
        self._close_callback = callback

    def connection_lost(self) -> None:
        """Notify the handler that the client is gone."""
        callback, self._close_callback = self._close_callback, None
        if callback is not None:
            callback()

    def detach(self) -> Wire:
        """Return the connection of a response that cannot be completed."""
        return self._connection

    def _framed(self, chunk: bytes) -> bytes:
        if self._remaining is not None:
            self._remaining -= len(chunk)
            if self._remaining < 0:
                self._connection.abort()
                raise HTTPOutputError("the response is longer than its Content-Length")
        return b"%x\r\n%b\r\n" % (len(chunk), chunk) if self._is_chunked and chunk else chunk
