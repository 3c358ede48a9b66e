"""The limit of open files: too low for a start, and reached under load."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import time
from pathlib import Path

import pytest

from identity.cli import open_files
from identity.ids import new_id
from identity.web.accepting import Accepting
from tests.operator.processes import Process, run
from tests.receiver import until

LIMIT = open_files.MINIMUM


@pytest.mark.requirement("start-7")
def test_limit_that_is_too_low_is_named_with_what_is_needed(tmp_path):
    for arguments in ((), ("check-config",)):
        refused = run(tmp_path, *arguments, limit="ulimit -n 20")
        assert refused.returncode == 1
        assert "Traceback" not in refused.stderr
        assert (
            f"This process may open 20 files, and the service needs at least {LIMIT}" in refused.stderr + refused.stdout
        )
        assert "LimitNOFILE=65536" in refused.stderr + refused.stdout


def processor_seconds(process: Process) -> float:
    """The processor time that a process has used."""
    fields = Path(f"/proc/{process.popen.pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.requirement("start-7")
def test_process_that_runs_out_of_descriptors_waits_and_recovers(stores, tmp_path):
    settings = {
        "mongodb__uri": stores.mongodb_uri, "mongodb__database": f"test_{new_id()[:13].replace('-', '')}",
        "redis__url": stores.redis_url, "kickstart__file": "null",
    }  # fmt: skip
    process = Process(tmp_path, **settings)
    try:
        process.wait_until_ready()
        resource.prlimit(process.popen.pid, resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
        with contextlib.ExitStack() as held:
            for _ in range(LIMIT):
                held.enter_context(socket.create_connection(("127.0.0.1", process.port), timeout=5))
            process.wait_for(lambda: "connections wait: no file descriptors" in process.text())
            used = processor_seconds(process)
            time.sleep(1)
            assert processor_seconds(process) - used < 0.5
        process.wait_until_ready()
        log = process.text()
        assert log.count("connections wait") == 1
        assert "Traceback" not in log
        assert log.count("Too many open files") == 1
        assert process.stop() == 0
    finally:
        process.stop()
        process.output.close()


@pytest.mark.requirement("start-7")
async def test_connections_beyond_the_room_wait_until_there_is_some():
    accepted: list[socket.socket] = []
    room = 2
    with contextlib.ExitStack() as held, socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        accepting = Accepting(listener, lambda connection, _: accepted.append(connection), lambda: len(accepted) < room)
        for _ in range(3):
            held.enter_context(socket.create_connection(listener.getsockname(), timeout=5))
        await until(lambda: len(accepted) == 2)
        room = 3
        await until(lambda: len(accepted) == 3)
        accepting.stop()
        for connection in accepted:
            connection.close()
