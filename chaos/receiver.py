"""The webhook receiver, with faults of its own: it refuses or resets connections, hangs, or fails."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any, Literal

import orjson

Mode = Literal["working", "down", "failing", "hanging", "resetting", "unanswered", "flaky"]
FAULTY_MODES: tuple[Mode, ...] = ("down", "failing", "hanging", "resetting", "unanswered", "flaky")
"""`unanswered` accepts the event and closes the connection without a response; `flaky` is random per request."""

_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_FAILED = b"HTTP/1.1 500 Failed\r\nContent-Length: 0\r\n\r\n"


class Receiver:
    """Stores the received events in order, by the paths /ordered and /free."""

    def __init__(self, rng: random.Random) -> None:
        self.events: dict[str, list[dict[str, Any]]] = {"/ordered": [], "/free": []}
        self.mode: Mode = "working"
        self._rng = rng
        self._server: asyncio.Server | None = None
        self._port = 0
        self._writers: set[asyncio.StreamWriter] = set()

    def url(self, path: str) -> str:
        """The URL of a path."""
        return f"http://127.0.0.1:{self._port}{path}"

    async def start(self) -> None:
        """Listen, on the same port each time."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and abort all connections."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.transport.abort()

    async def set_mode(self, mode: Mode) -> None:
        """Change the mode."""
        self.mode = mode
        if mode == "down":
            await self.stop()
        elif self._server is None:
            await self.start()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self._answer(reader, writer):
                await writer.drain()
        self._writers.discard(writer)
        writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Handle one request; False ends the connection."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length:")[2].partition("\r\n")[0])
        body = await reader.readexactly(length)
        mode = self._rng.choice(("working", *FAULTY_MODES[1:-1])) if self.mode == "flaky" else self.mode
        if mode == "hanging":
            await asyncio.sleep(60)
        if mode == "failing":
            writer.write(_FAILED)
        if mode in {"working", "unanswered"}:
            self.events[head.split(" ")[1]].append(orjson.loads(body)["event"])
        if mode == "working":
            writer.write(_OK)
        return mode in {"working", "failing"}
