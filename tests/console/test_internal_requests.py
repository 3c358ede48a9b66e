"""Requests of the service to its own routes: every way in which a handler ends is a response."""

from __future__ import annotations

import pytest
import tornado.web
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine

from identity.call import AdministratorCaller
from identity.web import internal_requests


class Handler(tornado.web.RequestHandler):
    """Ends as its path says."""

    def get(self, end: str) -> None:
        if end == "refusal":
            raise tornado.web.HTTPError(404)
        if end == "failure":
            raise RuntimeError
        self.write("a part")
        if end == "interruption":
            self.flush()
            self.detach().close()

    def log_exception(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize(
    ("end", "status", "body"),
    [("success", 200, b"a part"), ("refusal", 404, None), ("failure", 500, None), ("interruption", 500, b"")],
)
async def test_end_of_a_handler_is_a_response(end: str, status: int, body: bytes | None) -> None:
    application = tornado.web.Application([("/(.+)", Handler)], log_function=lambda _: None)
    line = RequestStartLine("GET", "/", "HTTP/1.1")
    outer = HTTPServerRequest(headers=HTTPHeaders({"Host": "localhost"}), start_line=line)
    caller = AdministratorCaller({"id": "x"})
    response = await internal_requests.send(application, outer, caller, "GET", f"/{end}")
    assert response.status == status
    assert body is None or response.body == body
