"""Requests handed to the application of a running service in this process, without a socket.

For matrices of thousands of requests. What is below the application, the parser and the limits of heads and bodies, is
not part of them; each is next to a test over HTTP.
"""

from __future__ import annotations

import asyncio
import types
from typing import Any

import httpx
import prometheus_client
import tornado.web
from tornado.httputil import HTTPConnection, HTTPHeaders, HTTPServerRequest, RequestStartLine, ResponseStartLine

from identity import app
from identity.web import application
from identity.web.in_flight import InFlight


class _Recorder(HTTPConnection):
    """Records the response in place of a connection."""

    context = types.SimpleNamespace(remote_ip="127.0.0.1", protocol="http")

    def __init__(self) -> None:
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.status, self.headers, self.pieces = 0, HTTPHeaders(), list[bytes]()

    def write_headers(
        self,
        start_line: RequestStartLine | ResponseStartLine,
        headers: HTTPHeaders,
        chunk: bytes | None = None,
    ) -> asyncio.Future[None]:
        assert isinstance(start_line, ResponseStartLine)
        self.status, self.headers = start_line.code, headers
        return self.write(chunk or b"")

    def write(self, chunk: bytes) -> asyncio.Future[None]:
        self.pieces.append(chunk)
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        written.set_result(None)
        return written

    def finish(self) -> None:
        if not self.finished.done():
            self.finished.set_result(None)

    def set_close_callback(self, callback: Any) -> None:
        """Do nothing: this client never closes its connection."""


def in_process(service: app.Service) -> InProcess:
    """The transport to the application of a service, built as the service builds it."""
    return InProcess(application.application(service.services, prometheus_client.CollectorRegistry(), InFlight()))


class InProcess(httpx.AsyncBaseTransport):
    """A transport to the application of a service."""

    def __init__(self, application: tornado.web.Application) -> None:
        self._application = application

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        recorder, headers = _Recorder(), HTTPHeaders()
        for name, value in request.headers.raw:
            headers.add(name.decode("latin-1"), value.decode("latin-1"))
        line = RequestStartLine(request.method, request.url.raw_path.decode("latin-1"), "HTTP/1.1")
        received = HTTPServerRequest(headers=headers, body=request.content, connection=recorder, start_line=line)
        received._parse_body()
        self._application(received)
        await recorder.finished
        return httpx.Response(
            recorder.status, headers=list(recorder.headers.get_all()), content=b"".join(recorder.pieces)
        )
