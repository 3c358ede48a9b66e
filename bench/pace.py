"""Requests at an even pace, whether the answers keep up or not: what wrk, which waits for each answer, cannot do."""

from __future__ import annotations

import asyncio
import time
import urllib.parse
from collections.abc import Callable, Sequence

_CONNECTIONS = 32
_LENGTH = b"content-length:"


async def send(urls: Sequence[str], request: Callable[[int], bytes], count: int, per_second: float) -> list[str]:
    """Send `count` requests, to each process in turn; answers what went wrong.

    `request` makes the whole request of a number. One that finds every connection busy goes out late.
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
                status, body = await _answer(reader)
                if status != 200:
                    faults.append(f"status {status}: {body.decode()[:200]}")
        finally:
            writer.close()

    await asyncio.gather(*(work(first) for first in range(_CONNECTIONS)))
    return faults


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [int(line[len(_LENGTH) :]) for line in head.split(b"\r\n") if line[: len(_LENGTH)].lower() == _LENGTH]
    return int(head.split(b" ", 2)[1]), await reader.readexactly(lengths[0] if lengths else 0)
