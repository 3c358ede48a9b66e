"""The process pool of the sandbox, with a bounded number of processes and of queued callers.

Processes rather than threads, because a thread cannot be killed and the engine has loops that ignore its time limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import struct
import sys
from collections.abc import Mapping
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


@dataclasses.dataclass(frozen=True, slots=True)
class InvocationResult:
    """The result of an invocation as JSON, or a `problem` with its `line`; and its console output."""

    result: str | None = None
    problem: str | None = None
    line: int | None = None
    printed: str = ""


class Sandbox:
    """Runs JavaScript within the configured limits. Processes start on demand and are reused."""

    def __init__(self, settings: Lambdas) -> None:
        self._settings = settings
        self._slots = asyncio.Semaphore(settings.processes)
        self._pending = 0
        self._free: list[_Child] = []
        self._busy: set[_Child] = set()

    async def check(self, source: str, function: str) -> InvocationResult:
        """Check that the source is valid and defines the function. Raises Unavailable if the queue is full."""
        return await self._run({"source": source, "function": function})

    async def call(self, source: str, function: str, arguments: bytes) -> InvocationResult:
        """Call the function with a JSON list of arguments; the result is the list after the call.

        Raises Unavailable if the queue is full.
        """
        return await self._run({"source": source, "function": function, "arguments": arguments.decode()})

    async def close(self) -> None:
        """End every process, including busy ones."""
        for child in self._busy:
            child.kill()
        free, self._free = self._free, []
        await asyncio.gather(*(child.exit() for child in free))

    async def _run(self, request: Mapping[str, Any]) -> InvocationResult:
        if self._pending >= self._settings.processes + self._settings.max_waiting:
            raise Unavailable(_FULL, log_detail="the sandbox is full")
        self._pending += 1
        try:
            await self._acquire_slot()
            try:
                return await self._execute(orjson.dumps(request))
            finally:
                self._slots.release()
        finally:
            self._pending -= 1

    async def _acquire_slot(self) -> None:
        try:
            async with asyncio.timeout(_QUEUE_SECONDS):
                await self._slots.acquire()
        except TimeoutError as error:
            raise Unavailable(_FULL, log_detail="the sandbox is busy") from error

    async def _execute(self, request: bytes) -> InvocationResult:
        child = await self._child()
        self._busy.add(child)
        try:
            async with asyncio.timeout(self._settings.time_limit_ms / 1000 * _WALL_CLOCK_FACTOR):
                result = await child.execute(request)
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
            raise Unavailable(_FULL, log_detail=f"no process for the sandbox: {error}") from error

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

    async def execute(self, request: bytes) -> InvocationResult:
        """Execute a request. Raises IncompleteReadError or ConnectionError if the process ends."""
        self._in.write(_LENGTH.pack(len(request)) + request)
        await self._in.drain()
        length = _LENGTH.unpack(await self._out.readexactly(_LENGTH.size))[0]
        return InvocationResult(**orjson.loads(await self._out.readexactly(length)))

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
