"""The service as a process: output, shutdown and durability."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import re
import signal
import socket
import stat
import subprocess
import threading
import time
from pathlib import Path
from typing import ClassVar

import httpx
import pytest

from identity.cli import run as run_command
from identity.cli import systemd
from tests.operator.processes import Process, run, serving
from tests.ports import free_port


def pid_of(data_dir: Path, name: str) -> int:
    folder = {"mongod": "mongodb", "redis": "redis"}[name]
    return int((data_dir / folder / f"{name}.pid").read_text())


def is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    return False


def announced(text: str, name: str) -> str:
    """A line of the start-up text."""
    found = re.search(rf"^  {name}  +(.*)$", text, re.MULTILINE)
    assert found, text
    return found[1]


def tenants(process: Process, key: str) -> httpx.Response:
    return httpx.get(f"{process.url}/api/tenant", headers={"Authorization": key}, timeout=30)


@pytest.fixture(scope="module")
def used(tmp_path_factory):
    """The data folder of an instance that was started once and stopped, and its output."""
    data_dir = tmp_path_factory.mktemp("used") / "var"
    with serving(data_dir, terminal=True) as process:
        process.wait_for(lambda: "Stop with" in process.text())
        text = process.text()
        assert process.stop() == 0
    return data_dir, text


@pytest.mark.requirement("project-4", "service-2")
def test_the_first_start_says_where_to_go_and_shows_the_secrets_once(used):
    data_dir, text = used
    assert re.fullmatch(r"http://localhost:\d+", announced(text, "Address"))
    assert announced(text, "Administration").startswith(f"{announced(text, 'Address')}/admin ")
    assert announced(text, "Data") == str(data_dir)
    assert announced(text, "Administrator") == "admin@example.com"
    assert len(announced(text, "Password")) >= 20
    assert len(announced(text, "API key")) >= 20
    kept = data_dir / "kickstart-secrets.txt"
    assert announced(text, "Stored in").startswith(str(kept))
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert announced(text, "API key") in kept.read_text()
    assert "route=/api" not in text


@pytest.mark.requirement("audit-c1-start", "project-5")
def test_the_second_start_shows_no_secret_and_has_the_same_data_and_pages(used):
    data_dir, text = used
    key = announced(text, "API key")
    with serving(data_dir) as process:
        process.wait_for(lambda: "Stop with" in process.text())
        text = process.text()
        assert key not in text
        assert announced(text, "Stored in")
        assert tenants(process, key).status_code == 200
        for name, expected in (
            ("Administration", 'name="password"'),
            ("Login page", 'name="password"'),
            ("Discovery", "issuer"),
        ):
            link = announced(text, name).split(" ")[0]
            answer = httpx.get(link, follow_redirects=True, timeout=30)
            assert (answer.status_code, expected in answer.text) == (200, True), link


@pytest.mark.requirement("audit-a8-first-secrets", "project-5")
def test_secrets_are_shown_in_a_terminal_only(tmp_path):
    with serving(tmp_path) as process:
        process.wait_for(lambda: "Stop with" in process.text())
        text = process.text()
    file = tmp_path / "kickstart-secrets.txt"
    kept = dict(line.split(": ", 1) for line in file.read_text().splitlines())
    assert {"Password", "API key"} <= kept.keys()
    assert announced(text, "Stored in").startswith(str(file))
    assert "Password" not in text
    assert kept["Password"] not in text
    assert kept["API key"] not in text


@pytest.mark.requirement("audit-a8-base-url")
def test_listening_for_others_without_a_base_url_is_a_warning(used):
    data_dir, _ = used
    with serving(data_dir, server__address="0.0.0.0") as process:
        process.wait_for(lambda: "Stop with" in process.text())
        assert "server.base_url is not set while the service listens on 0.0.0.0" in process.text()


@pytest.mark.requirement("design-stores-4", "project-10")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_everything_in_order_and_the_exit_code_is_zero(used, number):
    data_dir, _ = used
    with serving(data_dir) as process:
        children = [pid_of(data_dir, name) for name in ("mongod", "redis")]
        assert all(map(is_alive, children))
        assert process.stop(number) == 0
        assert not any(map(is_alive, children))
        assert "Traceback" not in process.text()
        with pytest.raises(httpx.ConnectError):
            httpx.get(process.url)


def test_a_signal_during_the_start_stops_it_and_leaves_nothing_running(used):
    data_dir, _ = used
    process = Process(data_dir)
    process.wait_for((data_dir / "mongodb" / "mongod.pid").exists)
    child = pid_of(data_dir, "mongod")
    assert process.stop() == 0
    assert not is_alive(child)
    assert "Traceback" not in process.text()
    process.output.close()


@pytest.mark.requirement("project-7")
def test_data_survive_a_kill(used):
    """Of a store while the service runs, and of the service."""
    data_dir, text = used
    key = announced(text, "API key")
    with serving(data_dir) as process:
        for victim in ("mongod", "redis", "run.py"):
            name = f"survives {victim}"
            made = httpx.post(
                f"{process.url}/api/tenant", headers={"Authorization": key}, json={"tenant": {"name": name}}, timeout=30
            )
            assert made.status_code == 200, made.text
            if victim == "run.py":
                process.stop(signal.SIGKILL)
            else:
                killed = pid_of(data_dir, victim)
                os.kill(killed, signal.SIGKILL)
                process.wait_for(functools.partial(is_replaced, process, key, name, data_dir, victim, killed))
    with serving(data_dir) as process:
        for victim in ("mongod", "redis", "run.py"):
            assert has_tenant(process, key, f"survives {victim}")


def is_replaced(process: Process, key: str, name: str, data_dir: Path, victim: str, killed: int) -> bool:
    return has_tenant(process, key, name) and pid_of(data_dir, victim) != killed


def has_tenant(process: Process, key: str, name: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        answer = tenants(process, key)
        return answer.status_code == 200 and name in [tenant["name"] for tenant in answer.json()["tenants"]]
    return False


@pytest.mark.requirement("project-10")
def test_requests_in_flight_finish_while_no_new_connection_is_accepted(used):
    data_dir, _ = used
    with serving(data_dir) as process:
        # A request whose body is still on its way when the signal comes.
        body = b"grant_type=none"
        head = b"POST /oauth2/token HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        with socket.create_connection(("127.0.0.1", process.port), 30) as slow:
            slow.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body[:3])
            process.popen.send_signal(signal.SIGTERM)
            process.wait_for(lambda: refuses(process.port))
            slow.sendall(body[3:])
            answer = slow.recv(65536)
        assert answer.startswith(b"HTTP/1.1 4"), answer
        assert b"\r\nConnection: close\r\n" in answer
        assert process.stop() == 0


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.requirement("design-config-8")
def test_reload_changes_the_log_level_and_lists_settings_that_need_a_restart(used, tmp_path):
    data_dir, _ = used
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "identity.yaml").write_text("kickstart: {file: null}\n")
    with serving(data_dir, "--config", str(folder)) as process:
        (folder / "identity.yaml").write_text(
            "kickstart: {file: null}\nlogging: {format: json, level: debug}\nwebhooks: {jitter: 0.5}\n"
        )
        process.popen.send_signal(signal.SIGHUP)
        process.wait_for(lambda: "require a restart" in process.text())
        entries = [json.loads(line) for line in process.text().splitlines() if line.startswith("{")]
        assert entries[0]["changed"] == ["logging.format", "logging.level"]
        assert entries[1]["settings"] == ["webhooks.jitter"]
        (folder / "identity.yaml").write_text("webhooks: {jitter: much}\n")
        process.popen.send_signal(signal.SIGHUP)
        process.wait_for(lambda: "configuration not reloaded" in process.text())
        assert process.is_ready()


@pytest.mark.requirement("project-15")
def test_systemd_is_notified_of_readiness_and_stop(used, monkeypatch, tmp_path):
    data_dir, _ = used
    address = f"\0identity-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(address)
        channel.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", address.replace("\0", "@"))
        with serving(data_dir) as process:
            assert channel.recv(100) == b"READY=1"
            assert process.stop() == 0
        assert channel.recv(100) == b"STOPPING=1"


@pytest.mark.requirement("design-state-32", "project-8", "operate-17")
def test_a_worker_serves_metrics_and_health_and_nothing_else(used):
    data_dir, _ = used
    port = free_port()
    process = Process(data_dir, "--role", "worker", metrics__worker_port=port)
    process.wait_for(lambda: "Stop with" in process.text())
    assert refuses(process.port)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        assert "identity_webhook_oldest_due_seconds" in client.get("/api/prometheus/metrics").text
        for path in ("/api/health", "/api/health/live", "/api/status"):
            assert client.get(path).status_code == 200
        for path in ("/", "/oauth2/token", "/api/tenant", "/.well-known/jwks.json", "/admin"):
            assert (client.get(path).status_code, client.post(path).status_code) == (404, 404)
    assert process.stop() == 0
    occupied = socket.create_server(("127.0.0.1", port))
    refused = run(data_dir, "--role", "worker", metrics__worker_port=port)
    occupied.close()
    assert refused.returncode == 1
    assert f"Cannot listen on 127.0.0.1:{port}" in refused.stderr
    assert "metrics.worker_port" in refused.stderr
    process.output.close()


def test_a_worker_without_a_port_for_metrics_opens_none(used):
    data_dir, _ = used
    process = Process(data_dir, "--role", "worker", metrics__worker_port="null")
    process.wait_for(lambda: "Stop with" in process.text())
    assert "Monitoring" not in process.text()
    assert process.stop() == 0
    process.output.close()


@pytest.mark.requirement("operate-16")
def test_the_watchdog_is_notified_while_the_event_loop_turns_and_not_while_the_process_is_suspended(used, monkeypatch):
    data_dir, _ = used
    address = f"\0identity-watchdog-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(address)
        monkeypatch.setenv("NOTIFY_SOCKET", address.replace("\0", "@"))
        monkeypatch.setenv("WATCHDOG_USEC", "600000")
        with serving(data_dir) as process:
            channel.settimeout(30)
            assert {channel.recv(100) for _ in range(5)} <= {b"READY=1", b"WATCHDOG=1"}
            process.popen.send_signal(signal.SIGSTOP)
            drain(channel)
            time.sleep(2)
            assert drain(channel) == 0
            process.popen.send_signal(signal.SIGCONT)
            channel.settimeout(30)
            assert channel.recv(100) == b"WATCHDOG=1"


def drain(channel: socket.socket) -> int:
    """Receive what has arrived, and return how many datagrams that were."""
    channel.setblocking(False)
    number = 0
    with contextlib.suppress(BlockingIOError):
        while channel.recv(100):
            number += 1
    return number


@pytest.mark.requirement("operate-16")
async def test_the_watchdog_is_not_notified_while_the_event_loop_is_blocked(monkeypatch):
    address = f"\0identity-blocked-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(address)
        channel.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", address.replace("\0", "@"))
        monkeypatch.setenv("WATCHDOG_USEC", "30000")
        async with systemd.watchdog():
            await asyncio.sleep(0.2)
            assert channel.recv(100) == b"WATCHDOG=1"
            drain(channel)
            time.sleep(0.2)  # blocks the event loop, as a fault would
            assert drain(channel) == 0
            await asyncio.sleep(0.1)
            assert drain(channel) > 0


def test_the_watchdog_of_another_process_is_not_notified():
    assert systemd.watchdog_seconds({"WATCHDOG_USEC": "20000000", "WATCHDOG_PID": "7"}, 7) == 20
    for environ in ({}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "8"}):
        assert systemd.watchdog_seconds(environ, 7) is None


@pytest.mark.requirement("project-17")
def test_a_copy_of_data_dir_is_a_backup(used, tmp_path):
    data_dir, text = used
    key = announced(text, "API key")
    archive = tmp_path / "backup.tar.gz"
    subprocess.run(["tar", "-czf", archive, "-C", data_dir.parent, data_dir.name], check=True)
    restored = tmp_path / "elsewhere"
    restored.mkdir()
    subprocess.run(["tar", "-xzf", archive, "-C", restored], check=True)
    with serving(restored / "var") as process:
        assert tenants(process, key).status_code == 200


@pytest.mark.requirement("project-18")
def test_the_master_key_rotates_while_the_service_runs(tmp_path):
    with serving(tmp_path) as process:
        process.wait_for(lambda: "Stop with" in process.text())
        key = re.search("^API key: (.*)$", (tmp_path / "kickstart-secrets.txt").read_text(), re.MULTILINE)[1]
        rotated = run(tmp_path, "rotate-master-key")
        assert rotated.returncode == 0, rotated.stderr
        assert tenants(process, key).status_code == 200
    master = tmp_path / "master.key"
    assert len(master.read_text().split()) == 2
    assert stat.S_IMODE(master.stat().st_mode) == 0o600
    with serving(tmp_path) as process:
        done = run(tmp_path, "reencrypt")
        assert done.returncode == 0, done.stderr
        assert re.match(r"[1-9]\d* documents re-encrypted", done.stdout)
        assert run(tmp_path, "reencrypt").stdout.startswith("0 documents re-encrypted")
    master.write_text(master.read_text().splitlines()[0] + "\n")
    with serving(tmp_path) as process:
        assert tenants(process, key).status_code == 200


@pytest.mark.requirement("design-config-10", "design-core-1")
def test_concurrent_starts_create_one_instance(tmp_path):
    results: list[int] = []
    with serving(tmp_path):
        rival = threading.Thread(target=lambda: results.append(run(tmp_path).returncode))
        rival.start()
        rival.join(60)
    assert results == [1]


def test_tls_data_after_close_is_not_logged_as_error():
    """What uvloop reports when data arrives after the end of a connection; everything else stays an error."""

    class Loop:
        reported: ClassVar[list[str]] = []

        def default_exception_handler(self, context):
            self.reported.append(context["message"])

    closed = RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")
    run_command._on_loop_error(Loop(), {"message": "SSL error in data received", "exception": closed})
    run_command._on_loop_error(Loop(), {"message": "something else", "exception": ValueError("x")})
    run_command._on_loop_error(Loop(), {"message": "no exception at all"})
    assert Loop.reported == ["something else", "no exception at all"]
