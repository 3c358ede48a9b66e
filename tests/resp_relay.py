"""A relay in front of a Redis server that can answer every command itself, with an error."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class RespRelay:
    """Forwards connections to a Unix socket; while `refusal` is set, it answers each command with that error.

    Each command is delayed by `delay_seconds`.
    """

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._tasks: set[asyncio.Task[None]] = set()
        self.refusal: bytes | None = None
        self.delay_seconds = 0.0

    async def relay(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        server, commands = await asyncio.open_unix_connection(self._socket)
        back = asyncio.create_task(_copy(server, answers))
        self._tasks.add(back)
        try:
            while command := await _command(client):
                await asyncio.sleep(self.delay_seconds)
                if self.refusal is None:
                    commands.write(command)
                    await commands.drain()
                else:
                    answers.write(b"-" + self.refusal + b"\r\n")
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            back.cancel()
            commands.close()
            answers.close()


async def _command(client: asyncio.StreamReader) -> bytes:
    """The bytes of one command: an array of bulk strings."""
    head = await client.readline()
    parts = [head]
    for _ in range(int(head[1:] or b"0")):
        size = await client.readline()
        parts += [size, await client.readexactly(int(size[1:]) + 2)]
    return b"".join(parts)


async def _copy(server: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await server.read(65_536):
            answers.write(data)
            await answers.drain()


@contextlib.asynccontextmanager
async def relaying(socket: str) -> AsyncIterator[tuple[RespRelay, str]]:
    """A relay, and its URL."""
    relay = RespRelay(socket)
    server = await asyncio.start_server(relay.relay, "127.0.0.1", 0)
    try:
        yield relay, f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
    finally:
        server.close()
