"""Limits of the machine ("floors"), to which the figures of the service are compared."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from bench import programs, wrk
from bench.figures import Figure, Row, median
from identity.domain.passwords import password_hashing
from identity.store.mongo import Database
from identity.store.redis import Redis

BARE_GET = "bare Tornado, GET"
BARE_POST = "bare Tornado, POST of a form"
RSA = "RSA-2048 signature, threads"
EC = "P-256 signature, threads"
ARGON2ID = "argon2id t=2 m=19456 p=1, threads"
PBKDF2 = "PBKDF2-HMAC-SHA256 24,000, threads"
REDIS = "Redis round trip, one after the other"
FIND = "MongoDB find, 16 at a time"
UPDATE = "MongoDB journalled update, 16 at a time"

_FORM = "grant_type=refresh_token&refresh_token=" + "x" * 64
WEB = {
    BARE_GET: wrk.cycle("GET", "/", [wrk.Request()]),
    BARE_POST: wrk.cycle("POST", "/", [wrk.Request({"Content-Type": "application/x-www-form-urlencoded"}, _FORM)]),
}
"""The loads on bare Tornado."""


async def web(folder: Path, seconds: float, rounds: int) -> list[Row]:
    """Requests per second of bare Tornado, in one process and in two."""
    running = [programs.module("bare", folder / f"bare-{index}.log") for index in range(2)]
    try:
        for program in running:
            await program.wait_until_ready("/")
        urls = [program.url for program in running]
        return [
            Row(name, count, await rate(urls[:count], load, seconds, rounds))
            for name, load in WEB.items()
            for count in (1, 2)
        ]
    finally:
        for program in running:
            await program.stop()


async def rate(urls: Sequence[str], load: wrk.Load, seconds: float, rounds: int) -> Figure:
    """Return the median rate of a load on all processes at the same time."""
    outcomes = [await wrk.together(urls, lambda _index: load, seconds) for _ in range(rounds)]
    return median([Figure(one.rate, "/s", one.latency, one.fault) for one in outcomes])


async def cryptography(seconds: float) -> list[Row]:
    """Signatures and password hashes per second, on one thread and on two."""
    rsa_key = rsa.generate_private_key(65537, 2048)
    ec_key = ec.generate_private_key(ec.SECP256R1())
    message = os.urandom(600)
    work: Sequence[tuple[str, Callable[[], object]]] = (
        (RSA, lambda: rsa_key.sign(message, padding.PKCS1v15(), hashes.SHA256())),
        (EC, lambda: ec_key.sign(message, ec.ECDSA(hashes.SHA256()))),
        (ARGON2ID, functools.partial(password_hashing.hash_password, "a password", "argon2id", 2)),
        (PBKDF2, functools.partial(password_hashing.hash_password, "a password", "salted-pbkdf2-hmac-sha256", 24_000)),
    )
    return [
        Row(name, threads, Figure(await _threaded(deed, threads, seconds), "/s"))
        for name, deed in work
        for threads in (1, 2)
    ]


async def _threaded(deed: Callable[[], object], threads: int, seconds: float) -> float:
    def repeat() -> int:
        done, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            deed()
            done += 1
        return done

    loop = asyncio.get_running_loop()
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        began = time.perf_counter()
        counts = await asyncio.gather(*(loop.run_in_executor(pool, repeat) for _ in range(threads)))
        return sum(counts) / (time.perf_counter() - began)


async def stores(mongodb_uri: str, redis_url: str, seconds: float) -> list[Row]:
    """Round trips per second through the service's own clients."""
    database, redis = Database(mongodb_uri, "bench_floor"), Redis(redis_url, "bench_floor")
    collection: Any = database.collection("floor")
    await collection.insert_many([{"_id": index, "count": 0} for index in range(64)])

    async def find(turn: int) -> None:
        await collection.find_one({"_id": turn % 64})

    async def update(turn: int) -> None:
        await collection.update_one({"_id": turn % 64}, {"$inc": {"count": 1}})

    async def ping(_turn: int) -> None:
        await redis.client.get("bench_floor:none")

    try:
        return [
            Row(REDIS, 1, Figure(await _repeated(ping, 1, seconds), "/s")),
            Row(FIND, 1, Figure(await _repeated(find, 16, seconds), "/s")),
            Row(UPDATE, 1, Figure(await _repeated(update, 16, seconds), "/s")),
        ]
    finally:
        await database.drop()
        database.close()
        await redis.close()


async def _repeated(deed: Callable[[int], Awaitable[None]], width: int, seconds: float) -> float:
    done, began = 0, time.perf_counter()

    async def repeat() -> None:
        nonlocal done
        while time.perf_counter() - began < seconds:
            done += 1
            await deed(done)

    await asyncio.gather(*(repeat() for _ in range(width)))
    return done / (time.perf_counter() - began)
