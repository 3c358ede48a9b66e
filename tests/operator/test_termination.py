"""Programs that start MongoDB and Redis stop all their processes when they are terminated."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.operator.processes import PATIENCE_SECONDS, ROOT, command, environment

STORES = {"mongod", "valkey-server"}


def status(pid: int) -> dict[str, str]:
    """Name, State and PPid of a process among others; empty for one that has ended."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return {}


def is_running(pid: int) -> bool:
    return status(pid).get("State", "Z")[0] not in "ZX"


def descendants(pid: int) -> set[int]:
    parents = {int(entry.name): status(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    found = {pid}
    while more := {pid for pid, status in parents.items() if int(status.get("PPid", 0)) in found} - found:
        found |= more
    return found - {pid}


@contextlib.contextmanager
def started(arguments: list[str], **given: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        arguments, cwd=ROOT, env={**os.environ, **given}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def with_stores(process: subprocess.Popen[bytes]) -> set[int]:
    """All its child processes, once both stores have been started."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        found = descendants(process.pid)
        if {status(pid).get("Name") for pid in found} >= STORES:
            return found
        assert process.poll() is None, "it ended before it had started its stores"
        assert time.monotonic() < deadline, "it started no stores"
        time.sleep(0.1)  # reading all of /proc takes the time of the program that is to start


def left_over(
    process: subprocess.Popen[bytes], number: signal.Signals, grace_seconds: float = 0.0
) -> tuple[int, list[str]]:
    """The exit code, and the names of the processes that run after a grace period; those are ended here."""
    found = with_stores(process)
    process.send_signal(number)
    code = process.wait(PATIENCE_SECONDS)
    deadline = time.monotonic() + grace_seconds
    while (left := [pid for pid in found if is_running(pid)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    names = [status(pid).get("Name", "") for pid in left]
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return code, names


@pytest.mark.requirement("audit-c3")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("program", [("bench", "discovery"), ("chaos", "--events", "1000")], ids=lambda one: one[0])
def test_nothing_outlives_a_terminated_program(
    short_folder: Path, program: tuple[str, ...], number: signal.Signals
) -> None:
    if program[0] == "bench" and shutil.which("wrk") is None:
        pytest.skip("wrk is not installed")
    with started([sys.executable, "-m", *program], TMPDIR=str(short_folder)) as process:
        assert left_over(process, number) == (128 + number, [])
    assert list(short_folder.iterdir()) == []


@pytest.mark.requirement("audit-c3")
def test_nothing_outlives_a_terminated_maintenance_command(tmp_path: Path) -> None:
    with started(command("reencrypt"), **environment(tmp_path / "data")) as process:
        assert left_over(process, signal.SIGTERM) == (128 + signal.SIGTERM, [])


@pytest.mark.requirement("audit-c3")
@pytest.mark.parametrize("workers", ["0", "1"])
def test_nothing_outlives_a_terminated_test_run(short_folder: Path, workers: str) -> None:
    arguments = ["-m", "pytest", "-q", "-n", workers, "-p", "no:cacheprovider", "tests/api/test_consents.py"]
    with started([sys.executable, *arguments], TMPDIR=str(short_folder)) as process:
        # The worker of xdist stops its servers on its own; on a busy machine the controller ends before it.
        assert left_over(process, signal.SIGTERM, grace_seconds=30)[1] == []
