"""Writing responses: replies, refusals and failures, with the headers that all of them have."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from http.cookies import Morsel, SimpleCookie
from typing import Any, ClassVar

import orjson
import structlog
import tornado.web
from tornado.httputil import HTTPHeaders, format_timestamp
from tornado.iostream import StreamClosedError

from identity.call import Document
from identity.errors import Invalid, LambdaFailed, LoopDetected, MethodNotAllowed, ServiceError, TooLarge, Unavailable
from identity.web.client_address import REQUEST_ID_HEADER, ClientAddresses
from identity.web.endpoint import Reply
from identity.web.in_flight import InFlight
from identity.web.request_context import HTTP_METHODS

_log = structlog.get_logger(__name__)

_HOST_PREFIX = "__Host-"
_HOST_BOUND = ("app.pkce_v", "federated.", "fusionauth.")
"""Cookies of our own pages; other cookies have published names that callers rely on, such as `access_token`."""
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})

_DEFAULT_HEADERS = {
    "Server": "identity",
    "Content-Type": "text/html; charset=UTF-8",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
}

_GENERAL_CODES = {
    TooLarge.status: "[TooLarge]",
    Unavailable.status: "[Unavailable]",
    504: "[WebhookTransactionException]",
    LoopDetected.status: "[LoopDetected]",
    LambdaFailed.status: "[LambdaFailed]",
}

LIST_PIECE = 50
"""The number of objects that are read and rendered at a time, while other requests wait."""

ToResponse = Callable[[Document], Awaitable[Document]]


class ResponseWriter(tornado.web.RequestHandler):
    """The methods of a handler that write the response."""

    addresses: ClientAddresses
    in_flight: InFlight
    template: str
    request_id: str = ""
    retry_after_seconds: int | None = None
    """The header Retry-After of a response with the status 503."""
    refusal_reason: str
    """The reason of a refusal without an exception, for the access log."""
    SUPPORTED_METHODS: tuple[str, ...] = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
    cross_origin_headers: Mapping[str, str] = {}
    transport_headers: Mapping[str, str] = {}
    is_secure: bool = False
    json_options: ClassVar[int] = 0

    def require_secure_transport(self, hsts_seconds: int) -> None:
        """Set `is_secure`, and the HSTS header for https (RFC 6797).

        `hsts_seconds` 0 leaves the header to the proxy. It is never sent for localhost, where it would apply to every
        port of the machine.
        """
        scheme, _, host = self.addresses.base_url(self.request).partition("://")
        self.is_secure = scheme == "https"
        is_local = host.rpartition(":")[0] in _LOCAL_NAMES or host in _LOCAL_NAMES
        if self.is_secure and hsts_seconds and not is_local:
            self.transport_headers = {"Strict-Transport-Security": f"max-age={hsts_seconds}"}
            for name, value in self.transport_headers.items():
                self.set_header(name, value)

    def cookie_name(self, name: str) -> str:
        """Return the name of a cookie in the browser.

        On https cookies of our own pages have the prefix `__Host-`: browsers reject them from other hosts of a domain,
        from plain http and with another path, which prevents session fixation by sibling hosts (RFC 6265bis section
        4.1.3.2). The cookie without the prefix is not accepted instead, because a sibling host could set it.
        """
        return f"{_HOST_PREFIX}{name}" if self.is_secure and name.startswith(_HOST_BOUND) else name

    def received_cookie(self, name: str) -> str | None:
        """Return the value of a cookie, by its name without a prefix."""
        return self.get_cookie(self.cookie_name(name))

    def new_cookie(self, name: str, value: str, max_age_seconds: int | None = None) -> Morsel[str]:
        """Return an HttpOnly cookie for this host alone; without an age it is a session cookie."""
        full_name = self.cookie_name(name)
        morsel: Morsel[str] = SimpleCookie({full_name: value})[full_name]
        flags: dict[str, Any] = {"path": "/", "httponly": True, "samesite": "Lax"}
        if self.is_secure:
            flags["secure"] = True
        if max_age_seconds is not None:
            flags["max-age"] = max_age_seconds
        morsel.update(flags)
        return morsel

    def send(self, reply: Reply) -> None:
        """Send a reply."""
        self.set_status(reply.status)
        if self.in_flight.is_draining:
            self.set_header("Connection", "close")
        if reply.status == Unavailable.status and self.retry_after_seconds is not None:
            self.set_header("Retry-After", self.retry_after_seconds)
        for name, value in reply.headers.items():
            self.set_header(name, value)
        for morsel in reply.cookies:
            self.add_header("Set-Cookie", morsel.OutputString())
        self.refusal_reason = reply.reason
        if reply.body is None:
            self.clear_header("Content-Type")
            self.finish()
            return
        if isinstance(reply.body, bytes):
            self.finish(reply.body)
            return
        if "Content-Type" not in reply.headers:
            self.set_header("Content-Type", "application/json")
        self.finish(orjson.dumps(reply.body, option=self.json_options))

    async def send_pieces(self, pieces: AsyncGenerator[bytes, None], headers: Mapping[str, str]) -> None:
        """Stream JSON, or the content type of the headers, piece by piece.

        A failure after the first piece closes the connection.
        """
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.set_header(name, value)
        if self.in_flight.is_draining:
            self.set_header("Connection", "close")
        async with contextlib.aclosing(pieces):
            try:
                async for piece in pieces:
                    self.write(piece)
                    await self.flush()
            except StreamClosedError:
                return
            except Exception:  # noqa: BLE001 (the status was sent already)
                _log.exception("response aborted", request_id=self.request_id, route=self.template)
                self.detach().close()
                self.on_finish()
                return
        self.finish()

    def refuse(self, error: ServiceError) -> None:
        """Send an error: the status alone, unless a subclass renders more."""
        self.send(Reply(status=error.status))

    def fail(self) -> None:
        """Send an unexpected failure, without details."""
        self.send(Reply(status=500))

    def clear(self) -> None:
        """Reset the response as Tornado does, which formats the date and checks the default headers each time."""
        self._headers = HTTPHeaders()
        for name, value in _DEFAULT_HEADERS.items():
            self._headers[name] = value
        self._headers["Date"] = _date(int(time.time()))
        self.set_default_headers()
        self._write_buffer = []
        self.set_status(200)

    def set_default_headers(self) -> None:
        """Set the headers of this response that remain if it becomes an error."""
        if self.request_id:  # Tornado sets the headers once before `initialize`
            self.set_header(REQUEST_ID_HEADER, self.request_id)
        for name, value in {**self.cross_origin_headers, **self.transport_headers}.items():
            self.set_header(name, value)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Render Tornado's own errors with an empty body: 405, 501 for an unknown method, malformed requests."""
        self.clear_header("Content-Type")
        self.refusal_reason = "the request cannot be routed"
        if status_code == MethodNotAllowed.status:
            self.set_header("Allow", self.allow())
            if self.request.method not in HTTP_METHODS:
                self.set_status(501)
        self.finish()

    def allow(self) -> str:
        """Return the value of the Allow header (RFC 9110 section 10.2.1): HEAD is allowed wherever GET is."""
        names = self.allowed().split(", ")
        return ", ".join(name for each in names for name in ((each, "HEAD") if each == "GET" else (each,)))

    def allowed(self) -> str:
        """Return the methods of this path that are declared as endpoints."""
        return ", ".join(name for name in self.SUPPORTED_METHODS if hasattr(getattr(self, name.lower()), "endpoint"))

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Log errors outside of `run`, except Tornado's own HTTP errors."""
        if not isinstance(value, tornado.web.HTTPError):
            _log.error("request failed", request_id=self.request_id, exc_info=(typ, value, tb))

    def compute_etag(self) -> str | None:
        """Return None: Tornado adds no ETag, prepared responses have their own."""
        return None

    def check_etag_header(self) -> bool:
        """Return False: Tornado would parse `If-None-Match` for each response without an ETag."""
        return False


