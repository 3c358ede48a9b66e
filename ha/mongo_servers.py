"""A replica set of three members."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from pymongo import AsyncMongoClient
from pymongo.errors import AutoReconnect, PyMongoError

from bench.programs import free_port
from identity.store.embedded import mongod

HOST = "127.0.0.1"
_SET = "ha"
_START_SECONDS = 90


class ReplicaSet:
    """The members by port; clients receive the addresses of all of them."""

    def __init__(self, folder: Path) -> None:
        self.members = {free_port(): folder for _ in range(3)}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def uri(self) -> str:
        """The address for the service."""
        hosts = ",".join(f"{HOST}:{port}" for port in self.members)
        return f"mongodb://{hosts}/?replicaSet={_SET}"

    def start(self) -> None:
        """Start every member that is not running."""
        for port, folder in self.members.items():
            if port in self._processes and self._processes[port].poll() is None:
                continue
            data = folder / f"mongod-{port}"
            data.mkdir(exist_ok=True)
            command = [str(mongod.program()), "--dbpath", str(data), "--bind_ip", HOST, "--port", str(port)]
            command += ["--replSet", _SET, "--oplogSize", "128", "--wiredTigerCacheSizeGB", "0.25", "--nounixsocket"]
            command += ["--logpath", str(data / "log"), "--logappend"]
            self._processes[port] = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    async def initiate(self) -> None:
        """Form the set, and return once it has a primary. Elections start after two seconds without a primary."""
        members = [{"_id": number, "host": f"{HOST}:{port}"} for number, port in enumerate(self.members)]
        config = {"_id": _SET, "members": members, "settings": {"electionTimeoutMillis": 2000}}
        async with asyncio.timeout(_START_SECONDS):
            while True:
                with contextlib.suppress(AutoReconnect):
                    await self._command(next(iter(self.members)), {"replSetInitiate": config})
                    break
                await asyncio.sleep(0.2)
            await self.primary()

    async def primary(self) -> int:
        """The port of the primary."""
        async with asyncio.timeout(_START_SECONDS):
            while True:
                for port in self.members:
                    with contextlib.suppress(PyMongoError):
                        if (await self._command(port, {"hello": 1}))["isWritablePrimary"]:
                            return port
                await asyncio.sleep(0.1)

    async def kill_primary(self) -> None:
        """Kill the primary without a chance to hand over."""
        process = self._processes[await self.primary()]
        process.send_signal(signal.SIGKILL)
        process.wait()

    async def freeze_primary(self, seconds: float) -> None:
        """Suspend the primary: connections stay open and nothing answers, as in a network partition."""
        process = self._processes[await self.primary()]
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        process.send_signal(signal.SIGCONT)

    async def step_down(self) -> None:
        """Let the primary step down."""
        with contextlib.suppress(AutoReconnect):
            await self._command(await self.primary(), {"replSetStepDown": 20, "secondaryCatchUpPeriodSecs": 5})

    def stop(self) -> None:
        """End every member."""
        for process in self._processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()

    async def _command(self, port: int, command: dict[str, Any]) -> dict[str, Any]:
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(
            HOST, port, directConnection=True, serverSelectionTimeoutMS=1000, timeoutMS=5000
        )
        try:
            return dict(await client.admin.command(command))
        finally:
            await client.close()


@contextlib.asynccontextmanager
async def running(folder: Path) -> AsyncIterator[ReplicaSet]:
    """A running replica set."""
    found = ReplicaSet(folder)
    try:
        found.start()
        await found.initiate()
        yield found
    finally:
        found.stop()
