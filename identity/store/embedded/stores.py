"""The embedded stores of one data_dir: locks the folder, and starts, supervises and stops the servers."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import TextIO

import structlog

from identity.errors import StartupError
from identity.ids import Secret
from identity.store import data_dir
from identity.store.embedded.mongod import Mongod
from identity.store.embedded.redis_server import RedisServer
from identity.store.embedded.supervisor import Supervisor

_log = structlog.get_logger(__name__)

ADDRESSES_FILE = "embedded.json"
_FRESH_BYTES = 400_000_000
"""What a new mongod writes at its first start: journal, oplog and catalogue."""
_EXISTING_BYTES = 32_000_000
_ROTATION_SECONDS = 60.0


class AlreadyRunningError(StartupError):
    """Another process is running the embedded stores of this folder."""


class EmbeddedStores:
    """The running servers; `mongodb_uri` or `redis_url` is None for one that was not requested."""

    def __init__(self, folder: Path, lock: TextIO) -> None:
        self.mongodb_uri: Secret | None = None
        self.redis_url: str | None = None
        self._folder = folder
        self._lock = lock
        self._supervisors: list[Supervisor] = []
        self._redis_server: RedisServer | None = None
        self._rotation: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, folder: Path, mongodb: bool, redis: bool) -> EmbeddedStores:
        """Start the requested servers with their data in `folder` (absolute), and wait until they are ready.

        Raises AlreadyRunningError if another process is running them, and StartupError if one does not start.
        """
        data_dir.prepare(folder)
        stores = cls(folder, _locked(folder))
        try:
            with data_dir.explained(folder):
                await stores._start(mongodb, redis)
        except BaseException:
            await stores.stop()
            raise
        return stores

    @staticmethod
    def have_data(folder: Path) -> bool:
        """Whether the embedded mongod has stored data in this folder."""
        return Mongod.data_folder(folder).joinpath("WiredTiger").exists()

    async def stop(self) -> None:
        """Stop the servers and unlock the folder."""
        if self._rotation:
            self._rotation.cancel()
        await asyncio.gather(*(supervisor.stop() for supervisor in self._supervisors))
        if self._redis_server:
            self._redis_server.tidy()
        with contextlib.suppress(OSError):
            (self._folder / ADDRESSES_FILE).unlink()
        self._lock.close()

    def pids(self) -> list[int]:
        """The process ids of the servers."""
        return [supervisor.pid for supervisor in self._supervisors if supervisor.pid]

    async def _start(self, mongodb: bool, redis: bool) -> None:
        data_dir.make_private(self._folder / "logs")
        mongod = Mongod(self._folder) if mongodb else None
        redis_server = self._redis_server = RedisServer(self._folder) if redis else None
        _require_disk_space(self._folder, _FRESH_BYTES if mongod and mongod.fresh else _EXISTING_BYTES)
        self._supervisors = [Supervisor(server) for server in (mongod, redis_server) if server]
        started = await asyncio.gather(*(each.start() for each in self._supervisors), return_exceptions=True)
        for failure in started:
            if failure is not None:
                raise failure
        self.mongodb_uri = mongod.uri if mongod else None
        self.redis_url = redis_server.url if redis_server else None
        # For tools and for further processes, which need them as mongodb.uri and redis.url.
        addresses = {"mongodb_uri": self.mongodb_uri, "redis_url": self.redis_url}
        data_dir.write_private(self._folder / ADDRESSES_FILE, json.dumps(addresses, indent=2).encode() + b"\n")
        self._rotation = asyncio.create_task(self._rotate_logs(), name="rotate logs of embedded stores")

    async def _rotate_logs(self) -> None:
        while True:
            await asyncio.sleep(_ROTATION_SECONDS)
            for supervisor in self._supervisors:
                supervisor.rotate_log()


def addresses(folder: Path) -> tuple[Secret | None, str | None]:
    """The mongodb.uri and redis.url of the embedded stores that another process runs in `folder`."""
    with data_dir.explained(folder):
        found = json.loads((folder / ADDRESSES_FILE).read_text("utf-8"))
    return Secret(found["mongodb_uri"]) if found["mongodb_uri"] else None, found["redis_url"]


def _locked(folder: Path) -> TextIO:
    """The open lock file; the kernel releases the lock when this process ends."""
    with data_dir.explained(folder):
        lock = (folder / "embedded.lock").open("a+", encoding="ascii")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.seek(0)
        owner = lock.read().strip() or "(unknown)"
        lock.close()
        raise AlreadyRunningError(
            f"Process {owner} already runs the embedded stores of {folder}. To run a second process of this instance,"
            f" set its mongodb.uri and redis.url to the values in {folder / ADDRESSES_FILE}; for another instance,"
            " set another data_dir."
        ) from error
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock


def _require_disk_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise StartupError(
            f"The disk of data_dir {folder} is full: {free // 1_000_000} MB are free, the embedded stores need"
            f" {needed // 1_000_000} MB. Make room there, set data_dir to a folder on another disk, or set mongodb.uri"
            " and redis.url to servers of your own."
        )
