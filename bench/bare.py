"""A minimal Tornado server, the limit of every rate. `python -m bench.bare PORT`."""

from __future__ import annotations

import asyncio
import sys

import orjson
import tornado.web
import uvloop

_ANSWER = {"active": True, "scope": "openid offline_access", "sub": "5c1a4f5e-0f7e-4d3a-9a52-6d1d6e0a0001"}


class BareHandler(tornado.web.RequestHandler):
    """A small JSON object."""

    def get(self) -> None:
        self.answer()

    def post(self) -> None:
        """The same, after parsing the form."""
        self.get_body_argument("refresh_token")
        self.answer()

    def answer(self) -> None:
        """Write the JSON."""
        self.set_header("Content-Type", "application/json")
        self.finish(orjson.dumps(_ANSWER))

    def compute_etag(self) -> None:
        """No ETag, as in the service."""

    def data_received(self, chunk: bytes) -> None:
        """Bodies are read whole."""


async def main(port: int) -> None:
    """Serve until killed."""
    application = tornado.web.Application([("/", BareHandler)], log_function=lambda _handler: None)
    application.listen(port, "127.0.0.1")
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
