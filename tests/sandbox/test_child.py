"""The sandbox process, run within this process: requests, responses and resource limits."""

from __future__ import annotations

import base64
import io
import json
import resource
import signal
import struct
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from identity.sandbox import child

LIMITS = {
    "time_limit_ms": 2000,
    "memory_limit_bytes": 16 * 2**20,
    "stack_limit_bytes": 256 * 2**10,
    "output_limit_bytes": 1000,
    "fetch_limit_bytes": 1000,
}

DEFAULTS = {"function": "f", "context": "{}", "is_connected": False}
CONNECTED = {**DEFAULTS, "is_connected": True, "arguments": "[{}]"}


@pytest.fixture(autouse=True)
def _no_clock_is_left_running() -> Iterator[None]:
    """The timer would end the test process."""
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)


def frame(message: dict[str, Any]) -> bytes:
    body = json.dumps(message).encode()
    return struct.pack(">I", len(body)) + body


def served(*requests: dict[str, Any]) -> list[dict[str, Any]]:
    """The responses to these requests, in one run of the process."""
    return exchanged(*({**DEFAULTS, **request} for request in requests))


def exchanged(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    """What the process sends when it receives these messages."""
    sink = io.BytesIO()
    child.serve(io.BytesIO(b"".join(map(frame, messages))), sink, LIMITS)
    raw, answers = sink.getvalue(), []
    while raw:
        length = struct.unpack(">I", raw[:4])[0]
        answers.append(json.loads(raw[4 : 4 + length]))
        raw = raw[4 + length :]
    return answers


def unexpected_question(question: str) -> str:
    raise AssertionError(question)


def test_each_request_has_its_own_engine():
    source = "var seen = typeof seen === 'undefined' ? 0 : 1; function f(it) { it.seen = seen; console.log('hi') }"
    request = {"source": source, "function": "f", "arguments": "[{}]"}
    assert served(request, request) == 2 * [{"result": '[{"seen":0}]', "printed": [["I", "hi"]]}]


def test_check_evaluates_the_source_without_calling_the_function():
    source = "console.log('top'); function f() { console.log('never') }"
    assert served({"source": source, "function": "f"}) == [{"printed": [["I", "top"]]}]
    missing = {"problem": "there is no function named g", "printed": [["I", "top"]]}
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
    # The engine may or may not have memory left for the line of an exhausted memory.
    assert answer.get("line") in ({None, 1} if problem == "out of memory" else {line})


def test_interrupted_invocation_reports_the_problem_and_its_output():
    limits = {**LIMITS, "time_limit_ms": 20}
    engine = child._Engine(limits, unexpected_question)
    answer = engine.execute({**DEFAULTS, "source": "function f() { console.log('x'); for (;;); }", "arguments": "[]"})
    assert answer["problem"].startswith("InternalError: interrupted")
    assert answer["printed"] == [("I", "x")]


def test_broken_engine_is_a_problem():
    engine = child._Engine(LIMITS, unexpected_question)

    def breaks(*given: Any) -> str:
        raise child.quickjs.JSException("broken")

    engine._host = breaks
    assert engine.execute({**DEFAULTS, "source": ""}) == {"problem": "broken", "printed": []}


def test_broken_console_prints_nothing(monkeypatch):
    monkeypatch.setattr(child, "_CONSOLE", "globalThis.console = {log() {}}; () => { throw 'broken' }")
    assert served({"source": "function f() {} console.log('x')"}) == [{"printed": []}]


def test_kernel_timer_runs_only_during_a_request(monkeypatch):
    seen = []
    monkeypatch.setattr(signal, "setitimer", lambda *given: seen.append(given))
    served({"source": "", "function": "f"})
    assert seen == [(signal.ITIMER_PROF, 4.1), (signal.ITIMER_PROF, 0)]


def test_connected_invocation_has_only_the_kernel_timer(monkeypatch):
    seen = []
    monkeypatch.setattr(signal, "setitimer", lambda *given: seen.append(given))
    exchanged({**CONNECTED, "source": "function f() {}"})
    assert seen == [(signal.ITIMER_PROF, 2.1), (signal.ITIMER_PROF, 0)]


def test_fetch_sends_a_question_and_blocks_until_its_answer():
    source = "function f(it) { it.status = fetch('https://a.example', {method: 'PUT', body: 'x'}).status }"
    question, response = exchanged(
        {**CONNECTED, "source": source}, {"status": 201, "headers": {"a-b": "c"}, "body": "{}"}
    )
    request = {"url": "https://a.example", "method": "PUT", "headers": [], "body": "x"}
    assert json.loads(question["question"]) == {"fetch": request}
    assert response == {"result": '[{"status":201}]', "printed": []}


def test_answer_without_a_response_is_an_exception_in_the_line_of_the_request():
    source = "function f(it) {\n try { fetch('a') } catch (e) { it.caught = e.message }\n fetch('b') }"
    *_, response = exchanged({**CONNECTED, "source": source}, {"error": "no way"}, {"error": "no way"})
    assert response["problem"].startswith("Error: no way")
    assert response["line"] == 3
    assert "_ (" not in response["problem"]


@pytest.mark.parametrize(
    "headers",
    [
        "{'X-One': 1, two: 'b'}",
        "new Headers({'X-One': '1', two: 'b'})",
        "new Headers([['X-One', '1'], ['two', 'b']])",
        "[['X-One', '1'], ['two', 'b']]",
        "new Map([['X-One', '1'], ['two', 'b']])",
    ],
)
def test_request_headers_are_given_in_each_published_form(headers):
    source = f"function f() {{ fetch('a', {{headers: {headers}}}) }}"
    question, _ = exchanged({**CONNECTED, "source": source}, {"status": 200, "headers": {}, "body": ""})
    sent = {name.lower(): value for name, value in json.loads(question["question"])["fetch"]["headers"]}
    assert sent == {"x-one": "1", "two": "b"}


def test_response_has_the_published_members_and_those_of_browsers():
    source = (
        "function f(it) { const r = fetch('a'); it.keys = Object.keys(r); it.headers = r.headers; it.body = r.body;"
        " it.read = [r.headers.get('Content-Type'), r.headers.get('x'), r.text(), r.json().b] }"
    )
    answer = {"status": 200, "headers": {"content-type": "application/json"}, "body": '{"b":1}'}
    _, response = exchanged({**CONNECTED, "source": source}, answer)
    (it,) = json.loads(response["result"])
    assert it == {
        "keys": ["status", "headers", "body"],
        "headers": {"content-type": "application/json"},
        "body": '{"b":1}',
        "read": ["application/json", None, '{"b":1}', 1],
    }


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("fetch()", "the first argument of fetch must be a URL"),
        ("fetch({})", "the first argument of fetch must be a URL"),
        ("fetch('a', {body: {}})", "the body of fetch must be a string"),
        ("fetch('a', {body: 'x'.repeat(70000)})", "the request is too large"),
    ],
)
def test_invalid_request_is_not_sent(call, problem):
    (response,) = exchanged({**CONNECTED, "source": f"function f() {{ {call} }}"})
    assert problem in response["problem"]


