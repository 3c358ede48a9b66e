"""Slow and idle connections are closed and do not block others."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tests.conftest import checking_client

PATIENCE_SECONDS = 20
CROWD = 300


@pytest.fixture(scope="module")
async def impatient(build):
    """A service with a timeout of one second for idle connections and request heads."""
    async with build(server__idle_seconds=1) as service:
        yield service


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await reader.read()


async def drip(writer: asyncio.StreamWriter) -> None:
    """Send one byte at a time."""
    with contextlib.suppress(ConnectionError):
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)


@pytest.mark.requirement("attack-68")
@pytest.mark.parametrize("beginning", [b"", b"G", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "])
async def test_attack_68_endless_request_head_is_cut_off(impatient, beginning):
    reader, writer = await asyncio.open_connection("127.0.0.1", impatient.port)
    writer.write(beginning)
    dripping = asyncio.create_task(drip(writer)) if beginning else None
    try:
        with contextlib.suppress(ConnectionError):
            assert await until_closed(reader) == b""
    finally:
        if dripping is not None:
            dripping.cancel()
        writer.close()


@pytest.mark.requirement("attack-68")
async def test_attack_68_idle_keep_alive_connection_is_closed(impatient):
    reader, writer = await asyncio.open_connection("127.0.0.1", impatient.port)
    writer.write(b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = await until_closed(reader)
    assert answer.startswith(b"HTTP/1.1 200")
    writer.close()


@pytest.mark.requirement("attack-68")
async def test_attack_68_many_idle_connections_do_not_block_others(service):
    crowd = [await asyncio.open_connection("127.0.0.1", service.port) for _ in range(CROWD)]
    try:
        async with checking_client(service.base_url) as client:
            assert (await client.get("/.well-known/jwks.json")).status_code == 200
    finally:
        for _, writer in crowd:
            writer.close()
