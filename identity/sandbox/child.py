"""What runs in a process of the sandbox: one invocation of JavaScript after the other, each in a fresh engine.

This file is run by its path, by an interpreter that has nothing of the service: no environment, no connection, no
file; requests come in through standard input and answers go out through standard output. A request is a length (four
bytes) and a JSON object: `source`, `function`, and `arguments`, a JSON text, unless the source is only to be checked.
An answer holds `result` (a JSON text) or `problem`, the `line` of that where it is known, and what was `printed`.

The engine's own clock is not looked at inside of its library: joining an array of four thousand million empty places
holds it for minutes. So the kernel keeps a second clock, and ends the process.
"""

from __future__ import annotations

import contextlib
import json
import re
import resource
import signal
import struct
import sys
from typing import Any, BinaryIO, Final

import quickjs

_LENGTH: Final = struct.Struct(">I")
_LINE: Final = re.compile(r"<input>:(\d+)")
_OURS: Final = re.compile(r"\n *at (?:(?:eval|apply|join) \(native\)|\w+_ \(<input>.*)")
"""Lines of a stack that are the prelude's."""

_GRACE_SECONDS: Final = 0.1
"""How much longer than the engine's own limit an invocation may take before the kernel ends the process."""

_SPARE_BYTES: Final = 512 * 2**20
"""The memory that the interpreter may map in addition to that of the engine."""

_LONGEST_PROBLEM: Final = 2000

# Runs first in every engine, and then everything else within it: what it asks of an error, a lambda may have written,
# and only what runs inside of an evaluation has a limit of time. It keeps the built-in functions that it needs, so that
# nothing a lambda does to them afterwards changes how arguments come in and go out.
_PRELUDE: Final = """
(function () {
  "use strict";
  const {parse, stringify} = JSON, {apply} = Reflect, {join} = Array.prototype, {toWellFormed} = String.prototype;
  const evaluate = eval, text = String, room = %d;
  let printed = "";
  function whole_(...pieces) {
    return apply(toWellFormed, apply(join, pieces, [""]), []);
  }
  function shown_(value) {
    if (typeof value === "string") return value;
    try {
      const json = stringify(value);
      return json === undefined ? text(value) : json;
    } catch (error) {
      return "(a value that cannot be shown)";
    }
  }
  function print_() {
    if (printed.length > room) return;
    let line = "";
    for (let i = 0; i < arguments.length; i++) line += (i ? " " : "") + shown_(arguments[i]);
    printed += line + "\\n";
  }
  function told_(error) {
    const stack = error !== null && typeof error === "object" ? error.stack : undefined;
    return text(error) + (typeof stack === "string" ? "\\n" + stack : "");
  }
  globalThis.console = {debug: print_, error: print_, info: print_, log: print_, warn: print_};
  return function sandbox_(source, json) {
    if (source === undefined) return whole_(printed);
    try {
      const lambda = evaluate(source);
      if (typeof lambda !== "function") return "?";
      if (json === undefined) return "=";
      const given = parse(json);
      apply(lambda, undefined, given);
      return whole_("=", stringify(given));
    } catch (error) {
      return whole_("!", told_(error));
    }
  };
})()
"""


class _Engine:
    """One engine, for one invocation."""

    def __init__(self, limits: dict[str, Any]) -> None:
        self._limits = limits
        self._context = quickjs.Context()
        self._context.set_max_stack_size(limits["stack_limit_bytes"])
        self._context.set_memory_limit(limits["memory_limit_bytes"])
        self._host = self._context.eval(_PRELUDE % limits["output_limit_bytes"])

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request."""
        answer = self._outcome(request)
        return answer | {"printed": self._printed()}

    def _outcome(self, request: dict[str, Any]) -> dict[str, Any]:
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
        # Where memory or time ran out, this still needs a little of both.
        self._context.set_memory_limit(-1)
        self._context.set_time_limit(-1)
        try:
            printed = str(self._host())
        except (quickjs.JSException, ValueError):
            return ""
        return printed[: self._limits["output_limit_bytes"]]


def _problem(text: str, source: str) -> dict[str, Any]:
    # Without the memory for an error the engine throws null.
    text = "out of memory (or null was thrown)" if text.strip() == "null" else _OURS.sub("", text).strip()
    problem = {"problem": text[:_LONGEST_PROBLEM]}
    line = _LINE.search(text)
    # What is missing at the end is found missing in the line after it.
    return problem if line is None else {**problem, "line": min(int(line[1]), source.count("\n") + 1)}


def serve(source: BinaryIO, sink: BinaryIO, limits: dict[str, Any]) -> None:
    """Answer requests until there are no more."""
    seconds = 2 * limits["time_limit_ms"] / 1000 + _GRACE_SECONDS
    while True:
        # Made before it is needed: that is a third of the time that a short lambda takes.
        engine = _Engine(limits)
        header = source.read(_LENGTH.size)
        if len(header) < _LENGTH.size:
            return
        request = json.loads(source.read(_LENGTH.unpack(header)[0]))
        signal.setitimer(signal.ITIMER_PROF, seconds)
        answer = json.dumps(engine.answer(request)).encode()
        del engine
        signal.setitimer(signal.ITIMER_PROF, 0)
        sink.write(_LENGTH.pack(len(answer)) + answer)
        sink.flush()


def confine(memory_limit_bytes: int) -> None:
    """Give up what JavaScript never needs: files, core dumps, and memory beyond its limit.

    These stand behind the limits of the engine. Where the system lets nobody set any, the engine's have to do.
    """
    address_space = memory_limit_bytes + _SPARE_BYTES
    for kind, limit in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 3),
        (resource.RLIMIT_AS, address_space),
    ):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (limit, limit))


def main(limits: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    """Be a process of the sandbox."""
    confine(limits["memory_limit_bytes"])
    serve(source, sink, limits)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer)
