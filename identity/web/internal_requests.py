"""Requests that the service makes to its own routes, in the same process and on behalf of a known caller.

The console calls the API in this way: each call passes the same permissions, validation and audit log as one of an API
key. No header can express such a caller, so that no client can forge one.
"""

from __future__ import annotations

import asyncio
import dataclasses
import urllib.parse
from collections.abc import Mapping
from typing import Any

import orjson
import tornado.web
from tornado.httputil import HTTPConnection, HTTPHeaders, HTTPServerRequest, RequestStartLine, ResponseStartLine

from identity.call import AdministratorCaller

_COPIED = ("Host", "User-Agent", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Accept-Language")


class InternalRequest(HTTPServerRequest):
    """A request of the service itself; `caller` is authenticated already."""

    caller: AdministratorCaller


@dataclasses.dataclass(frozen=True, slots=True)
class InternalResponse:
    """The response to an internal request."""

    status: int
    headers: HTTPHeaders
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    def json(self) -> Any:
        """Return the JSON body; an empty object without one."""
        return orjson.loads(self.body) if self.body else {}


class ResponseRecorder(HTTPConnection):
    """Stands in for the connection, and records the response."""

    def __init__(self) -> None:
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.status = 0
        self.headers = HTTPHeaders()
        self.pieces: list[bytes] = []

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

    def detach(self) -> ResponseRecorder:
        """End a response that its handler gave up half way; what was recorded of it is not used."""
        self.status, self.pieces = 500, []
        return self

    def close(self) -> None:
        """Close the connection."""
        self.finish()

    def set_close_callback(self, callback: object) -> None:
        """Do nothing: the connection is never closed by a client."""


def caller_of(request: HTTPServerRequest) -> AdministratorCaller | None:
    """Return the caller of an internal request; None for a request from outside."""
    return request.caller if isinstance(request, InternalRequest) else None


async def send(
    application: tornado.web.Application,
    outer: HTTPServerRequest,
    caller: AdministratorCaller,
    method: str,
    uri: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
) -> InternalResponse:
    """Send a request to a route of this process; its client address and host are those of the `outer` request."""
    typed = {} if body is None else {"Content-Type": "application/json"}
    copied = _copied_headers(outer, {**typed, **(headers or {})})
    content = b"" if body is None else orjson.dumps(body)
    recorder, line = ResponseRecorder(), RequestStartLine(method, uri, "HTTP/1.1")
    request = InternalRequest(headers=copied, body=content, connection=recorder, start_line=line)
    request.caller = caller
    return await _response(application, outer, request, recorder)


async def post_form(
    application: tornado.web.Application, outer: HTTPServerRequest, path: str, form: Mapping[str, str]
) -> InternalResponse:
    """Send a form to a route of this process, as a client without any authority would."""
    copied = _copied_headers(outer, {"Content-Type": "application/x-www-form-urlencoded"})
    recorder, line = ResponseRecorder(), RequestStartLine("POST", path, "HTTP/1.1")
    content = urllib.parse.urlencode(form).encode()
    request = HTTPServerRequest(headers=copied, body=content, connection=recorder, start_line=line)
    return await _response(application, outer, request, recorder)


def _copied_headers(outer: HTTPServerRequest, others: Mapping[str, str]) -> HTTPHeaders:
    """Return the headers that describe the client of the `outer` request, with others."""
    copied = HTTPHeaders()
    for name in _COPIED:
        for value in outer.headers.get_list(name):
            copied.add(name, value)
    copied.update(others)
    return copied


async def _response(
    application: tornado.web.Application,
    outer: HTTPServerRequest,
    request: HTTPServerRequest,
    recorder: ResponseRecorder,
) -> InternalResponse:
    request.remote_ip, request.protocol = outer.remote_ip, outer.protocol
    # The handler finishes the response; failures are responses as well.
    application(request)
    await recorder.finished
    return InternalResponse(recorder.status, recorder.headers, b"".join(recorder.pieces))
