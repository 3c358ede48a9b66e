"""An httpx transport for plain HTTP/1.1 with persistent connections to a local service.

The default transport of httpx takes longer for a request than the service does. It handles TLS and streamed bodies,
which this transport passes on to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator

import httpx

from tests.plain_http import NO_TLS

_MOST_HEAD_BYTES = 2**20


@dataclasses.dataclass
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def is_usable(self) -> bool:
        return not self.reader.at_eof() and not self.writer.is_closing()

    async def exchange(self, method: str, sent: bytes) -> tuple[httpx.Response, bool]:
        """Send a request and read its response; also return whether the connection stays usable."""
        with contextlib.suppress(ConnectionError):  # the server may respond before it has read the request
            self.writer.write(sent)
            await self.writer.drain()
        status, headers = _head(await self.reader.readuntil(b"\r\n\r\n"))
        given = httpx.Headers(headers)
        is_kept = given.get("Connection", "").lower() != "close"
        if method == "HEAD" or status in {204, 304}:
            return httpx.Response(status, headers=headers), is_kept
        if "Content-Length" in given:
            body = await self.reader.readexactly(int(given["Content-Length"]))
            return httpx.Response(status, headers=headers, content=body), is_kept
        is_chunked = given.get("Transfer-Encoding", "").lower() == "chunked"
        body = await self._chunks() if is_chunked else await self.reader.read()
        return httpx.Response(status, headers=headers, stream=_Body(body)), is_kept and is_chunked

    async def _chunks(self) -> bytes:
        found = bytearray()
        while size := int((await self.reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            found += await self.reader.readexactly(size)
            await self.reader.readexactly(2)
        await self.reader.readuntil(b"\r\n")
        return bytes(found)


class _Body(httpx.AsyncByteStream):
    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._content


def _head(raw: bytes) -> tuple[int, list[tuple[bytes, bytes]]]:
    line, *fields = raw.removesuffix(b"\r\n\r\n").split(b"\r\n")
    pairs = (field.partition(b":") for field in fields)
    return int(line.split(b" ", 2)[1]), [(name, value.strip()) for name, _, value in pairs]


class Loopback(httpx.AsyncBaseTransport):
    """The transport of one client, which closes its connections with it."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, int], list[_Connection]] = {}
        self._other: httpx.AsyncHTTPTransport | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.scheme != "http" or not isinstance(request.stream, httpx.ByteStream):
            self._other = self._other or httpx.AsyncHTTPTransport(verify=NO_TLS, trust_env=False)
            return await self._other.handle_async_request(request)
        await request.aread()  # that of a redirect is not read yet
        timeouts = request.extensions.get("timeout", {})
        where = (request.url.host, request.url.port or 80)
        connection = await self._connection(where, timeouts.get("connect"))
        try:
            async with asyncio.timeout(timeouts.get("read")):
                response, is_kept = await connection.exchange(request.method, _request(request))
        except BaseException as error:
            connection.writer.transport.abort()
            raise _translated(error) from error
        if is_kept:
            self._idle.setdefault(where, []).append(connection)
        else:
            connection.writer.close()
        return response

    async def aclose(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.writer.close()
        self._idle.clear()
        if self._other is not None:
            await self._other.aclose()

    async def _connection(self, where: tuple[str, int], timeout: float | None) -> _Connection:
        idle = self._idle.get(where, [])
        while idle:
            connection = idle.pop()
            if connection.is_usable:
                return connection
            connection.writer.close()
        try:
            async with asyncio.timeout(timeout):
                return _Connection(*await asyncio.open_connection(*where, limit=_MOST_HEAD_BYTES))
        except TimeoutError as error:
            raise httpx.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error


def _request(request: httpx.Request) -> bytes:
    head = b"".join(b"%b: %b\r\n" % pair for pair in request.headers.raw)
    target = request.extensions.get("target", request.url.raw_path)
    return b"%b %b HTTP/1.1\r\n%b\r\n%b" % (request.method.encode(), target, head, request.content)


def _translated(error: BaseException) -> BaseException:
    """The exception by which httpx says the same."""
    if isinstance(error, TimeoutError):
        return httpx.ReadTimeout(str(error))
    if isinstance(error, asyncio.IncompleteReadError):
        return httpx.RemoteProtocolError("The server disconnected without sending a response.")
    return httpx.ReadError(str(error)) if isinstance(error, OSError) else error
