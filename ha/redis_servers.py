"""Redis servers as a test needs them: a master with replicas and Sentinels, or a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import redis.asyncio as redis
from redis import exceptions

from bench.programs import free_port
from ha.networks import Network
from ha.tls import Tls
from identity.store.embedded import redis_server

HOST = "127.0.0.1"
SERVICE = "identity"
SLOTS = 16384
_BUS_OFFSET = 10_000
_START_SECONDS = 30


@dataclasses.dataclass(frozen=True)
class Setup:
    """Where servers run and how they are reached. Without TLS and network: on this machine, without a password."""

    folder: Path
    tls: Tls | None = None
    network: Network | None = None

    def program(self) -> str:
        """The server program: with TLS that of this machine, because the one of the wheel has none."""
        return str(redis_server.program() if self.tls is None else tls_program())

    def port_options(self, port: int) -> list[str]:
        """The options for the port and the password, for servers and Sentinels."""
        if self.tls is None:
            return ["--port", str(port)]
        options = ["--port", "0", "--tls-port", str(port), "--tls-replication", "yes", "--tls-auth-clients", "no"]
        options += ["--tls-cert-file", str(self.tls.certificate), "--tls-key-file", str(self.tls.certificate)]
        options += ["--tls-ca-cert-file", str(self.tls.authority), "--requirepass", self.tls.secret]
        return options

    def client_options(self) -> dict[str, Any]:
        """The arguments of a client."""
        if self.tls is None:
            return {}
        return {"ssl": True, "ssl_ca_certs": str(self.tls.authority), "password": self.tls.secret}

    def url(self, kind: str, servers: Sequence[Server], path: str, query: str = "") -> str:
        """The address for the service."""
        hosts = ",".join(f"{server.host}:{server.port}" for server in servers)
        if self.tls is None:
            return f"redis+{kind}://{hosts}{path}"
        return f"rediss+{kind}://:{self.tls.secret}@{hosts}{path}?ssl_ca_certs={self.tls.authority}{query}"


def tls_program() -> str | None:
    """A server program of this machine that has TLS, such as that of Debian's redis-server, or None."""
    found = (shutil.which(name) for name in ("valkey-server", "redis-server"))
    return next((program for program in found if program and _has_tls(program)), None)


def _has_tls(program: str) -> bool:
    # A server with TLS ends because it has no key; one without it ends for another reason.
    options = ["--port", "0", "--tls-port", "1", "--tls-cert-file", "/nonexistent"]
    output = subprocess.run([program, *options], capture_output=True, text=True, timeout=_START_SECONDS, check=False)
    return "tls-key-file" in output.stdout


class Server:
    """A process of the server program."""

    def __init__(self, setup: Setup, *arguments: str, sentinel: bool = False, port: int | None = None) -> None:
        self._setup = setup
        self.host = HOST if setup.network is None else setup.network.add_host()
        self.port = port or free_port()
        folder = setup.folder / str(self.port)
        folder.mkdir(exist_ok=True)
        command = [setup.program(), *arguments, *setup.port_options(self.port), "--bind", self.host]
        command += ["--dir", str(folder), "--logfile", str(folder / "log")]
        if sentinel:
            command.append("--sentinel")
        else:
            command += ["--save", "", "--appendonly", "no"]
            command += [] if setup.tls is None else ["--masterauth", setup.tls.secret]
        # In protected mode, a server without a password accepts only clients of its own host.
        command += [] if setup.network is None else ["--protected-mode", "no"]
        self.process = subprocess.Popen(command if setup.network is None else setup.network.command(self.host, command))

    def kill(self) -> None:
        """Kill it without a chance to save or to hand over."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """End it, if it is running."""
        if self.process.poll() is None:
            self.kill()

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[redis.Redis]:
        """A plain connection to this server."""
        options = self._setup.client_options()
        connected = redis.Redis(host=self.host, port=self.port, decode_responses=True, **options)
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

    def __init__(self, setup: Setup, servers: Sequence[Server], sentinels: Sequence[Server]) -> None:
        self._setup = setup
        self.servers = servers
        self.sentinels = sentinels

    @property
    def url(self) -> str:
        """The address for the service."""
        secret = "" if self._setup.tls is None else f"&sentinel_password={self._setup.tls.secret}"
        return self._setup.url("sentinel", self.sentinels, f"/{SERVICE}/0", secret)

    async def master(self) -> Server:
        """The current master, as the first Sentinel knows it."""
        async with self.sentinels[0].client() as client:
            found = await client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)  # type: ignore[no-untyped-call]
        return next(server for server in self.servers if (server.host, server.port) == (found[0], int(found[1])))

    async def isolate_master(self, seconds: float) -> None:
        """Cut the master off from its replicas, the Sentinels and the service."""
        assert self._setup.network is not None
        host = (await self.master()).host
        self._setup.network.isolate(host)
        await asyncio.sleep(seconds)
        self._setup.network.reconnect(host)


@contextlib.asynccontextmanager
async def replicated(setup: Setup, *, servers: int, sentinels: int) -> AsyncIterator[Replicated]:
    """A running master with replicas; a Sentinel takes it for dead after a second without an answer."""
    master = Server(setup)
    replicas = [Server(setup, "--replicaof", master.host, str(master.port)) for _ in range(servers - 1)]
    watching = [_sentinel(setup, master, sentinels // 2 + 1) for _ in range(sentinels)]
    found = Replicated(setup, [master, *replicas], watching)
    async with _running([*found.servers, *watching]):
        await _until_linked(found, servers - 1, sentinels - 1)
        yield found


def _sentinel(setup: Setup, master: Server, quorum: int) -> Server:
    port = free_port()
    (setup.folder / str(port)).mkdir()
    file = setup.folder / str(port) / "sentinel.conf"
    password = "" if setup.tls is None else f"sentinel auth-pass {SERVICE} {setup.tls.secret}\n"
    file.write_text(
        f"sentinel monitor {SERVICE} {master.host} {master.port} {quorum}\n"
        f"sentinel down-after-milliseconds {SERVICE} 1000\n"
        f"sentinel failover-timeout {SERVICE} 5000\n{password}"
    )
    return Server(setup, str(file), sentinel=True, port=port)


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

    def __init__(self, setup: Setup, servers: Sequence[Server]) -> None:
        self._setup = setup
        self.servers = servers

    @property
    def url(self) -> str:
        """The address for the service."""
        return self._setup.url("cluster", self.servers, "")


@contextlib.asynccontextmanager
async def sharded(setup: Setup, *, masters: int, replicas_each: int) -> AsyncIterator[Sharded]:
    """A running cluster whose slots are spread over its masters."""
    arguments = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"]
    arguments += [] if setup.tls is None else ["--tls-cluster", "yes"]
    count = masters * (1 + replicas_each)
    found = Sharded(setup, [Server(setup, *arguments, port=_cluster_port()) for _ in range(count)])
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
