"""The receiver of the events, which is disturbed too: it refuses, resets, hangs, fails, or answers and is cut off."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any, Literal

import orjson

Mood = Literal["well", "gone", "failing", "hanging", "resetting", "forgetful", "moody"]
MOODS: tuple[Mood, ...] = ("gone", "failing", "hanging", "resetting", "forgetful", "moody")
"""`forgetful` takes the event and cuts the connection before the answer; `moody` is any of them, by request."""

_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_FAILED = b"HTTP/1.1 500 Failed\r\nContent-Length: 0\r\n\r\n"


class Receiver:
    """What has arrived, in order: `events` are those of the path /ordered and of the path /free."""

    def __init__(self, chance: random.Random) -> None:
        self.events: dict[str, list[dict[str, Any]]] = {"/ordered": [], "/free": []}
        self.mood: Mood = "well"
        self._chance = chance
        self._server: asyncio.Server | None = None
        self._port = 0
        self._writers: set[asyncio.StreamWriter] = set()

    def url(self, path: str) -> str:
        """Where to send events."""
        return f"http://127.0.0.1:{self._port}{path}"

    async def start(self) -> None:
        """Listen, on the same port as before."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Die: nobody listens, and all connections are cut."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.transport.abort()

    async def change(self, mood: Mood) -> None:
        """Be in another mood."""
        self.mood = mood
        if mood == "gone":
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
        """Take one request; False ends the connection."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length:")[2].partition("\r\n")[0])
        body = await reader.readexactly(length)
        mood = self._chance.choice(("well", *MOODS[1:-1])) if self.mood == "moody" else self.mood
        if mood == "hanging":
            await asyncio.sleep(60)
        if mood == "failing":
            writer.write(_FAILED)
        if mood in {"well", "forgetful"}:
            self.events[head.split(" ")[1]].append(orjson.loads(body)["event"])
        if mood == "well":
            writer.write(_OK)
        return mood in {"well", "failing"}
