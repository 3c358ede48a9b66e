"""A webhook receiver with minimal cost, which records when each event arrived and responds with 200."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import cast

_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_LENGTH = b"content-length:"


class Receiver:
    """What has arrived: instants (seconds of time.perf_counter) and bodies, side by side.

    One that `hangs` reads requests and answers none of them.
    """

    def __init__(self) -> None:
        self.url = ""
        self.instants: list[float] = []
        self.bodies: list[bytes] = []
        self.hangs = False
        self._held: list[asyncio.Transport] = []
        self._changed = asyncio.Event()

    def note(self, body: bytes) -> None:
        """Record a request."""
        self.instants.append(time.perf_counter())
        self.bodies.append(body)
        self._changed.set()

    def forget(self) -> None:
        """Delete all records."""
        self.instants.clear()
        self.bodies.clear()

    def hold(self, transport: asyncio.Transport) -> None:
        """Keep a connection open without a response."""
        self._held.append(transport)

    def let_go(self) -> None:
        """Abort the connections without a response."""
        for transport in self._held:
            transport.close()
        self._held.clear()

    async def wait_for(self, count: int, patience_seconds: float) -> bool:
        """Wait until this many requests have arrived; False after the timeout."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_seconds):
                while len(self.instants) < count:
                    self._changed.clear()
                    await self._changed.wait()
        return len(self.instants) >= count


class _Connection(asyncio.Protocol):
    """The subset of HTTP/1.1 that webhooks use."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._held = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by descent

    def data_received(self, data: bytes) -> None:
        """Handle all complete requests."""
        self._held += data
        while (split := self._held.find(b"\r\n\r\n")) >= 0:
            end = split + 4 + _content_length(self._held[:split])
            if len(self._held) < end:
                return
            self._receiver.note(self._held[split + 4 : end])
            self._held = self._held[end:]
            if self._transport is None:
                continue
            if self._receiver.hangs:
                self._receiver.hold(self._transport)
            else:
                self._transport.write(_OK)


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        if line[: len(_LENGTH)].lower() == _LENGTH:
            return int(line[len(_LENGTH) :])
    return 0


@contextlib.asynccontextmanager
async def receiving(*, hangs: bool = False) -> AsyncIterator[Receiver]:
    """A receiver on a free port."""
    receiver = Receiver()
    receiver.hangs = hangs
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(receiver), "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    try:
        yield receiver
    finally:
        receiver.let_go()
        server.close()
