"""A webhook receiver on a local port with scripted behaviour: responses, refusals, resets, hangs and slow bodies."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import orjson

DEADLINE_SECONDS = 60
_PORTS: set[int] = set()


@dataclasses.dataclass
class Received:
    """One request as it arrived; `connection` counts the receiver's connections."""

    method: str
    path: str
    version: str
    header_list: list[tuple[str, str]]
    body: bytes
    connection: int
    peer_certificate: dict[str, Any] | None

    @property
    def headers(self) -> dict[str, str]:
        """The headers, with lower-case names."""
        return {name.lower(): value for name, value in self.header_list}

    @property
    def event(self) -> dict[str, Any]:
        """The event in the body."""
        return orjson.loads(self.body)["event"]


Behaviour = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]


def answers(status: int = 200, body: bytes = b"", headers: Iterable[str] = ()) -> Behaviour:
    """Send the same response to every request."""

    async def behave(_request: Received, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status} Any", f"Content-Length: {len(body)}", *headers]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    return behave


def sends(raw: bytes, *, then_close: bool = True) -> Behaviour:
    """Send these bytes as the response, valid HTTP or not."""

    async def behave(_request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await writer.drain()
        if then_close:
            writer.close()

    return behave


async def resets(_request: Received, writer: asyncio.StreamWriter) -> None:
    """Reset the TCP connection."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def hangs(_request: Received, _writer: asyncio.StreamWriter) -> None:
    """Read the request and never respond."""
    await asyncio.Event().wait()


def drips(head: bytes, drop: bytes, every_seconds: float = 0.02) -> Behaviour:
    """Send `head`, then `drop` repeatedly without end."""

    async def behave(_request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(drop)
            await writer.drain()
            await asyncio.sleep(every_seconds)

    return behave


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Use each behaviour for one request, and the last one for all further requests."""
    rest = list(behaviours)

    async def behave(request: Received, writer: asyncio.StreamWriter) -> None:
        await (rest.pop(0) if len(rest) > 1 else rest[0])(request, writer)

    return behave


class Receiver:
    """The server. `requests` has the received requests."""

    def __init__(self, behaviour: Behaviour | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.behaviour: Behaviour = behaviour or answers(200)
        self.requests: list[Received] = []
        self.connections = 0
        self.port = 0
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._arrived = asyncio.Condition()

    @property
    def url(self) -> str:
        """Where to send events."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}/hook"

    async def start(self, port: int = 0, address: str = "127.0.0.1") -> None:
        """Listen on the given port, or on one that no receiver of this process has used.

        The service caches responses by URL, and would not send a request to a second server at the same URL.
        """
        while True:
            self._server = await asyncio.start_server(self._serve, address, port, ssl=self._tls)
            self.port = self._server.sockets[0].getsockname()[1]
            if port or self.port not in _PORTS:
                break
            self._server.close()
            await self._server.wait_closed()
        _PORTS.add(self.port)

    async def stop(self) -> None:
        """Close the listening socket and all connections."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    async def wait_for(self, count: int) -> list[Received]:
        """The requests, once at least `count` have arrived."""
        async with asyncio.timeout(DEADLINE_SECONDS), self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= count)
        return self.requests

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            await self._converse(self.connections, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
        except asyncio.CancelledError:
            writer.transport.abort()  # a TLS shutdown would wait for the peer
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(OSError, ssl.SSLError):
                await writer.wait_closed()

    async def _converse(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not writer.is_closing():
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            line, *fields = head.rstrip("\r\n").split("\r\n")
            method, path, version = line.split(" ")
            headers = [(name, value.strip()) for name, _, value in (field.partition(":") for field in fields)]
            length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
            body = await reader.readexactly(length)
            peer = writer.get_extra_info("peercert") or None
            request = Received(method, path, version, headers, body, number, peer)
            async with self._arrived:
                self.requests.append(request)
                self._arrived.notify_all()
            await self.behaviour(request, writer)
            await writer.drain()


@contextlib.asynccontextmanager
async def receiving(behaviour: Behaviour | None = None, tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    """A running receiver, stopped at the end."""
    receiver = Receiver(behaviour, tls)
    await receiver.start()
    try:
        yield receiver
    finally:
        await receiver.stop()


async def until(condition: Callable[[], Any]) -> None:
    """Wait until a condition holds, at most `DEADLINE_SECONDS`."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            holds = condition()
            if asyncio.iscoroutine(holds):
                holds = await holds
            if holds:
                return
            await asyncio.sleep(0.01)
