"""Requests at a fixed rate (open loop), which wrk, a closed-loop load generator, does not support."""

from __future__ import annotations

import asyncio
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence

_CONNECTIONS = 32
_LENGTH = b"content-length:"


async def send(
    urls: Sequence[str],
    request: Callable[[int], bytes],
    count: int,
    per_second: float,
    took: list[float] | None = None,
) -> list[str]:
    """Send `count` requests, to each process in turn; returns a description of failures.

    `request` makes the whole request of a number. One that finds every connection busy goes out late. `took` gets the
    seconds from the moment at which each should have gone out to its answer.
    """
    began = time.perf_counter()
    faults: list[str] = []

    async def work(first: int) -> None:
        address = urllib.parse.urlsplit(urls[first % len(urls)])
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        try:
            for number in range(first, count, _CONNECTIONS):
                await asyncio.sleep(began + number / per_second - time.perf_counter())
                writer.write(request(number))
                head, body = await read_response(reader)
                status = int(head.split(b" ", 2)[1])
                if took is not None:
                    took.append(time.perf_counter() - began - number / per_second)
                if status >= 400:
                    faults.append(f"status {status}: {body.decode()[:200]}")
        finally:
            writer.close()

    await asyncio.gather(*(work(first) for first in range(_CONNECTIONS)))
    return faults


def post(path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    """A complete request with a JSON body."""
    lines = {"Host": "localhost", "Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body


async def read_response(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Read the head and the body of a response."""
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [int(line[len(_LENGTH) :]) for line in head.split(b"\r\n") if line[: len(_LENGTH)].lower() == _LENGTH]
    return head, await reader.readexactly(lengths[0] if lengths else 0)
