"""Child processes: start, readiness, memory and CPU time, and stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_SECONDS = 60
_NOT_PASSED_ON = ("IDENTITY__", "PYTHONDONTWRITEBYTECODE")


class Program:
    """A child process that serves HTTP on a port of this machine."""

    def __init__(
        self, command: Sequence[str], port: int, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._command, self._log, self._environment = command, log, environment
        self._start()

    def _start(self) -> None:
        self._began = time.perf_counter()
        with self._log.open("ab") as output:
            self._popen = subprocess.Popen(self._command, cwd=ROOT, env=self._environment, stdout=output, stderr=output)

    async def restart(self, path: str) -> None:
        """Terminate it, start it again on the same port, and wait until it is ready."""
        await self.stop()
        self._start()
        await self.wait_until_ready(path)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    async def wait_until_ready(self, path: str) -> float:
        """Wait for status 200 at this path; returns the seconds since the start of the process."""
        async with httpx.AsyncClient(base_url=self.url, timeout=5, trust_env=False) as client:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    if (await client.get(path)).status_code == 200:
                        return time.perf_counter() - self._began
                if self._popen.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{self.url} does not serve:\n{self._log.read_text()[-3000:]}")
                await asyncio.sleep(0.005)

    def resident_megabytes(self) -> float:
        """Its resident memory (RSS)."""
        return resident_megabytes(self.pid)

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self._popen.poll() is None:
            self._popen.send_signal(number)

    async def stop(self) -> None:
        """Terminate it, and kill it if it does not end."""
        if self._popen.poll() is None:
            self._popen.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(self._popen.wait, 30)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            await asyncio.to_thread(self._popen.wait)


def resident_megabytes(pid: int) -> float:
    """The resident memory of a process, from /proc."""
    found = re.search(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) / 1000 if found else 0.0


def processor_seconds(pid: int) -> float:
    """The CPU time of all threads of a process, from /proc."""
    return _processor_seconds(Path(f"/proc/{pid}/stat"))


def main_thread_seconds(pid: int) -> float:
    """The CPU time of the first thread of a process, from /proc."""
    return _processor_seconds(Path(f"/proc/{pid}/task/{pid}/stat"))


def _processor_seconds(stat: Path) -> float:
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load_seconds() -> float:
    """The CPU time of this process and of the load generators that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def service(data_dir: Path, config: Path, log: Path, root: Path = ROOT, **settings: object) -> Program:
    """The run.py of the folder `root`; settings as server__port=9012.

    Where the machine writes no bytecode, every start would compile all that is imported: it is written next to the log.
    """
    port = free_port()
    given = {"data_dir": data_dir, "server__port": port, **settings}
    plain = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_PASSED_ON)}
    environment = {
        **plain,
        **{f"IDENTITY__{name.upper()}": str(value) for name, value in given.items()},
        "PYTHONPYCACHEPREFIX": str(log.parent / "bytecode"),
    }
    return Program([sys.executable, str(root / "run.py"), "--config", str(config)], port, log, environment)


def module(name: str, log: Path) -> Program:
    """A program of bench/, which gets its port as argument."""
    port = free_port()
    return Program([sys.executable, "-m", f"bench.{name}", str(port)], port, log)


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
