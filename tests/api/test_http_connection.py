"""Raw HTTP/1.1 requests: whatever nginx forwards, the service reads as nginx does, or refuses."""

from __future__ import annotations

import asyncio
import getpass
import re
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import tornado.web
from tornado.netutil import bind_sockets

from identity.web import http_server
from tests.operator.test_nginx import FRAME, NGINX
from tests.ports import free_port

PARTS = Path(__file__).with_name("raw_requests.txt")
NEXT = b"GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
"""The request behind another one; who reads the first one differently does not see it."""
CHUNKED = b"3\r\nabc\r\n0\r\n\r\n"
PLACES = {
    "content-length": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %b\r\n\r\nabc" + NEXT,
    "transfer-encoding": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: %b\r\n\r\n" + CHUNKED + NEXT,
    "chunks": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%b" + NEXT,
    "request-line": b"%b\r\nHost: a\r\n\r\n" + NEXT,
    "header": b"POST / HTTP/1.1\r\nHost: a\r\n%b\r\nContent-Length: 3\r\n\r\nabc" + NEXT,
    "before": b"%b" + NEXT,
    "line-end": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3%b\r\nabc" + NEXT,
}
"""The request around each part."""


def requests() -> Iterator[bytes]:
    """Yield the requests of the corpus."""
    section = ""
    for line in PARTS.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line.startswith("|"):
            part = line[1:-1].encode().decode("unicode_escape").encode("latin1")
            yield PLACES[section] % part
            if section == "line-end":
                yield NEXT.replace(b"\r\n", part) + NEXT
                yield b"POST / HTTP/1.1\r\nHost: a" + part + b"Content-Length: 3\r\n\r\nabc" + NEXT
    for method in (b"GET", b"HEAD", b"DELETE", b"OPTIONS", b"POST"):
        for version in (b"1.0", b"1.1"):
            head = method + b" / HTTP/" + version + b"\r\nHost: a\r\nConnection: keep-alive\r\n"
            yield head + b"Content-Length: 3\r\n\r\nabc" + NEXT
            yield head + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKED + NEXT
            yield method + b" / HTTP/" + version + b"\r\n\r\n" + NEXT
    yield NEXT.replace(b"Connection: close\r\n", b"") * 5 + NEXT


REQUESTS = list(dict.fromkeys(requests()))
REFUSED = re.compile(rb"HTTP/1\.1 (400|405|408|501|505) [^\r]*\r\nServer: nginx")
Seen = list[tuple[str, str, bytes]]


class Recorder(tornado.web.RequestHandler):
    """Records each request, and answers with its body."""

    SUPPORTED_METHODS = ("GET", "HEAD", "POST", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PUT", "PATCH")

    def initialize(self, seen: Seen) -> None:
        self.seen = seen

    def record(self) -> None:
        self.seen.append((str(self.request.method), self.request.path, self.request.body))
        self.finish(self.request.body)

    get = head = post = delete = options = put = patch = trace = connect = record  # type: ignore[assignment]


class Site:
    """A server of the service whose application records what it receives."""

    def __init__(self, service) -> None:
        self.seen: Seen = []
        self.server = http_server.Server(
            tornado.web.Application([("(?s).*", Recorder, {"seen": self.seen})]),
            service.services.config.server,
            http_server.LargeBodyLimit(service.services, {}, {}),
        )
        self.server.idle_seconds = 0.2
        self.server.body_seconds = 0.2

    async def start(self) -> int:
        sockets = bind_sockets(0, "127.0.0.1")
        self.server.add_sockets(sockets)
        return int(sockets[0].getsockname()[1])


@pytest.fixture(scope="module")
async def direct(service) -> AsyncIterator[tuple[Site, int]]:
    site = Site(service)
    yield site, await site.start()
    site.server.stop()
    await site.server.close_all_connections()


@pytest.fixture(scope="module")
async def behind_nginx(service, tmp_path_factory) -> AsyncIterator[tuple[Site, int]]:
    site, port = Site(service), free_port()
    folder = tmp_path_factory.mktemp("nginx")
    upstream = await site.start()
    (folder / "identity.conf").write_text(
        "client_header_timeout 200ms; client_body_timeout 200ms; keepalive_timeout 200ms; lingering_close off;\n"
        f"server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{upstream}; }} }}\n"
    )
    (folder / "nginx.conf").write_text(FRAME.format(user=getpass.getuser(), folder=folder))
    process = subprocess.Popen([NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf")], stderr=subprocess.DEVNULL)
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        await asyncio.sleep(0.05)
    yield site, port
    process.terminate()
    process.wait(10)
    site.server.stop()
    await site.server.close_all_connections()


async def send(site: Site, port: int, request: bytes) -> tuple[Seen, bytes]:
    """Return what the application received, and the responses."""
    site.seen.clear()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    response = b""
    try:
        writer.write(request)
        async with asyncio.timeout(30):
            while piece := await reader.read(65536):
                response += piece
    except ConnectionResetError:
        pass
    finally:
        writer.close()
    return list(site.seen), response


def test_corpus_has_more_than_200_requests() -> None:
    assert len(REQUESTS) > 200


VALID = {
    b"Length: \t3", b"Length: 3\t", b"Encoding: \tchunked", b"get / ", b"GET /../x", b"GET /%2e%2e/x", b"GET /%00",
    b"GET /%zz", b"GET * ", b"OPTIONS * ", b"TRACE / ",
}  # fmt: skip
"""What nginx refuses and RFC 9112 permits: tabs around values, and targets that have no meaning here."""


@pytest.mark.requirement("attack-69")
async def test_request_is_read_as_nginx_reads_it_or_refused(direct, behind_nginx) -> None:
    differences = []
    for request in REQUESTS:
        ours, response = await send(*direct, request)
        theirs, refusal = await send(*behind_nginx, request)
        is_valid = any(part in request for part in VALID)
        is_read_alike = ours == theirs[: len(ours)] or (is_valid and theirs == [] and REFUSED.search(refusal))
        if not (is_read_alike and response) or b"HTTP/1.1 500" in response:
            differences.append((request, ours, theirs, response))
    assert not differences, "\n".join(map(repr, differences))
