"""The sandbox: available JavaScript, limits, and isolation."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from identity.config.sections import AllowedNetworks, Lambdas
from identity.errors import Unavailable
from identity.sandbox import pool
from identity.sandbox.pool import InvocationResult, Sandbox
from tests.receiver import until

LIMITS = Lambdas(
    time_limit_ms=200,
    memory_limit_bytes=16 * 2**20,
    stack_limit_bytes=256 * 2**10,
    output_limit_bytes=20_000,
    processes=2,
    max_waiting=100,
    fetch_processes=2,
    fetch_requests=3,
    fetch_timeout_ms=2000,
    fetch_total_ms=2000,
    fetch_limit_bytes=1000,
    allowed_networks=AllowedNetworks((), "lambdas.allowed_networks"),
)


def limits(**members: int) -> Lambdas:
    values = {name: getattr(LIMITS, name) for name in Lambdas.__slots__}
    return Lambdas(**{**values, **members})


@pytest.fixture(scope="module")
async def sandbox():
    running = Sandbox(LIMITS)
    yield running
    await running.close()


async def call(
    sandbox: Sandbox, statements: str, *arguments: Any, answer: pool.Answer | None = None
) -> InvocationResult:
    """Run these statements as `f`, whose first argument is `it`."""
    given = json.dumps(arguments or ({"a": 1},)).encode()
    return await run(sandbox, f"function f(it, other) {{ {statements} }}", given, answer)


async def run(sandbox: Sandbox, source: str, arguments: bytes, answer: pool.Answer | None = None) -> InvocationResult:
    """Run the function `f` of a source."""
    return await sandbox.call(source, "f", arguments, b"{}", answer or unexpected_question)


async def unexpected_question(question: str) -> bytes:
    raise AssertionError(question)


def printed(outcome: InvocationResult) -> list[str]:
    """The lines of the console output."""
    return [line for _, line in outcome.printed]


def value_of(outcome: InvocationResult) -> Any:
    """The first argument after the call."""
    assert outcome.problem is None, outcome.problem
    assert outcome.result is not None
    return json.loads(outcome.result)[0]


async def test_arguments_go_in_and_come_back_changed(sandbox):
    outcome = await call(sandbox, "it.b = it.a + 1; other.push('ü')", {"a": 1}, ["x"])
    assert json.loads(outcome.result) == [{"a": 1, "b": 2}, ["x", "ü"]]
    assert (outcome.problem, outcome.line, outcome.printed) == (None, None, [])


@pytest.mark.parametrize(
    "source",
    [
        "function f(it) { it.done = 1 }",
        "const f = it => { it.done = 1 }",
        "let f = function (it) { it.done = 1 } // no line after this",
        "var g = (it) => { it.done = 1 }; var f = g.bind(null)",
        "class Deed { static run(it) { it.done = [1].at(-1) ?? 2 } } function f(it) { Deed.run(it) }",
    ],
)
async def test_modern_javascript_defines_the_function_in_any_way(sandbox, source):
    assert value_of(await run(sandbox, source, b"[{}]")) == {"done": 1}
    assert await sandbox.check(source, "f") == InvocationResult(printed=[])


async def test_console_output_is_returned_line_by_line(sandbox):
    outcome = await call(
        sandbox,
        "console.log('one', 2, {a: [null]}); console.info(undefined); console.warn(() => 1);"
        "console.error(Symbol('s')); const round = {}; round.round = round; console.debug(round);"
        "console.log('\\ud800')",
    )
    assert printed(outcome) == [
        'one 2 {"a":[null]}',
        "undefined",
        "() => 1",
        "Symbol(s)",
        "(a value that cannot be shown)",
        "\ufffd",
    ]


async def test_console_survives_a_failure(sandbox):
    outcome = await call(sandbox, "console.log('before'); null.x")
    assert printed(outcome) == ["before"]
    assert outcome.problem == "TypeError: cannot read property 'x' of null\n    at f (<input>:1:47)"


@pytest.mark.parametrize(
    ("source", "problem", "line"),
    [
        ("function f(it) {\n  it.a =\n}", "SyntaxError", 3),
        ("function f(it) {", "SyntaxError", 1),
        ("\n\n(", "SyntaxError", 3),
        ("`${", "SyntaxError", 1),
        ("/* for ever", "SyntaxError", 1),
        ("import x from 'y'", "SyntaxError", 1),
        ("\n throw new Error('at once')", "Error: at once", 2),
        ("throw 'a text'", "a text", None),
        ("throw null", "out of memory (or null was thrown)", None),
        ("function g() {}", "there is no function named f", None),
        ("var f = 5", "there is no function named f", None),
        ("", "there is no function named f", None),
        ("for (;;);", "InternalError: interrupted", 1),
        ("}) (", "SyntaxError", 1),
    ],
)
async def test_source_that_cannot_be_used_is_named_with_its_line(sandbox, source, problem, line):
    outcome = await sandbox.check(source, "f")
    assert outcome.problem is not None
    assert outcome.problem.startswith(problem)
    assert outcome.line == line


@pytest.mark.requirement("core-18-lambdas-23")
@pytest.mark.parametrize(
    "statements",
    [
        "for (;;);",
        "for (;;) { try { for (;;); } catch (error) {} finally { continue; } }",
        "while (true) { try { throw 1 } catch (error) {} }",
        "/^(a+)+$/.test('a'.repeat(40) + 'b')",
        "/(x+x+)+y/.test('x'.repeat(50))",
        "Array.prototype.indexOf.call({length: 2 ** 53 - 1}, 1)",
        "throw {toString() { for (;;); }}",
        "const e = new Error(); Object.defineProperty(e, 'stack', {get() { for (;;); }}); throw e",
        "it.toJSON = () => { for (;;); }",
        "Object.defineProperty(it, 'x', {enumerable: true, get() { for (;;); }})",
        "console.log({toJSON() { for (;;); }})",
        "function g() { try { g() } finally { g() } } g()",
        "for (;;) console.log('x'.repeat(100))",
    ],
)
async def test_attack_endless_work_is_stopped(sandbox, statements):
    outcome = await call(sandbox, statements)
    assert outcome.result is None
    assert "interrupted" in outcome.problem or "processor time" in outcome.problem
    assert value_of(await call(sandbox, "it.b = 2")) == {"a": 1, "b": 2}


@pytest.mark.requirement("core-18-lambdas-23")
@pytest.mark.parametrize(
    "statements",
    [
        "new Array(4e9).join('')",
        "Array.prototype.join.call({length: 2 ** 53 - 1}, '')",
        "InternalError.prototype.toString = Error.prototype.toString = () => { for (;;); }; for (;;);",
    ],
)
async def test_attack_work_that_the_engine_cannot_stop_ends_its_process(sandbox, statements):
    """These statements would block a thread for minutes or forever, which is why processes are used."""
    outcome = await call(sandbox, statements)
    assert outcome.result is None
    assert "interrupted" in outcome.problem or outcome.problem == "it took more than 200 ms of processor time"
    assert value_of(await call(sandbox, "it.b = 2")) == {"a": 1, "b": 2}


@pytest.mark.requirement("core-18-lambdas-24")
@pytest.mark.parametrize(
    "statements",
    [
        "function g() { return g() + 1 } g()",
        "const o = {toString() { return '' + o }}; '' + o",
        "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; JSON.stringify(a)",
        "JSON.parse('['.repeat(1e5))",
        "eval('('.repeat(1e5))",
        "let a = []; for (let i = 0; i < 5000; i++) a = [a]; it.a = a",
        "function* g() { yield* g() } [...g()]",
    ],
)
async def test_attack_deep_recursion_is_stopped(sandbox, statements):
    outcome = await call(sandbox, statements)
    assert outcome.result is None
    assert "Maximum call stack size exceeded" in outcome.problem


@pytest.mark.requirement("core-18-lambdas-24")
@pytest.mark.parametrize(
    "statements",
    [
        "const a = []; for (;;) a.push(new Array(1000).fill(1))",
        "const o = {}; for (let i = 0; ; i++) o[i] = 'x'.repeat(1000) + i",
        "'x'.repeat(1e9)",
        "new Uint8Array(1e9)",
        "let s = 'x'; for (;;) s = s + s",
        "Array.prototype.fill.call({length: 2 ** 53 - 1}, 1)",
        "let b = 2n ** 1000000n; for (;;) b = b * b",
        "new Array(1e6).fill('x').join('y'.repeat(1000))",
        "let p = () => 1; for (;;) p = p.bind(null)",
    ],
)
async def test_attack_memory_is_limited(sandbox, statements):
    outcome = await call(sandbox, statements)
    assert outcome.result is None
    assert any(word in outcome.problem for word in ("out of memory", "too l", "invalid array buffer length")), outcome
    assert value_of(await call(sandbox, "it.b = 2")) == {"a": 1, "b": 2}


@pytest.mark.requirement("core-18-lambdas-24")
async def test_attack_huge_output_is_refused_and_what_is_printed_is_cut(sandbox):
    outcome = await call(sandbox, "it.x = 'x'.repeat(20000)")
    assert outcome == InvocationResult(problem="more than 20000 bytes came back", printed=[])
    assert value_of(await call(sandbox, "it.x = 'x'.repeat(19000)"))["x"] == "x" * 19_000
    outcome = await call(sandbox, "for (let i = 0; i < 2000; i++) console.log('x'.repeat(100))")
    assert value_of(outcome) == {"a": 1}
    assert sum(len(letter + line) for letter, line in outcome.printed) + len(outcome.printed) == 20_001


@pytest.mark.requirement("core-18-lambdas-26")
async def test_values_that_are_no_json_do_not_come_back(sandbox):
    outcome = await call(
        sandbox,
        "it.function = () => 1; it.nan = NaN; it.infinity = -Infinity; it.nothing = undefined; it.symbol = Symbol('s');"
        "it.date = new Date(0); it.map = new Map([[1, 2]]); it.list = [undefined, () => 1]",
    )
    assert value_of(outcome) == {
        "a": 1, "nan": None, "infinity": None, "date": "1970-01-01T00:00:00.000Z", "map": {}, "list": [None, None],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("statements", "problem"),
    [
        ("it.it = it", "circular reference"),
        ("it.big = 1n", "BigInt"),
        ("Object.defineProperty(it, 'x', {enumerable: true, get() { throw new Error('got') }})", "Error: got"),
        ("it.toJSON = () => { throw new Error('no') }", "Error: no"),
    ],
)
async def test_unserializable_result_is_a_failure(sandbox, statements, problem):
    outcome = await call(sandbox, statements)
    assert outcome.result is None
    assert problem in outcome.problem


@pytest.mark.requirement("core-18-lambdas-26")
async def test_attack_changed_built_ins_do_not_affect_the_prelude(sandbox):
    source = (
        "JSON.stringify = () => '[{\"forged\":1}]'; JSON.parse = null; Reflect.apply = null; console = null;"
        "Array.prototype.join = () => '=[5]'; String.prototype.toWellFormed = null;"
        "Object.prototype.polluted = 1; Array.prototype[0] = 'x'; String = eval = null; function f(it) { it.b = 2 }"
    )
    assert value_of(await run(sandbox, source, b'[{"a":1}]')) == {"a": 1, "b": 2}
    assert value_of(await call(sandbox, "it.seen = [typeof JSON.parse, typeof console, 'polluted' in {}]"))["seen"] == [
        "function", "object", False,
    ]  # fmt: skip


@pytest.mark.requirement("core-18-lambdas-25")
async def test_invocations_share_no_state(sandbox):
    for _ in range(2 * LIMITS.processes + 1):
        outcome = await call(
            sandbox,
            "it.before = globalThis.secret ?? null; globalThis.secret = 'of a tenant'; Object.prototype.leak = 1;"
            "it.leak = 'leak' in [].constructor",
        )
        assert value_of(outcome)["before"] is None


@pytest.mark.requirement("core-18-lambdas-25")
@pytest.mark.parametrize(
    "name",
    ["require", "process", "std", "os", "XMLHttpRequest", "setTimeout", "Java", "Deno", "load", "print"],
)
async def test_sandbox_has_no_host_apis(sandbox, name):
    assert value_of(await call(sandbox, f"it.type = typeof {name}"))["type"] == "undefined"


async def test_fetch_is_only_defined_for_lambdas_that_mention_it(sandbox):
    assert value_of(await call(sandbox, "it.type = typeof globalThis['fet' + 'ch']"))["type"] == "undefined"
    assert value_of(await call(sandbox, "it.type = typeof fetch"))["type"] == "function"


async def test_64_invocations_each_get_the_answers_to_their_own_questions(sandbox):
    async def echo(question: str) -> bytes:
        await asyncio.sleep(0)
        return json.dumps({"status": 200, "headers": {}, "body": json.loads(question)["fetch"]["url"]}).encode()

    statements = "it.seen = [1, 2].map(i => fetch(it.n + '-' + i).body)"
    outcomes = await asyncio.gather(*(call(sandbox, statements, {"n": n}, answer=echo) for n in range(64)))
    assert [value_of(outcome)["seen"] for outcome in outcomes] == [[f"{n}-1", f"{n}-2"] for n in range(64)]


async def test_lambdas_that_wait_for_a_response_do_not_hold_up_others(sandbox):
    answered = asyncio.Event()

    async def slow(_question: str) -> bytes:
        await answered.wait()
        return b'{"error": "late"}'

    waiting = [asyncio.ensure_future(call(sandbox, "fetch('a')", answer=slow)) for _ in range(5)]
    await until(lambda: len(sandbox._connected_pool._busy) == LIMITS.fetch_processes)
    assert value_of(await call(sandbox, "it.b = 2")) == {"a": 1, "b": 2}
    answered.set()
    assert {(await running).problem.partition("\n")[0] for running in waiting} == {"Error: late"}


async def test_attack_endless_work_between_requests_ends_the_process(sandbox):
    outcome = await call(sandbox, "for (;;); fetch('a')")
    assert outcome.problem == "it took more than 200 ms of processor time"
    assert value_of(await call(sandbox, "it.b = 2 // fetch\n")) == {"a": 1, "b": 2}


async def test_question_that_cannot_be_answered_does_not_leave_its_process_to_others(sandbox):
    async def fail(_question: str) -> bytes:
        raise ConnectionAbortedError

    with contextlib.suppress(ConnectionAbortedError):
        await call(sandbox, "fetch('a')", answer=fail)
    assert value_of(await call(sandbox, "it.b = 2 // fetch\n")) == {"a": 1, "b": 2}


async def test_modules_cannot_be_imported_and_promises_do_not_run_on(sandbox):
    outcome = await call(
        sandbox, "import('os').then(() => { it.b = 1 }, () => { it.c = 1 }); queueMicrotask(() => { it.d = 1 })"
    )
    assert value_of(outcome) == {"a": 1}


@pytest.mark.requirement("core-18-lambdas-25")
async def test_child_has_no_environment_and_no_open_files(sandbox):
    await call(sandbox, "")
    (child,) = sandbox._pool._free[-1:]
    pid = child._process.pid
    about = Path(f"/proc/{pid}")
    assert not (about / "environ").read_bytes().replace(b"\0", b"").replace(b"LC_CTYPE=C.UTF-8", b"")
    fields = {line[:26].strip(): line[26:].split()[:2] for line in (about / "limits").read_text().splitlines()}
    assert fields["Max open files"] == ["3", "3"]
    assert fields["Max file size"] == ["0", "0"]
    assert fields["Max core file size"] == ["0", "0"]
    assert int(fields["Max address space"][1]) < 2**30
    assert sorted(entry.name for entry in (about / "fd").iterdir()) == ["0", "1", "2"]


@pytest.mark.requirement("core-18-lambdas-27")
async def test_64_invocations_at_once_each_get_their_own_answer(sandbox):
    outcomes = await asyncio.gather(*(call(sandbox, "it.twice = 2 * it.n", {"n": n}) for n in range(64)))
    assert [value_of(outcome) for outcome in outcomes] == [{"n": n, "twice": 2 * n} for n in range(64)]
    assert len(sandbox._pool._free) <= LIMITS.processes


@pytest.mark.requirement("core-18-lambdas-27")
async def test_event_loop_is_not_blocked_by_a_slow_lambda(sandbox):
    """Verified by order and not by time: thousands of loop iterations run meanwhile."""
    ended: list[str] = []

    async def endless() -> None:
        await call(sandbox, "for (;;);")
        ended.append("lambda")

    async def turns() -> None:
        for _ in range(2000):
            await asyncio.sleep(0)
        ended.append("turns")

    await asyncio.gather(endless(), turns())
    assert ended == ["turns", "lambda"]


@pytest.mark.requirement("core-18-lambdas-27")
async def test_full_queue_is_rejected():
    sandbox = Sandbox(limits(processes=1, max_waiting=1))
    try:
        running = [asyncio.ensure_future(call(sandbox, "it.b = 1")) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable):
            await call(sandbox, "")
        assert [value_of(await one)["b"] for one in running] == [1, 1]
        assert value_of(await call(sandbox, "it.c = 1"))["c"] == 1
    finally:
        await sandbox.close()


async def test_long_queueing_is_rejected(monkeypatch):
    monkeypatch.setattr(pool, "_QUEUE_SECONDS", 0.01)
    sandbox = Sandbox(limits(processes=1, time_limit_ms=60_000))
    running = asyncio.ensure_future(call(sandbox, "for (;;);"))
    while not sandbox._pool._busy:
        await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        await call(sandbox, "")
    await sandbox.close()
    assert (await running).problem == "the engine was ended"
    assert value_of(await call(sandbox, "it.b = 2")) == {"a": 1, "b": 2}
    await sandbox.close()


async def test_unavailable_when_no_process_can_be_started(monkeypatch):
    async def refuse(*given: Any, **named: Any) -> Any:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    sandbox = Sandbox(limits(processes=1))
    with pytest.raises(Unavailable):
        await call(sandbox, "")
    monkeypatch.undo()
    assert value_of(await call(sandbox, "it.b = 2")) == {"a": 1, "b": 2}
    await sandbox.close()


async def test_a_process_that_was_killed_is_replaced():
    sandbox = Sandbox(limits(processes=1))
    try:
        await call(sandbox, "")
        os.kill(sandbox._pool._free[0]._process.pid, signal.SIGKILL)
        await sandbox._pool._free[0]._process.wait()
        assert value_of(await call(sandbox, "it.b = 2")) == {"a": 1, "b": 2}
    finally:
        await sandbox.close()


async def test_a_process_that_dies_at_work_fails_one_invocation():
    sandbox = Sandbox(limits(processes=1, time_limit_ms=60_000))
    try:
        await call(sandbox, "")
        pid = sandbox._pool._free[0]._process.pid
        running = asyncio.ensure_future(call(sandbox, "for (;;);"))
        while not sandbox._pool._busy:
            await asyncio.sleep(0)
        os.kill(pid, signal.SIGKILL)
        assert await running == InvocationResult(problem="the engine was ended")
        assert value_of(await call(sandbox, "it.b = 2")) == {"a": 1, "b": 2}
    finally:
        await sandbox.close()


async def test_suspended_process_is_killed():
    sandbox = Sandbox(limits(processes=1, time_limit_ms=100))
    try:
        await call(sandbox, "")
        os.kill(sandbox._pool._free[0]._process.pid, signal.SIGSTOP)
        assert await call(sandbox, "it.b = 2") == InvocationResult(problem="the engine was ended")
    finally:
        await sandbox.close()


async def test_cancelled_call_kills_its_process():
    """Its late response must not be read as the response to another caller."""
    sandbox = Sandbox(limits(processes=1))
    try:
        running = asyncio.ensure_future(call(sandbox, "it.mine = 1"))
        while not sandbox._pool._busy:
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert value_of(await call(sandbox, "it.yours = 1")) == {"a": 1, "yours": 1}
    finally:
        await sandbox.close()


async def test_closing_ends_every_process():
    sandbox = Sandbox(limits(processes=2, time_limit_ms=60_000))
    await asyncio.gather(call(sandbox, ""), call(sandbox, ""))
    processes = [child._process for child in sandbox._pool._free]
    running = asyncio.ensure_future(call(sandbox, "for (;;);"))
    while not sandbox._pool._busy:
        await asyncio.sleep(0)
    await sandbox.close()
    assert (await running).problem == "the engine was ended"
    assert [await process.wait() for process in processes].count(0) == len(processes) - 1


async def test_process_that_does_not_exit_is_killed():
    sandbox = Sandbox(limits(processes=1))
    await call(sandbox, "")
    process = sandbox._pool._free[0]._process
    os.kill(process.pid, signal.SIGSTOP)
    await sandbox.close()
    assert process.returncode == -signal.SIGKILL
