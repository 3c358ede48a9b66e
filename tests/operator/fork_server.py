"""Python processes forked from one that has imported the service, which takes a second in a new interpreter.

The server is this module as a program. It receives the arguments of an interpreter, such as those of `run.py`, and
forks; the fork reads its environment, opens its connections and ends like any other process.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
_MODULES = ("run", "identity.app", "identity.cli.check_config", "identity.cli.master_keys")
_MESSAGE_BYTES = 1_000_000


class ForkedProcess:
    """`python ARGUMENTS` as a fork of the server, with those methods of subprocess.Popen that the tests use."""

    def __init__(self, arguments: list[str], env: dict[str, str], *, stdout: int, stderr: int) -> None:
        self._status, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        message = json.dumps({"arguments": arguments, "env": env}).encode()
        with theirs:
            socket.send_fds(_server(), [message], [stdout, stderr, theirs.fileno()])
        self.pid = int(self._status.recv(32))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative after a signal; None while the process runs."""
        return self._ended_within(0)

    def wait(self, timeout: float) -> int:
        """Wait for the exit code. Raises TimeoutError after `timeout` seconds."""
        code = self._ended_within(timeout)
        if code is None:
            raise TimeoutError(f"process {self.pid} still runs after {timeout} s")
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def _ended_within(self, seconds: float) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], seconds)[0]:
            self.returncode = int(self._status.recv(32))
            self._status.close()
        return self.returncode


@functools.cache
def _server() -> socket.socket:
    """The connection to the server of this test process; the server ends when the connection does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MESSAGE_BYTES)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, str(theirs.fileno())],
            cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def stop() -> None:
        ours.close()
        process.wait()

    atexit.register(stop)
    return ours


def _serve(channel: socket.socket) -> None:
    """Fork a process for each message, until the tests end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the tests, and with them this server
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies of the parents
    for name in _MODULES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, _MESSAGE_BYTES, 3)
        if not message:
            os._exit(0)  # without the files of a measurement of coverage: every fork writes its own
        if os.fork() == 0:
            channel.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _parent(json.loads(message), *descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)


def _parent(order: dict[str, object], stdout: int, stderr: int, status: int) -> None:
    """Fork the process itself, and report its id and its exit code. Returns when the process has ended, inside it."""
    pid = os.fork()
    if pid == 0:
        os.close(status)
        _run(order, stdout, stderr)
        return
    with contextlib.suppress(OSError), socket.socket(fileno=status) as tests:  # they may have ended
        tests.send(str(pid).encode())
        for descriptor in (stdout, stderr):
            os.close(descriptor)
        _, code = os.waitpid(pid, 0)
        tests.send(str(os.waitstatus_to_exitcode(code)).encode())
    os._exit(0)


def _run(order: dict[str, object], stdout: int, stderr: int) -> None:
    """What `python ARGUMENTS` does."""
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    for descriptor in (stdout, stderr):
        os.close(descriptor)
    sys.stdout.reconfigure(line_buffering=sys.stdout.isatty())
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(order["env"])
    program, *arguments = order["arguments"]
    if program == "-m":
        program, *arguments = arguments
        sys.argv = [program, *arguments]
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        sys.argv = [program, *arguments]
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
