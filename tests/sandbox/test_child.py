"""The sandbox process, run within this process: requests, responses and resource limits."""

from __future__ import annotations

import io
import json
import resource
import signal
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from identity.sandbox import child

LIMITS = {
    "time_limit_ms": 2000,
    "memory_limit_bytes": 16 * 2**20,
    "stack_limit_bytes": 256 * 2**10,
    "output_limit_bytes": 1000,
}


@pytest.fixture(autouse=True)
def _no_clock_is_left_running() -> Iterator[None]:
    """The timer would end the test process."""
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)


def frame(request: dict[str, Any]) -> bytes:
    body = json.dumps(request).encode()
    return struct.pack(">I", len(body)) + body


def served(*requests: dict[str, Any]) -> list[dict[str, Any]]:
    """The responses to these requests, in one run of the process."""
    sink = io.BytesIO()
    child.serve(io.BytesIO(b"".join(map(frame, requests))), sink, LIMITS)
    raw, answers = sink.getvalue(), []
    while raw:
        length = struct.unpack(">I", raw[:4])[0]
        answers.append(json.loads(raw[4 : 4 + length]))
        raw = raw[4 + length :]
    return answers


def test_each_request_has_its_own_engine():
    source = "var seen = typeof seen === 'undefined' ? 0 : 1; function f(it) { it.seen = seen; console.log('hi') }"
    request = {"source": source, "function": "f", "arguments": "[{}]"}
    assert served(request, request) == 2 * [{"result": '[{"seen":0}]', "printed": "hi\n"}]


def test_check_evaluates_the_source_without_calling_the_function():
    source = "console.log('top'); function f() { console.log('never') }"
    assert served({"source": source, "function": "f"}) == [{"printed": "top\n"}]
    missing = {"problem": "there is no function named g", "printed": "top\n"}
    assert served({"source": source, "function": "g"}) == [missing]


@pytest.mark.parametrize(
    ("source", "problem", "line"),
    [
        ("function f(it) {\n throw new Error('told') }", "Error: told\n    at f (<input>:2:", 2),
        ("function f(it) { it.it = it }", "TypeError: circular reference\n    at stringify (native)", None),
        ("function f(it) { it.x = 'x'.repeat(1000) }", "more than 1000 bytes came back", None),
        ("function f(it) { const a = []; for (;;) a.push(new Array(1000).fill(1)) }", "out of memory", None),
        ("function f(it) { throw null }", "out of memory (or null was thrown)", None),
        ("function f(", "SyntaxError", 1),
    ],
)
def test_problems_contain_no_lines_of_the_prelude(source, problem, line):
    (answer,) = served({"source": source, "function": "f", "arguments": "[{}]"})
    assert problem in answer["problem"]
    assert "_ (" not in answer["problem"]
    assert answer.get("line") in {line, None} if line is None else answer["line"] == line


def test_interrupted_invocation_reports_the_problem_and_its_output():
    limits = {**LIMITS, "time_limit_ms": 20}
    engine = child._Engine(limits)
    answer = engine.execute(
        {"source": "function f() { console.log('x'); for (;;); }", "function": "f", "arguments": "[]"}
    )
    assert answer["problem"].startswith("InternalError: interrupted")
    assert answer["printed"] == "x\n"


def test_broken_console_prints_nothing(monkeypatch):
    engine = child._Engine(LIMITS)

    def breaks(*given: Any) -> str:
        raise child.quickjs.JSException("broken")

    engine._host = breaks
    assert engine.execute({"source": "", "function": "f"}) == {"problem": "broken", "printed": ""}


def test_kernel_timer_runs_only_during_a_request(monkeypatch):
    seen = []
    monkeypatch.setattr(signal, "setitimer", lambda *given: seen.append(given))
    served({"source": "", "function": "f"})
    assert seen == [(signal.ITIMER_PROF, 4.1), (signal.ITIMER_PROF, 0)]


def test_system_without_resource_limits_is_supported(monkeypatch):
    def refuse(*given: Any) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    sink = io.BytesIO()
    child.main(LIMITS, io.BytesIO(frame({"source": "var f = () => 1", "function": "f"})), sink)
    assert json.loads(sink.getvalue()[4:]) == {"printed": ""}


def test_resource_limits_are_set(monkeypatch):
    given = {}
    monkeypatch.setattr(resource, "setrlimit", lambda kind, bounds: given.update({kind: bounds}))
    sink = io.BytesIO()
    child.main(LIMITS, io.BytesIO(frame({"source": "var f = () => 1", "function": "f"})), sink)
    assert json.loads(sink.getvalue()[4:]) == {"printed": ""}
    space = LIMITS["memory_limit_bytes"] + 512 * 2**20
    assert given == {
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_FSIZE: (0, 0),
        resource.RLIMIT_NOFILE: (3, 3),
        resource.RLIMIT_AS: (space, space),
    }
