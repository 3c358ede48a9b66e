"""Verifies access tokens in a separate process, and prints the rate per second.

`python -m bench.verification MONGODB_URI DATABASE REDIS_URL DATA_DIR SECONDS`, the tokens line by line on the standard
input. What is done is what an introspection endpoint will do: signature and claims, the deny list, the user.
"""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import time
from pathlib import Path

import uvloop

from identity import app, config
from identity.call import AnonymousCaller, Call, Origin
from identity.ids import new_id
from identity.operations.clients import bearer_tokens
from identity.services import Services

_WIDTH = 16


async def main(mongodb_uri: str, database: str, redis_url: str, data_dir: str, seconds: str) -> None:
    """Verify tokens for this many seconds."""
    tokens = sys.stdin.read().split()
    environment = {
        "IDENTITY__DATA_DIR": data_dir,
        "IDENTITY__SERVER__PORT": "0",
        "IDENTITY__MONGODB__URI": mongodb_uri,
        "IDENTITY__MONGODB__DATABASE": database,
        "IDENTITY__REDIS__URL": redis_url,
    }
    service = await app.build(config.load(Path(data_dir).parent / "config", environment), role="web")
    try:
        await service.start()
        print(await _rate(service.services, tokens, float(seconds)))
    finally:
        await service.stop()


async def _rate(services: Services, tokens: list[str], seconds: float) -> float:
    origin = Origin("127.0.0.1", "", new_id(), "http://bench.example.com")
    call = Call(None, AnonymousCaller(), services.clock.now(), origin)
    for token in tokens:
        await bearer_tokens.verify(services, call, token)
    done, began = 0, time.perf_counter()

    async def repeat() -> None:
        nonlocal done
        while time.perf_counter() - began < seconds:
            done += 1
            now = dataclasses.replace(call, now=services.clock.now())
            await bearer_tokens.verify(services, now, tokens[done % len(tokens)])

    await asyncio.gather(*(repeat() for _ in range(_WIDTH)))
    return done / (time.perf_counter() - began)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