@functools.lru_cache(maxsize=1)
def _date(unix_seconds: int) -> str:
    """Return the value of the Date header."""
    return format_timestamp(unix_seconds)


def errors_body(error: ServiceError) -> Document | None:
    """Return the published Errors JSON of an error, or None where the body is empty."""
    if isinstance(error, Invalid):
        body: Document = {}
        for field in error.fields:
            entry = {"code": field.code, "message": field.message}
            body.setdefault("fieldErrors", {}).setdefault(field.path, []).append(entry)
        if error.general:
            body["generalErrors"] = [{"code": e.code, "message": e.message} for e in error.general]
        return body
    code = _GENERAL_CODES.get(error.status)
    return None if code is None else {"generalErrors": [{"code": code, "message": error.message or code}]}


async def list_reply(name: str, documents: AsyncIterator[Document], to_response: ToResponse) -> Reply:
    """Return the reply `{name: [...]}` with all documents; a long list is sent while it is read."""
    first = await _next_list_piece(documents, to_response)
    if len(first) < LIST_PIECE:
        return Reply({name: first})
    return Reply(pieces=_list_pieces(name, first, documents, to_response))


async def _list_pieces(
    name: str, first: list[Document], documents: AsyncIterator[Document], to_response: ToResponse
) -> AsyncGenerator[bytes, None]:
    yield b"{" + orjson.dumps(name) + b":[" + orjson.dumps(first, option=orjson.OPT_SORT_KEYS)[1:-1]
    while piece := await _next_list_piece(documents, to_response):
        yield b"," + orjson.dumps(piece, option=orjson.OPT_SORT_KEYS)[1:-1]
        await asyncio.sleep(0)
    yield b"]}"


async def _next_list_piece(documents: AsyncIterator[Document], to_response: ToResponse) -> list[Document]:
    piece: list[Document] = []
    async for document in documents:
        piece.append(await to_response(document))
        if len(piece) == LIST_PIECE:
            break
    return piece
