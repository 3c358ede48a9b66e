"""An httpx transport that calls the application of a running service in this process, without a socket.

It is for matrices of thousands of requests. It bypasses the HTTP parser and the limits of headers and bodies; tests
next to each matrix cover those over HTTP.
"""

from __future__ import annotations

import types

import httpx
import prometheus_client
import tornado.web
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine

from identity import app
from identity.web import application
from identity.web.in_flight import InFlight
from identity.web.internal_requests import ResponseRecorder


class _Recorder(ResponseRecorder):
    """Records the response in place of a connection from this machine."""

    context = types.SimpleNamespace(remote_ip="127.0.0.1", protocol="http")


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
