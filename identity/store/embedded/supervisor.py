"""Supervises one server: finds its program, starts, restarts and stops it, and explains why it does not start."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import re
import signal
import stat
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import structlog

from identity.errors import StartupError
from identity.store import data_dir

_log = structlog.get_logger(__name__)

READY_SECONDS = 120.0
STOP_SECONDS = 30.0
LOG_BYTES = 10_000_000
_POLL_SECONDS = 0.02
_FIRST_DELAY_SECONDS = 0.1
_MAX_DELAY_SECONDS = 10.0
_STABLE_SECONDS = 60.0

_TAIL_BYTES = 20_000
_PACKAGES = {"libcurl.so.4": "libcurl4", "libssl.so.3": "libssl3", "libcrypto.so.3": "libssl3"}
_SETTINGS = {"mongod": "mongodb.uri", "redis": "redis.url"}


class Server(Protocol):
    """The differences between the servers."""

    name: str
    folder: Path
    log_file: Path
    rotation_signal: signal.Signals | None

    def command(self) -> list[str]:
        """The command line, which contains `folder`, by which a stale process is recognised."""

    async def ready(self) -> None:
        """Return once the server is ready. Raises OSError if it is not ready yet, StartupError if it cannot be used."""


class Supervisor:
    """Keeps one server running from `start` to `stop`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._process: asyncio.subprocess.Process | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._started = 0.0
        self._log = _log.bind(server=server.name)

    @property
    def pid(self) -> int | None:
        """The process id of the running server."""
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Stop a stale server, then start the server and wait until it is ready."""
        await stop_stale(self._pid_file, self._server.folder, self._server.command()[0])
        await self._launch()
        self._watcher = asyncio.create_task(self._watch(), name=f"watch {self._server.name}")

    async def stop(self) -> None:
        """Terminate the server, and kill it if it does not end in time."""
        if self._watcher:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher
        await self._end()

    def rotate_log(self) -> None:
        """Start a new log file if the current one exceeds `LOG_BYTES`; one old file is retained."""
        log = self._server.log_file
        with contextlib.suppress(FileNotFoundError):
            if log.stat().st_size > LOG_BYTES:
                log.replace(log.with_name(log.name + ".1"))
                if self._server.rotation_signal and self._process and self._process.returncode is None:
                    self._process.send_signal(self._server.rotation_signal)

    @property
    def _pid_file(self) -> Path:
        return self._server.folder.parent / f"{self._server.name}.pid"

    @property
    def _output_file(self) -> Path:
        return self._server.log_file.with_suffix(".out")

    async def _launch(self) -> None:
        self.rotate_log()
        command = self._server.command()
        with self._output_file.open("wb") as output:
            # A new session: Ctrl-C in the terminal signals only the service, which stops the servers last.
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self._started = time.monotonic()
        data_dir.write_private(self._pid_file, f"{self._process.pid}\n".encode())
        try:
            await self._until_ready(self._process)
        except BaseException:
            await self._end()
            raise

    async def _until_ready(self, process: asyncio.subprocess.Process) -> None:
        ready = asyncio.create_task(poll(self._server.ready))
        died = asyncio.create_task(process.wait())
        try:
            async with asyncio.timeout(READY_SECONDS):
                await asyncio.wait({ready, died}, return_when=asyncio.FIRST_COMPLETED)
                if not ready.done():
                    server = self._server
                    cause = explain_failure(server.name, process.returncode, self._output_file, server.log_file)
                    raise StartupError(cause)
                await ready
        except TimeoutError:
            raise StartupError(
                f"The embedded {self._server.name} does not answer after {READY_SECONDS:.0f} s;"
                f" see {self._server.log_file}"
            ) from None
        finally:
            for task in (ready, died):
                task.cancel()
            await asyncio.gather(ready, died, return_exceptions=True)

    async def _watch(self) -> None:
        delay = _FIRST_DELAY_SECONDS
        while self._process:
            code = await self._process.wait()
            if time.monotonic() - self._started > _STABLE_SECONDS:
                delay = _FIRST_DELAY_SECONDS
            self._log.error("embedded server died, starting it again", exit_code=code, delay_seconds=delay)
            await asyncio.sleep(delay)
            delay = min(delay * 2, _MAX_DELAY_SECONDS)
            self._started = time.monotonic()  # also if it cannot be launched: the delay keeps growing
            try:
                await self._launch()
            except (StartupError, OSError) as error:
                self._log.error("embedded server does not start", reason=str(error))
            else:
                self._log.info("embedded server is back", pid=self.pid)

    async def _end(self) -> None:
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_SECONDS)
            except TimeoutError:
                self._log.warning("embedded server does not stop, killing it", pid=process.pid)
                process.kill()
                await process.wait()
        with contextlib.suppress(OSError):
            self._pid_file.unlink()


async def poll(attempt: Callable[[], Awaitable[None]]) -> None:
    """Call `attempt` until it raises no OSError."""
    while True:
        try:
            await attempt()
        except OSError:
            await asyncio.sleep(_POLL_SECONDS)
        else:
            return


async def stop_stale(pid_file: Path, folder: Path, program: str = "") -> None:
    """Stop the server of a service process that was killed, if it is still running on `folder`.

    A service that was killed between the start of the server and the creation of its pid file left no pid: it is then
    the process of this program on the folder.
    """
    pid = stale_pid(pid_file, folder) or _pid_of(program, folder)
    if pid is None:
        return
    _log.warning("stopping a server of an earlier run", pid=pid, folder=str(folder))
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline:
            if not uses_folder(pid, folder):
                return
            await asyncio.sleep(_POLL_SECONDS)
    raise StartupError(f"Process {pid} still uses {folder} and cannot be stopped; stop it and try again")


def stale_pid(pid_file: Path, folder: Path) -> int | None:
    """The process id in the file, if it is a running server on `folder`."""
    try:
        pid = int(pid_file.read_text("ascii"))
    except (FileNotFoundError, ValueError):
        return None
    return pid if uses_folder(pid, folder) else None


def _pid_of(program: str, folder: Path) -> int | None:
    """The id of the running process of a program on `folder`."""
    wanted = os.fsencode(program)
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            arguments = (process / "cmdline").read_bytes().split(b"\0")
            if program and arguments[0] == wanted and os.fsencode(folder) in arguments:
                return int(process.name)
    return None


def uses_folder(pid: int, folder: Path) -> bool:
    """Whether the process has `folder` in its command line: the process id may have been reused."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return os.fsencode(folder) in arguments


