"""The cluster under test: two service processes with one MongoDB and one Redis, all of which can be killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from bench.instance import configuration
from bench.programs import Program, free_port
from identity.store.embedded.stores import EmbeddedStores
from identity.store.redis import Redis

PROCESSES = 2
DATABASE = "chaos"
LEASE_SECONDS = 5
SETTINGS = {
    "mongodb__database": DATABASE,
    "server__base_url": "http://chaos.example.com",
    "webhooks__allowed_networks": '["127.0.0.0/8"]',
    "webhooks__lease_seconds": LEASE_SECONDS,
    # No limit for the backlog: with a wrong clock, all deliveries are overdue.
    "webhooks__backlog_per_second": 0,
    # Failures are injected all the time: they must not exhaust retries or disable webhooks.
    "webhooks__schedule": str([1] * 50),
    "webhooks__breaker_pause_seconds": 1,
    "webhooks__disable_after_seconds": 0,
    "logging__level": "warning",
}


class Node:
    """A service process with its own clock; `program` is None while it is dead."""

    def __init__(self, folder: Path, number: int, stores: EmbeddedStores) -> None:
        self.number = number
        self.program: Program | None = None
        self.log = folder / f"process-{number}.log"
        self._clock = folder / f"clock-{number}"
        self._folder = folder
        self._stores = stores
        self.set_clock_error(0)

    @property
    def url(self) -> str | None:
        """Its URL while it is running."""
        return None if self.program is None else self.program.url

    async def start(self) -> None:
        """Start it and wait until it is ready."""
        port = free_port()
        given = {
            **SETTINGS,
            "data_dir": self._folder / "data",
            "server__port": port,
            "mongodb__uri": str(self._stores.mongodb_uri),
            "redis__url": str(self._stores.redis_url),
        }
        plain = {name: value for name, value in os.environ.items() if not name.startswith("IDENTITY__")}
        environment = plain | {f"IDENTITY__{name.upper()}": str(value) for name, value in given.items()}
        arguments = ["-m", "chaos.clock", str(self._clock), "--config", str(configuration(self._folder / "config"))]
        program = Program([sys.executable, *arguments], port, self.log, environment)
        try:
            await program.wait_until_ready("/api/health")
            self.program = program
        finally:
            if self.program is not program:
                await program.stop()  # a store was killed meanwhile, or the test ended

    async def kill(self) -> None:
        """Kill it."""
        program, self.program = self.program, None
        if program is not None:
            program.send(signal.SIGKILL)
            await program.stop()

    def freeze(self) -> None:
        """Suspend it; it keeps its leases and connections."""
        if self.program is not None:
            self.program.send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume it."""
        if self.program is not None:
            self.program.send(signal.SIGCONT)

    def set_clock_error(self, seconds: float) -> None:
        """Set the error of its clock."""
        self._clock.write_text(str(seconds))


class Cluster:
    """The nodes and their stores."""

    def __init__(self, folder: Path, stores: EmbeddedStores) -> None:
        self.stores = stores
        self.nodes = [Node(folder, number, stores) for number in range(PROCESSES)]

    @property
    def urls(self) -> list[str]:
        """The URLs of running nodes."""
        return [node.url for node in self.nodes if node.url is not None]

    def kill_store(self, name: str) -> None:
        """Kill `mongod` or `redis`, which their supervisor restarts."""
        for pid in self.stores.pids():
            # It may be dead already, and not restarted yet.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
                if ("mongod" if name == "mongod" else "valkey") in Path(command).name:
                    os.kill(pid, signal.SIGKILL)

    async def flush_redis(self) -> None:
        """Delete all data in Redis."""
        redis = Redis(str(self.stores.redis_url), "chaos")
        await redis.client.flushall()
        await redis.client.aclose()


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[Cluster]:
    """A running cluster in a temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="identity-chaos-"))
    try:
        stores = await EmbeddedStores.start(folder / "stores", mongodb=True, redis=True)
        cluster = Cluster(folder, stores)
        try:
            for node in cluster.nodes:
                await node.start()
            yield cluster
        finally:
            for node in cluster.nodes:
                node.thaw()
                await node.kill()
            await stores.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
