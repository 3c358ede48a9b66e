"""The sandbox process: executes JavaScript invocations one after the other, each in a new engine.

The service runs this file by its path in an isolated interpreter without environment, connections and open files.
Requests arrive on standard input, responses leave on standard output. A request is its length (four bytes) and a JSON
object: `source`, `function`, and `arguments`, a JSON text that is absent if the source is only checked. A response has
`result` (a JSON text) or `problem` with its `line`, if known, and what was `printed`.

Long-running library functions of the engine ignore its time limit: joining an array of four billion empty items takes
minutes. Therefore a timer of the kernel ends the process.
"""

from __future__ import annotations

import contextlib
import json
import re
import resource
import signal
import struct
import sys
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
_PRELUDE: Final = Path(__file__).with_name("prelude.js").read_text()


class _Engine:
    """An engine for one invocation."""

    def __init__(self, limits: dict[str, Any]) -> None:
        self._limits = limits
        self._context = quickjs.Context()
        self._context.set_max_stack_size(limits["stack_limit_bytes"])
        self._context.set_memory_limit(limits["memory_limit_bytes"])
        self._host = self._context.eval(_PRELUDE.replace("OUTPUT_LIMIT_BYTES", str(limits["output_limit_bytes"])))

    def execute(self, request: dict[str, Any]) -> dict[str, Any]:
        """The response to a request."""
        result = self._invoke(request)
        return result | {"printed": self._printed()}

    def _invoke(self, request: dict[str, Any]) -> dict[str, Any]:
        name, given = request["function"], request.get("arguments")
        source = f"{request['source']}\n;typeof {name} === 'function' ? {name} : undefined"
        self._context.set_time_limit(self._limits["time_limit_ms"] / 1000)
        try:
            outcome = self._host(source) if given is None else self._host(source, given)
        except (quickjs.JSException, MemoryError, ValueError) as error:
            return _problem(str(error), request["source"])
        if outcome == "?":
            return {"problem": f"there is no function named {name}"}
        if outcome.startswith("!"):
            return _problem(outcome[1:], request["source"])
        if len(outcome) > self._limits["output_limit_bytes"]:
            return {"problem": f"more than {self._limits['output_limit_bytes']} bytes came back"}
        return {} if given is None else {"result": outcome[1:]}

    def _printed(self) -> str:
        # Without the limits: the invocation may have exhausted memory or time.
        self._context.set_memory_limit(-1)
        self._context.set_time_limit(-1)
        try:
            printed = str(self._host())
        except (quickjs.JSException, ValueError):
            return ""
        return printed[: self._limits["output_limit_bytes"]]


def _problem(text: str, source: str) -> dict[str, Any]:
    # The engine throws null if there is no memory for an error.
    text = "out of memory (or null was thrown)" if text.strip() == "null" else _PRELUDE_FRAME.sub("", text).strip()
    problem = {"problem": text[:_MAX_PROBLEM_LENGTH]}
    line = _LINE.search(text)
    # A missing token at the end of the source is reported in the line after it.
    return problem if line is None else {**problem, "line": min(int(line[1]), source.count("\n") + 1)}


def serve(source: BinaryIO, sink: BinaryIO, limits: dict[str, Any]) -> None:
    """Execute requests until the input ends."""
    seconds = 2 * limits["time_limit_ms"] / 1000 + _GRACE_SECONDS
    while True:
        # Created before the request arrives: this takes a third of the time of a short lambda.
        engine = _Engine(limits)
        header = source.read(_LENGTH.size)
        if len(header) < _LENGTH.size:
            return
        request = json.loads(source.read(_LENGTH.unpack(header)[0]))
        signal.setitimer(signal.ITIMER_PROF, seconds)
        response = json.dumps(engine.execute(request)).encode()
        del engine
        signal.setitimer(signal.ITIMER_PROF, 0)
        sink.write(_LENGTH.pack(len(response)) + response)
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