def test_secrets_are_read_from_the_context():
    source = "function f(it, context) { it.secret = context.services.secrets.get('key') + context.a }"
    question, response = exchanged({**CONNECTED, "source": source, "context": '{"a": 1}'}, {"secret": "value"})
    assert json.loads(question["question"]) == {"secret": "key"}
    assert response["result"] == '[{"secret":"value1"}]', "the context is not part of the result"


def test_check_sends_no_requests():
    source = "var at_once = fetch('a'); function f() {}"
    (response,) = served({"source": source, "is_connected": True})
    assert response["problem"].startswith("Error: requests are only sent when the lambda is called")
    assert served({"source": "function f() { fetch('a') }", "is_connected": True}) == [{"printed": []}]


def test_attack_lambda_cannot_send_questions_of_its_own():
    """Only `fetch` and secrets do: the function that they use is not reachable."""
    source = "function f(it, fetch_) { it.seen = typeof ask_ + typeof globalThis.ask_ } // fetch"
    (response,) = exchanged({**CONNECTED, "source": source})
    assert response["result"] == '[{"seen":"undefinedundefined"}]'


def test_objectguid_of_active_directory_becomes_a_uuid():
    source = "function f(it) { it.id = FusionAuth.ActiveDirectory.b64GuidToString(it.guid) }"
    guid = base64.b64encode(uuid.UUID("00112233-4455-6677-8899-aabbccddeeff").bytes_le).decode()
    (response,) = served({"source": source, "arguments": json.dumps([{"guid": guid}])})
    assert json.loads(response["result"])[0]["id"] == "00112233-4455-6677-8899-aabbccddeeff"
    for invalid in (None, "", "AAAA", guid + "AA", guid[:-2]):
        (response,) = served({"source": source, "arguments": json.dumps([{"guid": invalid}])})
        assert response["problem"].startswith("TypeError: b64GuidToString expects")


def test_console_lines_have_the_type_of_their_method():
    source = (
        "function f() { console.debug(1); console.error(2); console.info(3); console.warn(4); console.log(5, '\\n') }"
    )
    (response,) = served({"source": source, "arguments": "[{}]"})
    assert response["printed"] == [["D", "1"], ["E", "2"], ["I", "3"], ["I", "4"], ["I", "5 \n"]]


def test_system_without_resource_limits_is_supported(monkeypatch):
    def refuse(*given: Any) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    sink = io.BytesIO()
    child.main(LIMITS, io.BytesIO(frame({**DEFAULTS, "source": "var f = () => 1"})), sink)
    assert json.loads(sink.getvalue()[4:]) == {"printed": []}


def test_resource_limits_are_set(monkeypatch):
    given = {}
    monkeypatch.setattr(resource, "setrlimit", lambda kind, bounds: given.update({kind: bounds}))
    sink = io.BytesIO()
    child.main(LIMITS, io.BytesIO(frame({**DEFAULTS, "source": "var f = () => 1"})), sink)
    assert json.loads(sink.getvalue()[4:]) == {"printed": []}
    space = LIMITS["memory_limit_bytes"] + 512 * 2**20
    assert given == {
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_FSIZE: (0, 0),
        resource.RLIMIT_NOFILE: (3, 3),
        resource.RLIMIT_AS: (space, space),
    }
