"""A fixed number of requests until the last response, for work that takes long.

wrk ends with a request under way on each connection. The service still does that work, but wrk does not count it: with
16 connections and 80 logins a second, one login in five in a round of a second.
"""

from __future__ import annotations

import asyncio
import itertools
import time
import urllib.parse
from collections.abc import Sequence

from bench.figures import Latency
from bench.pace import read_response
from bench.wrk import Outcome


async def send(urls: Sequence[str], requests: Sequence[Sequence[bytes]], connections: int, count: int) -> Outcome:
    """Send `count` requests over connections to each process, which has requests of its own, sent in turn.

    A response has to be a redirect with a code.
    """
    remaining = iter(range(count))
    took: list[float] = []
    faults: list[str] = []

    async def work(url: str, mine: itertools.cycle[bytes]) -> None:
        address = urllib.parse.urlsplit(url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        try:
            for _ in remaining:
                sent = time.perf_counter()
                writer.write(next(mine))
                head, _body = await read_response(reader)
                took.append(time.perf_counter() - sent)
                if b"code=" not in head:
                    faults.append(head.decode()[:200])
        finally:
            writer.close()

    began = time.perf_counter()
    shares = [(url, itertools.cycle(mine)) for url, mine in zip(urls, requests, strict=True)]
    await asyncio.gather(*(work(url, mine) for url, mine in shares for _ in range(connections)))
    rate = count / (time.perf_counter() - began)
    return Outcome(count, rate, Latency.of(took), faults[0] if faults else "")