def explain_failure(name: str, code: int | None, output_file: Path, log_file: Path) -> str:
    """The cause, determined from exit code, output and log, and the remedy."""
    output, log = _tail(output_file), _tail(log_file)
    text = output + log
    library = re.search(r"error while loading shared libraries: (\S+?):", text)
    if library:
        missing = Path(library[1]).name
        package = _PACKAGES.get(missing, f"the package with {missing}")
        return _failed(name, f"the library {missing} is missing or broken; install it: apt-get install {package}")
    if code == -signal.SIGXFSZ or re.search(r"No space left on device|File too large|Disk quota exceeded", text):
        return _failed(
            name, f"the disk of {log_file.parent.parent} is full; make room there, or set data_dir to another disk"
        )
    if code == -signal.SIGILL:
        return _failed(name, "the processor lacks required instructions (AVX)")
    return _failed(name, f"{_last_error(output, log) or f'it ended with code {code}'}; see the log {log_file}")


def _failed(name: str, reason: str) -> str:
    return f"The embedded {name} does not start: {reason}. (Or set {_SETTINGS[name]} to a server of your own.)"


def _tail(file: Path) -> str:
    try:
        return file.read_bytes()[-_TAIL_BYTES:].decode("utf-8", "replace")
    except OSError:
        return ""


def _last_error(output: str, log: str) -> str:
    """The last error message: mongod logs JSON with a severity, Redis marks warnings with a number sign."""
    errors = [_mongod_error(line) or _redis_error(line) for line in (output + log).splitlines()]
    return next(filter(None, reversed(errors)), "")


def _mongod_error(line: str) -> str:
    try:
        entry = json.loads(line)
    except ValueError:
        return ""
    if not isinstance(entry, dict) or entry.get("s") not in {"E", "F"}:
        return ""
    attributes = entry.get("attr", {})
    detail = attributes.get("error") or attributes.get("message") or ""
    return f"{entry.get('msg', '')} {detail if isinstance(detail, str) else json.dumps(detail)}".strip()[:500]


def _redis_error(line: str) -> str:
    found = re.match(r"\d+:[A-Z] .{10,30} # (.*)", line)
    return found[1][:500] if found and "WARNING" not in found[1] else ""


def find_program(package: str, *parts: str) -> Path | None:
    """The executable at `parts` in an installed package; None if it is not installed."""
    found = importlib.util.find_spec(package)
    for folder in found.submodule_search_locations or () if found else ():
        program = Path(folder, *parts)
        if program.is_file():
            return _runnable(program)
    return None


def _runnable(program: Path) -> Path:
    if not os.access(program, os.X_OK):  # some installers remove the executable bit
        try:
            program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        except OSError as error:
            raise StartupError(f"{program} is not executable; run: chmod +x {program}") from error
    return program
