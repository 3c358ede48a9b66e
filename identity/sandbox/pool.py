"""The process pools of the sandbox, with a bounded number of processes and of queued callers.

Processes rather than threads, because a thread cannot be killed and the engine has loops that ignore its time limit.
Lambdas that use `fetch` or secrets have a pool of their own: those that wait for a slow server do not occupy the
processes of the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import re
import signal
import struct
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson
import structlog

from identity.config.sections import Lambdas
from identity.errors import Unavailable

_log = structlog.get_logger(__name__)

_CHILD: Final = Path(__file__).with_name("child.py")
_LENGTH: Final = struct.Struct(">I")
_WALL_CLOCK_FACTOR: Final = 40
"""The limit is processor time; on a busy machine an invocation may take this many times longer."""

_QUEUE_SECONDS: Final = 10.0
"""The maximum time in the queue. The caller of a longer one has usually disconnected."""

_EXIT_SECONDS: Final = 2.0
_FULL: Final = "Too many lambdas at once. Try again."
_CONNECTED: Final = re.compile(r"\b(?:fetch|secrets)\b")

Answer = Callable[[str], Awaitable[bytes]]
"""Answers a question of a running lambda: a request, or a secret; both are JSON."""


@dataclasses.dataclass(frozen=True, slots=True)
class InvocationResult:
    """The result of an invocation as JSON, or a `problem` with its `line`; and its console output.

    `printed` has the lines in their order, each after the first letter of its event log type: D, E or I.
    """

    result: str | None = None
    problem: str | None = None
    line: int | None = None
    printed: Sequence[Sequence[str]] = ()


class Sandbox:
    """Runs JavaScript within the configured limits."""

    def __init__(self, settings: Lambdas) -> None:
        self._pool = _Pool(settings, settings.processes, settings.time_limit_ms * _WALL_CLOCK_FACTOR)
        connected_ms = settings.time_limit_ms * _WALL_CLOCK_FACTOR + settings.fetch_total_ms
        self._connected_pool = _Pool(settings, settings.fetch_processes, connected_ms)

    async def check(self, source: str, function: str) -> InvocationResult:
        """Check that the source is valid and defines the function. Raises Unavailable if the queue is full."""
        request = {"source": source, "function": function, "is_connected": is_connected(source)}
        return await self._pool.run(request, _answer_nothing)

    async def call(
        self, source: str, function: str, arguments: bytes, context: bytes, answer: Answer
    ) -> InvocationResult:
        """Call the function with a JSON list of arguments and the context; the result is the list after the call.

        `answer` is called for each request and secret of the lambda. Raises Unavailable if the queue is full.
        """
        needs_answers = is_connected(source)
        pool = self._connected_pool if needs_answers else self._pool
        request = {"source": source, "function": function, "is_connected": needs_answers}
        return await pool.run({**request, "arguments": arguments.decode(), "context": context.decode()}, answer)

    async def close(self) -> None:
        """End every process, including busy ones."""
        await asyncio.gather(self._pool.close(), self._connected_pool.close())


def is_connected(source: str) -> bool:
    """Return whether a source mentions `fetch` or secrets; the others run without a connection to the service."""
    return _CONNECTED.search(source) is not None


async def _answer_nothing(_question: str) -> bytes:
    raise AssertionError("a source that is only checked has no questions")


class _Pool:
    """Processes that are started on demand and reused."""

    def __init__(self, settings: Lambdas, processes: int, wall_clock_ms: int) -> None:
        self._settings = settings
        self._processes = processes
        self._wall_clock_seconds = wall_clock_ms / 1000
        self._slots = asyncio.Semaphore(processes)
        self._pending = 0
        self._free: list[_Child] = []
        self._busy: set[_Child] = set()

    async def run(self, request: Mapping[str, Any], answer: Answer) -> InvocationResult:
        """Execute a request in the next free process. Raises Unavailable if the queue is full."""
        if self._pending >= self._processes + self._settings.max_waiting:
            raise Unavailable(_FULL, log_detail="the sandbox is full", retry_after_seconds=1)
        self._pending += 1
        try:
            await self._acquire_slot()
            try:
                return await self._execute(orjson.dumps(request), answer)
            finally:
                self._slots.release()
        finally:
            self._pending -= 1

    async def close(self) -> None:
        """End every process, including busy ones."""
        for child in self._busy:
            child.kill()
        free, self._free = self._free, []
        await asyncio.gather(*(child.exit() for child in free))

    async def _acquire_slot(self) -> None:
        try:
            async with asyncio.timeout(_QUEUE_SECONDS):
                await self._slots.acquire()
        except TimeoutError as error:
            raise Unavailable(_FULL, log_detail="the sandbox is busy", retry_after_seconds=1) from error

    async def _execute(self, request: bytes, answer: Answer) -> InvocationResult:
        child = await self._child()
        self._busy.add(child)
        try:
            async with asyncio.timeout(self._wall_clock_seconds):
                result = await child.execute(request, answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            return self._crashed(await child.exit())
        except TimeoutError:
            child.kill()
            return self._crashed(await child.exit())
        except BaseException:
            # The caller was cancelled: its response must not be read as that of the next request.
            child.kill()
            raise
        finally:
            self._busy.discard(child)
        self._free.append(child)
        return result

    async def _child(self) -> _Child:
        while self._free:
            child = self._free.pop()
            if child.is_alive:
                return child
        try:
            return await _Child.start(self._settings)
        except OSError as error:
            raise Unavailable(
                _FULL, log_detail=f"no process for the sandbox: {error}", retry_after_seconds=1
            ) from error

    def _crashed(self, code: int) -> InvocationResult:
        """The result of a process that ended with this code; the kernel ends one that exceeds its time with SIGPROF."""
        if code == -signal.SIGPROF:
            return InvocationResult(problem=f"it took more than {self._settings.time_limit_ms} ms of processor time")
        _log.warning("a process of the sandbox ended unexpectedly", code=code)
        return InvocationResult(problem="the engine was ended")


class _Child:
    """A process, which executes one request at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._in, self._out = process, process.stdin, process.stdout

    @classmethod
    async def start(cls, settings: Lambdas) -> _Child:
        """Start a process, which inherits nothing from the service."""
        limits = {
            "time_limit_ms": settings.time_limit_ms,
            "memory_limit_bytes": settings.memory_limit_bytes,
            "stack_limit_bytes": settings.stack_limit_bytes,
            "output_limit_bytes": settings.output_limit_bytes,
            "fetch_limit_bytes": settings.fetch_limit_bytes,
        }
        # Standard error is inherited; lambdas cannot write to it.
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", str(_CHILD), json.dumps(limits)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
            cwd="/",
            start_new_session=True,
        )
        return cls(process)

    @property
    def is_alive(self) -> bool:
        """Whether it is running, as far as known."""
        return self._process.returncode is None

    async def execute(self, request: bytes, answer: Answer) -> InvocationResult:
        """Execute a request. Raises IncompleteReadError or ConnectionError if the process ends, and as `answer`."""
        await self._send(request)
        while True:
            length = _LENGTH.unpack(await self._out.readexactly(_LENGTH.size))[0]
            message = orjson.loads(await self._out.readexactly(length))
            if "question" not in message:
                return InvocationResult(**message)
            await self._send(await answer(message["question"]))

    async def _send(self, message: bytes) -> None:
        self._in.write(_LENGTH.pack(len(message)) + message)
        await self._in.drain()

    def kill(self) -> None:
        """Kill the process."""
        # Not with `Process.kill`, which polls: the event loop would then not receive the exit code.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGKILL)

    async def exit(self) -> int:
        """Close the input, upon which the process ends, or kill it; returns the exit code (negative for a signal)."""
        self._in.close()
        try:
            return await asyncio.wait_for(self._process.wait(), _EXIT_SECONDS)
        except TimeoutError:
            self.kill()
            return await self._process.wait()
