"""The service as a process with arguments, environment, output and an exit code."""

from __future__ import annotations

import contextlib
import http.client
import os
import pty
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.operator.fork_server import ForkedProcess
from tests.ports import free_port

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE_SECONDS = 60


def environment(data_dir: Path, **settings: object) -> dict[str, str]:
    """The environment of a run.py: settings as server__port=9012."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("IDENTITY__")}
    given = {f"IDENTITY__{name.upper()}": str(value) for name, value in settings.items()}
    return {
        **inherited,
        "IDENTITY__DATA_DIR": str(data_dir),
        "IDENTITY__SERVER__PORT": "0",
        "IDENTITY__METRICS__WORKER_PORT": "0",
        **given,
    }


def command(*arguments: str) -> list[str]:
    return [sys.executable, str(ROOT / "run.py"), "--config", str(ROOT / "config"), *arguments]


def _ahead(data_dir: Path, seconds: int, *arguments: str) -> list[str]:
    """The command of a run.py whose clock is ahead."""
    file = data_dir.with_name("clock-error")
    file.write_text(str(seconds))
    python, _, *rest = command(*arguments)
    return [python, "-m", "chaos.clock", str(file), *rest]


def run(data_dir: Path, *arguments: str, limit: str = "", **settings: object) -> subprocess.CompletedProcess[str]:
    """Run to the end. `limit` is a shell command before it, such as a ulimit."""
    full = command(*arguments)
    given = environment(data_dir, **settings)
    if limit:
        # What limits the service would keep the measurement of coverage from writing its own file, too.
        given = {name: value for name, value in given.items() if not name.startswith("COVERAGE_")}
        return subprocess.run(
            ["/bin/sh", "-c", f'{limit} && exec "$@"', "sh", *full],
            check=False, env=given, capture_output=True, text=True, timeout=PATIENCE_SECONDS, cwd=ROOT,
        )  # fmt: skip
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = ForkedProcess(full[1:], given, stdout=out.fileno(), stderr=err.fileno())
        try:
            code = process.wait(PATIENCE_SECONDS)
        finally:
            process.send_signal(signal.SIGKILL)
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(full, code, out.read(), err.read())


class Process:
    """A serving run.py."""

    def __init__(
        self, data_dir: Path, *arguments: str, terminal: bool = False, ahead_seconds: int = 0, **settings: object
    ) -> None:
        """With `terminal` its output goes to a pseudo-terminal; its clock may be ahead, so that leases have expired."""
        self.output = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed by `serving`
        self.port = int(settings.setdefault("server__port", free_port()))
        sink = self._terminal() if terminal else self.output.fileno()
        full = command(*arguments) if not ahead_seconds else _ahead(data_dir, ahead_seconds, *arguments)
        self.popen = ForkedProcess(full[1:], environment(data_dir, **settings), stdout=sink, stderr=sink)
        if terminal:
            os.close(sink)

    def _terminal(self) -> int:
        """The far end of a pseudo-terminal, from which a thread copies everything into the output file."""
        near, far = pty.openpty()

        def copy() -> None:
            with contextlib.suppress(OSError):  # Linux: EIO when the last writer is gone
                while chunk := os.read(near, 65_536):
                    os.pwrite(self.output.fileno(), chunk.replace(b"\r\n", b"\n"), self._written)
                    self._written += len(chunk.replace(b"\r\n", b"\n"))
            os.close(near)

        self._written = 0
        threading.Thread(target=copy, daemon=True).start()
        return far

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def text(self) -> str:
        """Its output so far."""
        self.output.seek(0)
        return self.output.read()

    def wait_until_ready(self) -> None:
        self.wait_for(self.is_ready)

    def is_ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", "/api/health")
            return connection.getresponse().status == 200
        return False

    def wait_for(self, condition) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert self.popen.poll() is None, self.text()
            assert time.monotonic() < deadline, self.text()
            time.sleep(0.02)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Terminate it and wait for its exit code."""
        if self.popen.poll() is None:
            self.popen.send_signal(number)
        return self.popen.wait(PATIENCE_SECONDS)


@contextlib.contextmanager
def serving(data_dir: Path, *arguments: str, terminal: bool = False, **settings: object) -> Iterator[Process]:
    """A run.py that is ready, and stopped at the end."""
    process = Process(data_dir, *arguments, terminal=terminal, **settings)
    try:
        process.wait_until_ready()
        yield process
    finally:
        process.stop()
        process.output.close()
