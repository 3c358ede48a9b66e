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

from identity.config import Lambdas
from identity.errors import Unavailable

_log = structlog.get_logger(__name__)

_CHILD: Final = Path(__file__).with_name("child.py")
_LENGTH: Final = struct.Struct(">I")
_PATIENCE: Final = 40
"""How many times the limit a caller waits: processor time is what is limited, and a busy machine gives little of it."""

_TURN_SECONDS: Final = 10.0
"""How long a caller waits for a turn: whoever asked has gone by then, and would only keep others waiting."""

_FAREWELL_SECONDS: Final = 2.0
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
        self._turn = asyncio.Semaphore(settings.processes)
        self._pending = 0
        self._free: list[_Child] = []
        self._busy: set[_Child] = set()

    async def check(self, source: str, function: str) -> InvocationResult:
        """Whether the source can be read, and defines the function. Raises Unavailable when too many wait."""
        return await self._run({"source": source, "function": function})

    async def call(self, source: str, function: str, arguments: bytes) -> InvocationResult:
        """Call the function of the source with a JSON list of arguments; the result is the list as it left them.

        Raises Unavailable when too many wait.
        """
        return await self._run({"source": source, "function": function, "arguments": arguments.decode()})

    async def close(self) -> None:
        """End every process; one that works is not waited for."""
        for child in self._busy:
            child.kill()
        free, self._free = self._free, []
        await asyncio.gather(*(child.dismiss() for child in free))

    async def _run(self, request: Mapping[str, Any]) -> InvocationResult:
        if self._pending >= self._settings.processes + self._settings.max_waiting:
            raise Unavailable(_FULL, log_detail="the sandbox is full")
        self._pending += 1
        try:
            await self._await_turn()
            try:
                return await self._asked(orjson.dumps(request))
            finally:
                self._turn.release()
        finally:
            self._pending -= 1

    async def _await_turn(self) -> None:
        try:
            async with asyncio.timeout(_TURN_SECONDS):
                await self._turn.acquire()
        except TimeoutError as error:
            raise Unavailable(_FULL, log_detail="others keep the sandbox busy") from error

    async def _asked(self, request: bytes) -> InvocationResult:
        child = await self._child()
        self._busy.add(child)
        try:
            async with asyncio.timeout(self._settings.time_limit_ms / 1000 * _PATIENCE):
                answer = await child.ask(request)
        except (asyncio.IncompleteReadError, ConnectionError):
            return self._ended(await child.dismiss())
        except TimeoutError:
            child.kill()
            return self._ended(await child.dismiss())
        except BaseException:
            # Whoever asked is gone. The answer must not be taken for the next one's.
            child.kill()
            raise
        finally:
            self._busy.discard(child)
        self._free.append(child)
        return answer

    async def _child(self) -> _Child:
        while self._free:
            child = self._free.pop()
            if child.is_alive:
                return child
        try:
            return await _Child.start(self._settings)
        except OSError as error:
            raise Unavailable(_FULL, log_detail=f"no process for the sandbox: {error}") from error

    def _ended(self, code: int) -> InvocationResult:
        """Why there is no answer; a process that ran out of its time was ended by the kernel."""
        if code == -signal.SIGPROF:
            return InvocationResult(problem=f"it took more than {self._settings.time_limit_ms} ms of processor time")
        _log.warning("a process of the sandbox ended unexpectedly", code=code)
        return InvocationResult(problem="the engine was ended")


class _Child:
    """One process, which answers one request at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._in, self._out = process, process.stdin, process.stdout

    @classmethod
    async def start(cls, settings: Lambdas) -> _Child:
        """A new process, which gets nothing of ours but the limits."""
        # Its errors go where ours go: whatever a lambda does, it does not write there.
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            str(_CHILD),
            json.dumps(_limits(settings)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
            cwd="/",
            start_new_session=True,
        )
        return cls(process)

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended, as far as is known."""
        return self._process.returncode is None

    async def ask(self, request: bytes) -> InvocationResult:
        """Send a request and await the answer. Raises IncompleteReadError and ConnectionError when the process ends."""
        self._in.write(_LENGTH.pack(len(request)) + request)
        await self._in.drain()
        length = _LENGTH.unpack(await self._out.readexactly(_LENGTH.size))[0]
        return InvocationResult(**orjson.loads(await self._out.readexactly(length)))

    def kill(self) -> None:
        """End it now."""
        # Not by asyncio's own means: those look whether it has ended, and the loop then learns of no code any more.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGKILL)

    async def dismiss(self) -> int:
        """Let it end by itself, as it does when no more can come; and if it does not, end it.

        Answers its code: minus the number of the signal that ended it.
        """
        self._in.close()
        try:
            return await asyncio.wait_for(self._process.wait(), _FAREWELL_SECONDS)
        except TimeoutError:
            self.kill()
            return await self._process.wait()


def _limits(settings: Lambdas) -> dict[str, int]:
    """What each invocation is held to, inside of its process."""
    return {
        "time_limit_ms": settings.time_limit_ms,
        "memory_limit_bytes": settings.memory_limit_bytes,
        "stack_limit_bytes": settings.stack_limit_bytes,
        "output_limit_bytes": settings.output_limit_bytes,
    }
