"""How a reply, a refusal and a failure leave the service, with the headers that all answers have."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping
from http.cookies import Morsel, SimpleCookie
from typing import Any, ClassVar

import orjson
import structlog
import tornado.web
from tornado.iostream import StreamClosedError

from identity.errors import MethodNotAllowed, ServiceError
from identity.web.client_address import AddressBook
from identity.web.endpoint import Reply
from identity.web.in_flight import InFlight

_log = structlog.get_logger(__name__)

_HOST_PREFIX = "__Host-"
_HOST_BOUND = ("app.pkce_v", "federated.", "fusionauth.")
"""Cookies of our own pages. Others have published names that callers rely on, such as `access_token`."""
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})

_HTTP_METHODS = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"})


class ResponseWriter(tornado.web.RequestHandler):
    """The part of every handler that answers."""

    addresses: AddressBook
    in_flight: InFlight
    template: str
    request_id: str
    SUPPORTED_METHODS: tuple[str, ...] = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
    cross_origin_headers: Mapping[str, str] = {}
    transport_headers: Mapping[str, str] = {}
    is_secure: bool = False
    json_options: ClassVar[int] = 0

    def require_secure_transport(self, hsts_seconds: int) -> None:
        """Take note of whether the client came by https, and tell it to come by nothing else from now on (RFC 6797).

        `hsts_seconds` 0 leaves that to the proxy. A policy for localhost would apply to every port of the machine.
        """
        scheme, _, place = self.addresses.base_url(self.request).partition("://")
        self.is_secure = scheme == "https"
        is_local = place.rpartition(":")[0] in _LOCAL_NAMES or place in _LOCAL_NAMES
        if self.is_secure and hsts_seconds and not is_local:
            self.transport_headers = {"Strict-Transport-Security": f"max-age={hsts_seconds}"}
            for name, value in self.transport_headers.items():
                self.set_header(name, value)

    def cookie_name(self, name: str) -> str:
        """The name that a cookie of our own pages has in the browser.

        On https it has the prefix `__Host-`: browsers then refuse it from other hosts of the domain, from plain http
        and with another path, so that no neighbour can plant a session (RFC 6265bis section 4.1.3.2). A cookie without
        the prefix is not accepted in its place, because it is the one that a neighbour could plant.
        """
        return f"{_HOST_PREFIX}{name}" if self.is_secure and name.startswith(_HOST_BOUND) else name

    def received_cookie(self, name: str) -> str | None:
        """The value of a cookie, by its name without a prefix."""
        return self.get_cookie(self.cookie_name(name))

    def new_cookie(self, name: str, value: str, max_age_seconds: int | None = None) -> Morsel[str]:
        """A cookie for this host alone, out of reach of scripts; without an age it ends with the browser."""
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
        """Write a reply."""
        self.set_status(reply.status)
        if self.in_flight.is_draining:
            self.set_header("Connection", "close")
        for name, value in reply.headers.items():
            self.set_header(name, value)
        for morsel in reply.cookies:
            self.add_header("Set-Cookie", morsel.OutputString())
        if not reply.body:
            self.log_refusal(reply.status, reply.reason)
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
        """Write JSON, or what the headers say, each piece when the one before has left.

        What fails on the way is cut off.
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
            except Exception:  # noqa: BLE001 (it is too late for another status)
                _log.exception("answer broke off", request_id=self.request_id, route=self.template)
                self.detach().close()
                self.on_finish()
                return
        self.finish()

    def log_refusal(self, status: int, reason: str) -> None:
        """Explain a refusal without a body in the log, because the caller receives no reason."""

    def refuse(self, error: ServiceError) -> None:
        """Render what a caller may be told: the status alone, where a family has no shape of its own."""
        self.send(Reply(status=error.status))

    def fail(self) -> None:
        """Render an unexpected failure: nothing of it leaves the service."""
        self.send(Reply(status=500))

    def set_default_headers(self) -> None:
        """Headers of every answer, errors included."""
        self.set_header("Server", "identity")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cache-Control", "no-store")
        self.set_header("Referrer-Policy", "no-referrer")
        for name, value in {**self.cross_origin_headers, **self.transport_headers}.items():
            self.set_header(name, value)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Tornado's own refusals: 405 or, for a method that HTTP does not have, 501, empty; a malformed request."""
        self.clear_header("Content-Type")
        self.log_refusal(status_code, "the request cannot be routed")
        if status_code == MethodNotAllowed.status:
            self.set_header("Allow", self.allow())
            if self.request.method not in _HTTP_METHODS:
                self.set_status(501)
        self.finish()

    def allow(self) -> str:
        """The value of the Allow header (RFC 9110 section 10.2.1): HEAD is answered wherever GET is."""
        names = self.allowed().split(", ")
        return ", ".join(name for each in names for name in ((each, "HEAD") if each == "GET" else (each,)))

    def allowed(self) -> str:
        """The methods of this path that are declared as endpoints."""
        return ", ".join(name for name in self.SUPPORTED_METHODS if hasattr(getattr(self, name.lower()), "endpoint"))

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Tornado's own refusals are not worth a log line; the rest is logged in `run`."""
        if not isinstance(value, tornado.web.HTTPError):
            _log.error("request failed", request_id=self.request_id, exc_info=(typ, value, tb))

    def compute_etag(self) -> str | None:
        """No automatic ETag: prepared answers bring their own."""
        return None
