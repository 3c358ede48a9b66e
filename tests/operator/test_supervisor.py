"""The supervisor with faulty servers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from identity.errors import StartupError
from identity.store.embedded import supervisor
from identity.store.embedded.supervisor import Supervisor

SERVER = """
import signal, sys, time
from pathlib import Path

folder, mode = Path(sys.argv[1]), sys.argv[2]
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if (folder / "broken").exists():
    sys.exit("77:M 21 Nov 2026 02:14:53.550 # out of order")
if mode != "silent":
    (folder / "ready").touch()
time.sleep(600)
"""


class FakeServer:
    """A Python program instead of a store."""

    name = "redis"
    rotation_signal = None

    def __init__(self, base: Path, mode: str = "good") -> None:
        self.folder = base / "data"
        self.folder.mkdir()
        self.log_file = base / "redis.log"
        self._mode = mode

    def command(self) -> list[str]:
        (self.folder / "ready").unlink(missing_ok=True)
        return [sys.executable, "-c", SERVER, str(self.folder), self._mode]

    async def ready(self) -> None:
        if not (self.folder / "ready").exists():
            raise ConnectionError("not yet")


async def until(condition) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def supervised(server: FakeServer):
    running = Supervisor(server)
    await running.start()
    try:
        yield running
    finally:
        await running.stop()


async def test_a_server_that_ignores_the_signal_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "STOP_SECONDS", 0.1)
    async with supervised(FakeServer(tmp_path, "stubborn")) as running:
        pid = running.pid
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.requirement("design-stores-5")
async def test_a_stale_server_that_ignores_the_signal_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "STOP_SECONDS", 0.1)
    server = FakeServer(tmp_path, "stubborn")
    stale = await asyncio.create_subprocess_exec(*server.command())
    await until((server.folder / "ready").exists)
    (tmp_path / "redis.pid").write_text(f"{stale.pid}\n")
    async with supervised(server) as running:
        assert running.pid != stale.pid
        assert await stale.wait() == -signal.SIGKILL


@pytest.mark.requirement("start-1")
async def test_stale_server_without_a_pid_file_is_stopped(tmp_path):
    """The service was killed between the start of the server and the creation of its pid file."""
    server = FakeServer(tmp_path)
    stale = await asyncio.create_subprocess_exec(*server.command())
    await until((server.folder / "ready").exists)
    async with supervised(server) as running:
        assert running.pid != stale.pid
        assert await stale.wait() == -signal.SIGTERM


async def test_a_server_that_never_answers_is_stopped_and_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "READY_SECONDS", 0.2)
    running = Supervisor(FakeServer(tmp_path, "silent"))
    with pytest.raises(StartupError, match=r"The embedded redis does not answer after 0 s; see .*redis\.log"):
        await running.start()
    assert not Path(f"/proc/{running.pid}").exists()
    assert not (tmp_path / "redis.pid").exists()


@pytest.mark.requirement("design-stores-3")
async def test_failing_server_is_restarted_until_it_recovers(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "_FIRST_DELAY_SECONDS", 0.01)
    monkeypatch.setattr(supervisor, "_MAX_DELAY_SECONDS", 0.05)
    server = FakeServer(tmp_path)
    with capture_logs() as entries:
        async with supervised(server) as running:
            first = running.pid
            (server.folder / "broken").touch()
            os.kill(first, signal.SIGKILL)
            await until(lambda: sum(entry["event"] == "embedded server does not start" for entry in entries) >= 3)
            (server.folder / "broken").unlink()
            await until(lambda: any(entry["event"] == "embedded server is back" for entry in entries))
            assert running.pid != first
    reasons = {entry["reason"] for entry in entries if "reason" in entry}
    assert all("does not start: out of order" in reason for reason in reasons)


async def test_delay_grows_while_the_server_cannot_be_launched(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "_FIRST_DELAY_SECONDS", 0.01)
    server = FakeServer(tmp_path)
    with capture_logs() as entries:
        async with supervised(server) as running:
            monkeypatch.setattr(supervisor, "_STABLE_SECONDS", 0.5)
            await asyncio.sleep(0.6)  # it counts as stable, as after an hour
            server.log_file = tmp_path / "missing" / "redis.log"
            os.kill(running.pid, signal.SIGKILL)
            await until(lambda: sum(entry["event"] == "embedded server does not start" for entry in entries) >= 3)
            server.log_file = tmp_path / "redis.log"
            await until(lambda: any(entry["event"] == "embedded server is back" for entry in entries))
    delays = [entry["delay_seconds"] for entry in entries if "delay_seconds" in entry]
    assert delays[:3] == [0.01, 0.02, 0.04]


async def test_stopping_while_the_server_is_being_started_again_leaves_nothing_running(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "_FIRST_DELAY_SECONDS", 0.01)
    server = FakeServer(tmp_path)
    async with supervised(server) as running:
        server._mode = "silent"
        os.kill(running.pid, signal.SIGKILL)
        first = running.pid
        await until(lambda: running.pid != first)
        second = running.pid
    assert not Path(f"/proc/{second}").exists()
