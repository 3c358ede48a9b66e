"""Redis servers as a test needs them: a master with replicas and Sentinels, or a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import redis.asyncio as redis
from redis import exceptions

from bench.programs import free_port
from identity.store.embedded import redis_server

HOST = "127.0.0.1"
SERVICE = "identity"
SLOTS = 16384
_BUS_OFFSET = 10_000
_START_SECONDS = 30


class Server:
    """A process of the server program."""

    def __init__(self, folder: Path, *arguments: str, sentinel: bool = False, port: int | None = None) -> None:
        self.port = port or free_port()
        self.folder = folder / str(self.port)
        self.folder.mkdir(exist_ok=True)
        self._command = [str(redis_server.program()), *arguments, "--port", str(self.port), "--bind", HOST]
        self._command += ["--dir", str(self.folder), "--logfile", str(self.folder / "log")]
        if sentinel:
            self._command.append("--sentinel")
        else:
            self._command += ["--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen(self._command)

    def kill(self) -> None:
        """Kill it without a chance to save or to tell anyone."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """End it, if it is running."""
        if self.process.poll() is None:
            self.kill()

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[redis.Redis]:
        """A plain connection to this server."""
        connected = redis.Redis(host=HOST, port=self.port, decode_responses=True)
        try:
            yield connected
        finally:
            await connected.aclose()

    async def ready(self) -> None:
        """Return once it answers."""
        async with self.client() as client, asyncio.timeout(_START_SECONDS):
            while True:
                with contextlib.suppress(exceptions.RedisError, OSError):
                    await client.ping()
                    return
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def _running(servers: Sequence[Server]) -> AsyncIterator[None]:
    try:
        for server in servers:
            await server.ready()
        yield
    finally:
        for server in servers:
            server.stop()


class Replicated:
    """A master with replicas, and the Sentinels that monitor it."""

    def __init__(self, servers: Sequence[Server], sentinels: Sequence[Server]) -> None:
        self.servers = servers
        self.sentinels = sentinels

    @property
    def url(self) -> str:
        """The address for the service."""
        hosts = ",".join(f"{HOST}:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{hosts}/{SERVICE}/0"

    async def master(self) -> Server:
        """The current master, as the first Sentinel knows it."""
        async with self.sentinels[0].client() as client:
            found = await client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)  # type: ignore[no-untyped-call]
        return next(server for server in self.servers if server.port == int(found[1]))


@contextlib.asynccontextmanager
async def replicated(folder: Path, *, servers: int, sentinels: int) -> AsyncIterator[Replicated]:
    """A running master with replicas; a Sentinel takes it for dead after a second without an answer."""
    master = Server(folder)
    replicas = [Server(folder, "--replicaof", HOST, str(master.port)) for _ in range(servers - 1)]
    watching = [_sentinel(folder, master.port, sentinels // 2 + 1) for _ in range(sentinels)]
    found = Replicated([master, *replicas], watching)
    async with _running([*found.servers, *watching]):
        await _until_linked(found, servers - 1, sentinels - 1)
        yield found


def _sentinel(folder: Path, master_port: int, quorum: int) -> Server:
    port = free_port()
    (folder / str(port)).mkdir()
    file = folder / str(port) / "sentinel.conf"
    file.write_text(
        f"sentinel monitor {SERVICE} {HOST} {master_port} {quorum}\n"
        f"sentinel down-after-milliseconds {SERVICE} 1000\n"
        f"sentinel failover-timeout {SERVICE} 5000\n"
    )
    return Server(folder, str(file), sentinel=True, port=port)


async def _until_linked(found: Replicated, replicas: int, sentinels: int) -> None:
    """Return once each Sentinel knows all replicas and the other Sentinels, and all replicas are in step."""
    async with asyncio.timeout(_START_SECONDS):
        for sentinel in found.sentinels:
            async with sentinel.client() as client:
                while True:
                    pairs = await client.execute_command("SENTINEL", "MASTER", SERVICE)  # type: ignore[no-untyped-call]
                    state = dict(zip(pairs[::2], pairs[1::2], strict=True)) if isinstance(pairs, list) else pairs
                    if (int(state["num-slaves"]), int(state["num-other-sentinels"])) == (replicas, sentinels):
                        break
                    await asyncio.sleep(0.1)
        async with found.servers[0].client() as client:
            while int((await client.info("replication"))["connected_slaves"]) < replicas:
                await asyncio.sleep(0.1)


class Sharded:
    """The nodes of a cluster, the masters first."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self.servers = servers

    @property
    def url(self) -> str:
        """The address for the service."""
        return "redis+cluster://" + ",".join(f"{HOST}:{server.port}" for server in self.servers)


@contextlib.asynccontextmanager
async def sharded(folder: Path, *, masters: int, replicas_each: int) -> AsyncIterator[Sharded]:
    """A running cluster whose slots are spread over its masters."""
    arguments = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000")
    count = masters * (1 + replicas_each)
    found = Sharded([Server(folder, *arguments, port=_cluster_port()) for _ in range(count)])
    async with _running(found.servers):
        await _form(found.servers, masters)
        yield found


def _cluster_port() -> int:
    """A free port. The port of the cluster bus is higher by 10,000, and has to exist."""
    while True:
        port = free_port()
        if port + _BUS_OFFSET < 2**16:
            return port


async def _form(servers: Sequence[Server], masters: int) -> None:
    ids = []
    for number, server in enumerate(servers):
        async with server.client() as client:
            ids.append(str(await client.execute_command("CLUSTER", "MYID")))  # type: ignore[no-untyped-call]
            if number < masters:
                first, last = number * SLOTS // masters, (number + 1) * SLOTS // masters - 1
                await client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)  # type: ignore[no-untyped-call]
            await client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)  # type: ignore[no-untyped-call]
            await client.execute_command("CLUSTER", "MEET", HOST, servers[0].port)  # type: ignore[no-untyped-call]
    async with asyncio.timeout(_START_SECONDS):
        for number, server in enumerate(servers[masters:]):
            async with server.client() as client:
                while True:
                    with contextlib.suppress(exceptions.ResponseError):  # it has not met that master yet
                        await client.execute_command("CLUSTER", "REPLICATE", ids[number % masters])  # type: ignore[no-untyped-call]
                        break
                    await asyncio.sleep(0.05)
        for server in servers:
            async with server.client() as client:
                while not await _is_formed(client, len(servers)):
                    await asyncio.sleep(0.05)


async def _is_formed(client: redis.Redis, count: int) -> bool:
    text = await client.execute_command("CLUSTER", "INFO")  # type: ignore[no-untyped-call]
    state = text if isinstance(text, dict) else dict(line.split(":") for line in text.split())
    return (state["cluster_state"], int(state["cluster_known_nodes"])) == ("ok", count)
