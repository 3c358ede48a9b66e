"""A replica set of three members."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from pymongo import AsyncMongoClient
from pymongo.errors import AutoReconnect, PyMongoError

from bench.programs import free_port
from ha.networks import Network
from ha.tls import Tls
from identity.store.embedded import mongod

HOST = "127.0.0.1"
_SET = "ha"
_START_SECONDS = 90
SETTINGS: Mapping[str, int] = {"electionTimeoutMillis": 2000}
"""An election starts after two seconds without a primary; the default is ten."""
SHORT_HEARTBEATS: Mapping[str, int] = {**SETTINGS, "heartbeatTimeoutSecs": 2, "catchUpTimeoutMillis": 2000}
"""A new primary waits for no member that hangs longer than this; the defaults are ten seconds, and no limit."""
USER = "identity"
_ADMINISTRATOR = "administrator"

Member = tuple[str, int]
"""The host and the port of a member."""


class ReplicaSet:
    """The members by address; clients receive the addresses of all of them.

    With a network, each member is a host of it. `settings` are those of the replica set.
    """

    def __init__(
        self,
        folder: Path,
        network: Network | None = None,
        tls: Tls | None = None,
        settings: Mapping[str, int] = SETTINGS,
    ) -> None:
        self._folder, self._network, self._tls, self._settings = folder, network, tls, settings
        hosts = [HOST if network is None else network.add_host() for _ in range(3)]
        self.members = [(host, free_port()) for host in hosts]
        self._processes: dict[Member, subprocess.Popen[bytes]] = {}

    @property
    def uri(self) -> str:
        """The address for the service."""
        hosts = ",".join(f"{host}:{port}" for host, port in self.members)
        options = "" if self._tls is None else f"&authSource=admin&tls=true&tlsCAFile={self._tls.authority}"
        credentials = "" if self._tls is None else f"{USER}:{self._tls.secret}@"
        return f"mongodb://{credentials}{hosts}/?replicaSet={_SET}{options}"

    def start(self) -> None:
        """Start every member that is not running."""
        for member in self.members:
            if member in self._processes and self._processes[member].poll() is None:
                continue
            host, port = member
            data = self._folder / f"mongod-{port}"
            data.mkdir(exist_ok=True)
            # From this machine a member of a network is reached at its address only; 127.0.0.1 is for itself.
            command = [str(mongod.program()), "--dbpath", str(data), "--bind_ip", f"{HOST},{host}", "--port", str(port)]
            command += ["--replSet", _SET, "--oplogSize", "128", "--wiredTigerCacheSizeGB", "0.25", "--nounixsocket"]
            command += ["--logpath", str(data / "log"), "--logappend"]
            if self._tls is not None:
                command += ["--tlsMode", "requireTLS", "--tlsCertificateKeyFile", str(self._tls.certificate)]
                command += ["--tlsCAFile", str(self._tls.authority), "--tlsAllowConnectionsWithoutCertificates"]
                command += ["--auth", "--keyFile", str(self._tls.key_file)]
            if self._network is not None:
                command = self._network.command(host, command)
            self._processes[member] = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    async def initiate(self) -> None:
        """Form the set, and return once it has a primary and, with TLS, a user."""
        members = [{"_id": number, "host": f"{host}:{port}"} for number, (host, port) in enumerate(self.members)]
        config = {"_id": _SET, "members": members, "settings": dict(self._settings)}
        async with asyncio.timeout(_START_SECONDS):
            while True:
                with contextlib.suppress(AutoReconnect):
                    for member in self.members:
                        await self._command(member, {"hello": 1})
                    await self._command(self.members[0], {"replSetInitiate": config})
                    break
                await asyncio.sleep(0.2)
            await self.primary()
        if self._tls is not None:
            await self._create_users(self._tls)

    async def _create_users(self, tls: Tls) -> None:
        """Create an administrator, which a client on the machine may do once, and then the user of the service."""
        primary = await self.primary()
        await self._command(primary, {"createUser": _ADMINISTRATOR, "pwd": tls.secret, "roles": ["root"]})
        roles = [{"role": "readWrite", "db": "identity"}, {"role": "dbAdmin", "db": "identity"}]
        command = {"createUser": USER, "pwd": tls.secret, "roles": roles}
        await self._command(primary, command, username=_ADMINISTRATOR, password=tls.secret)

    async def primary(self) -> Member:
        """The primary."""
        async with asyncio.timeout(_START_SECONDS):
            while True:
                for member in self.members:
                    with contextlib.suppress(PyMongoError):
                        if (await self._command(member, {"hello": 1}))["isWritablePrimary"]:
                            return member
                await asyncio.sleep(0.1)

    async def kill_primary(self) -> None:
        """Kill the primary without a chance to hand over."""
        process = self._processes[await self.primary()]
        process.send_signal(signal.SIGKILL)
        process.wait()

    async def freeze_primary(self, seconds: float) -> None:
        """Suspend the primary: connections stay open and nothing answers, as if its disk hung."""
        process = self._processes[await self.primary()]
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        process.send_signal(signal.SIGCONT)

    async def isolate_primary(self, seconds: float) -> None:
        """Cut the primary off from the other members and from the service."""
        assert self._network is not None
        host, _ = await self.primary()
        self._network.isolate(host)
        await asyncio.sleep(seconds)
        self._network.reconnect(host)

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

    async def _command(self, member: Member, command: dict[str, Any], **credentials: Any) -> dict[str, Any]:
        options: dict[str, Any] = {} if self._tls is None else {"tls": True, "tlsCAFile": str(self._tls.authority)}
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(
            f"mongodb://{member[0]}:{member[1]}",
            directConnection=True,
            serverSelectionTimeoutMS=1000,
            timeoutMS=5000,
            **{**options, **credentials},
        )
        try:
            return dict(await client.admin.command(command))
        finally:
            await client.close()


@contextlib.asynccontextmanager
async def running(
    folder: Path, network: Network | None = None, tls: Tls | None = None, settings: Mapping[str, int] = SETTINGS
) -> AsyncIterator[ReplicaSet]:
    """A running replica set."""
    found = ReplicaSet(folder, network, tls, settings)
    try:
        found.start()
        await found.initiate()
        yield found
    finally:
        found.stop()
