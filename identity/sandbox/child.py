"""The sandbox process: executes JavaScript invocations one after the other, each in a new engine.

The service runs this file by its path in an isolated interpreter without environment, connections and open files.
Requests arrive on standard input, responses leave on standard output. A request is its length (four bytes) and a JSON
object: `source`, `function`, `is_connected`, and `arguments` and `context`, JSON texts that are absent if the source is
only checked. A response has `result` (a JSON text) or `problem` with its `line`, if known, and what was `printed`.
A connected invocation sends any number of messages with a `question` (a JSON text) before its response, and waits for
the answer to each.

Long-running library functions of the engine ignore its time limit: joining an array of four billion empty items takes
minutes. Therefore a timer of the kernel ends the process. A connected invocation has this limit only, because the
engine cannot call Python while it has one of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final

import quickjs

_LENGTH: Final = struct.Struct(">I")
_LINE: Final = re.compile(r"<input>:(\d+)")
_PRELUDE_FRAME: Final = re.compile(r"\n *at (?:(?:eval|apply|join) \(native\)|\w+_ \(<input>.*)")
"""Lines of a stack trace that belong to the prelude."""

_GRACE_SECONDS: Final = 0.1
"""How long after the engine's own limit the kernel ends the process."""

_INTERPRETER_BYTES: Final = 512 * 2**20
"""The memory that the interpreter may map in addition to that of the engine."""

_MAX_PROBLEM_LENGTH: Final = 2000


def _script(name: str) -> str:
    """The text of a script without comments and indentation, which every engine would read again."""
    return re.sub(r"(?m)^\s*//.*\n|^\s+", "", Path(__file__).with_name(name).read_text())


_PRELUDE: Final = _script("prelude.js")
_CONSOLE: Final = _script("console.js")
_HELPERS: Final = _script("helpers.js")
_CONNECT: Final = _script("connect.js")
_NOT_CONNECTED: Final = 'globalThis.ask_ = () => \'{"error": "requests are only sent when the lambda is called"}\';'
"""The answer to requests of a source that is only checked."""

_QUESTION_OVERHEAD_BYTES: Final = 65_536
_TOO_LARGE: Final = json.dumps({"error": "the request is too large"})


class _Engine:
    """An engine for one invocation."""

    def __init__(self, limits: dict[str, Any], ask: Callable[[str], str]) -> None:
        """`ask` sends a question of the lambda to the service, and returns the answer; both are JSON."""
        self._limits = limits
        self._ask = ask
        self._context = quickjs.Context()
        self._context.set_max_stack_size(limits["stack_limit_bytes"])
        self._context.set_memory_limit(limits["memory_limit_bytes"])
        self._host = self._context.eval(_PRELUDE)
        self._read_console: Callable[[], str] | None = None

    def execute(self, request: dict[str, Any]) -> dict[str, Any]:
        """The response to a request."""
        result = self._invoke(request)
        return result | {"printed": self._printed()}

    def _invoke(self, request: dict[str, Any]) -> dict[str, Any]:
        name, given = request["function"], request.get("arguments")
        source = f"{request['source']}\n;typeof {name} === 'function' ? {name} : undefined"
        if "console" in source:
            limit = str(self._limits["output_limit_bytes"])
            self._read_console = self._context.eval(_CONSOLE.replace("OUTPUT_LIMIT_BYTES", limit))
        if "FusionAuth" in source:
            self._context.eval(_HELPERS)
        services = [self._connect(is_check=given is None)] if request["is_connected"] else []
        if given is None or not services:
            self._context.set_time_limit(self._limits["time_limit_ms"] / 1000)
        try:
            outcome = self._host(source) if given is None else self._host(source, given, request["context"], *services)
        except (quickjs.JSException, MemoryError, ValueError) as error:
            return _problem(str(error), request["source"])
        if outcome == "?":
            return {"problem": f"there is no function named {name}"}
        if outcome.startswith("!"):
            return _problem(outcome[1:], request["source"])
        if len(outcome) > self._limits["output_limit_bytes"]:
            return {"problem": f"more than {self._limits['output_limit_bytes']} bytes came back"}
        return {} if given is None else {"result": outcome[1:]}

    def _connect(self, *, is_check: bool) -> Any:
        """Define `fetch`; returns the services of the context."""
        if is_check:
            self._context.eval(_NOT_CONNECTED)
        else:
            self._context.add_callable("ask_", self._ask)
        return self._context.eval(_CONNECT)

    def _printed(self) -> list[tuple[str, str]]:
        """The printed lines, each after the first letter of its type."""
        if self._read_console is None:
            return []
        # Without the limits: the invocation may have exhausted memory or time.
        self._context.set_memory_limit(-1)
        self._context.set_time_limit(-1)
        try:
            printed = str(self._read_console())
        except (quickjs.JSException, ValueError):
            return []
        lines = printed[: self._limits["output_limit_bytes"]].split("\x1e")
        return [(line[0], line[1:]) for line in lines if line]


def _problem(text: str, source: str) -> dict[str, Any]:
    # The engine throws null if there is no memory for an error.
    text = "out of memory (or null was thrown)" if text.strip() == "null" else _PRELUDE_FRAME.sub("", text).strip()
    problem = {"problem": text[:_MAX_PROBLEM_LENGTH]}
    line = _LINE.search(text)
    # A missing token at the end of the source is reported in the line after it.
    return problem if line is None else {**problem, "line": min(int(line[1]), source.count("\n") + 1)}


def serve(source: BinaryIO, sink: BinaryIO, limits: dict[str, Any]) -> None:
    """Execute requests until the input ends."""
    seconds = limits["time_limit_ms"] / 1000

    def ask(question: str) -> str:
        if len(question) > 2 * limits["fetch_limit_bytes"] + _QUESTION_OVERHEAD_BYTES:
            return _TOO_LARGE
        _write(sink, {"question": question})
        answer = _read(source)
        if answer is None:
            os._exit(0)
        return answer.decode()

    while True:
        # Created before the request arrives: this takes a third of the time of a short lambda.
        engine = _Engine(limits, ask)
        received = _read(source)
        if received is None:
            return
        request = json.loads(received)
        signal.setitimer(signal.ITIMER_PROF, _GRACE_SECONDS + (seconds if request["is_connected"] else 2 * seconds))
        response = engine.execute(request)
        del engine
        signal.setitimer(signal.ITIMER_PROF, 0)
        _write(sink, response)


def _read(source: BinaryIO) -> bytes | None:
    """The next message; None at the end of the input."""
    header = source.read(_LENGTH.size)
    return source.read(_LENGTH.unpack(header)[0]) if len(header) == _LENGTH.size else None


def _write(sink: BinaryIO, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode()
    sink.write(_LENGTH.pack(len(data)) + data)
    sink.flush()


def confine(memory_limit_bytes: int) -> None:
    """Set resource limits of the process: no files, no core dumps, and bounded memory.

    They are a second line of defence behind the limits of the engine, and are skipped if the system forbids them.
    """
    address_space = memory_limit_bytes + _INTERPRETER_BYTES
    for kind, limit in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 3),
        (resource.RLIMIT_AS, address_space),
    ):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (limit, limit))


def main(limits: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    """Run the process of the sandbox."""
    confine(limits["memory_limit_bytes"])
    serve(source, sink, limits)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer)
