"""The benchmarks run, and their table is right; the figures themselves are not tested."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench import figures, objects, stages
from bench.figures import Budget, Figure, Latency, Row, Table
from bench.instance import DATABASE, Instance
from bench.programs import ROOT
from bench.scenarios import Bench, lists, logins, reads, tokens
from identity.store.embedded.stores import EmbeddedStores
from identity.store.mongo import Database

pytestmark = pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")


@pytest.fixture(scope="module")
async def bench(stores: EmbeddedStores, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    """One process with everything that scenarios use."""
    instance = Instance(Path(tmp_path_factory.mktemp("bench")), stores)
    try:
        await instance.add_process()
        yield Bench(instance, await objects.prepare(instance.urls[0]), seconds=0.2)
    finally:
        await instance.stop()
        database = Database(instance.mongodb_uri, DATABASE)
        await database.motor.client.drop_database(DATABASE)
        database.close()


@pytest.mark.requirement("demo-8", "design-state-22", "webhooks-15.3-32", "webhooks-15.3-41")
@pytest.mark.parametrize(
    "scenario",
    [
        reads.SCENARIOS[-2],
        reads.SCENARIOS[-1],
        tokens.SCENARIOS[-1],
        next(s for s in logins.SCENARIOS if s.name == "login-pbkdf2"),
        *(s for s in lists.SCENARIOS if s.name.endswith("-100")),
    ],
    ids=lambda s: s.name,
)
async def test_a_scenario_gives_a_figure_without_a_fault(bench, scenario):
    figure = await scenario.measure(bench)
    assert not figure.fault
    assert figure.value > 0


def printed(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    lines = capsys.readouterr().out.splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_row_is_printed_with_its_percentiles_budget_and_floor(capsys):
    table = Table()
    table.add(Row("floor", 1, Figure(2000, "/s")), Row("floor", 2, Figure(4000, "/s")))
    budget = Budget(at_least=700, ratio_at_least={"floor": 0.5})
    table.add(Row("token", 2, Figure(1000, "/s", Latency(1, 2.5, 12.34), spread=0.11), budget, "floor"))
    *_, row, comparison = printed(capsys)
    assert row == [
        "token", "2", "1,000/s", "11 %", "1.00 / 2.50 / 12.3", "-", "-", ">= 700/s, >= 50 % of floor", "NO",
    ]  # fmt: skip
    assert comparison == ["25 % of floor"]


@pytest.mark.parametrize(
    ("budget", "met"),
    [
        (Budget(), None),
        (Budget(at_least=10), True),
        (Budget(at_least=11), False),
        (Budget(at_most=9), False),
        (Budget(p99_at_most_ms=100), True),
        (Budget(p99_at_most_ms=10), False),
        (Budget(ratio_at_least={"floor": 0.5}), True),
        (Budget(ratio_at_least={"floor": 0.6}), False),
        (Budget(ratio_at_most={"floor": 0.4}), False),
        (Budget(ratio_at_least={"not measured": 0.5}), None),
        (Budget(at_least=11, ratio_at_least={"not measured": 0.5}), False),
    ],
)
def test_budget_is_met_or_not_or_cannot_be_decided(budget, met):
    assert budget.is_met(Figure(10, "/s", Latency(p99_ms=50)), {"floor": 20}) is met


def test_fault_voids_its_figure_and_gives_the_reason(capsys):
    table = Table()
    table.add(Row("token", 1, Figure(900, "/s", fault="3 timeout"), Budget(at_least=1)))
    *_, row, reason = printed(capsys)
    assert row[2] == "void"
    assert row[-1] == "NO"
    assert reason == ["void: 3 timeout"]


def test_median_round_counts_and_a_faulty_round_voids_all():
    rounds = [Figure(value, "/s") for value in (900, 1200, 1000)]
    assert figures.median(rounds) == Figure(1000, "/s", spread=0.3)
    assert figures.median([*rounds, Figure(0, "/s", fault="reset")]).fault == "reset"


def test_json_has_one_object_per_row(tmp_path):
    table = Table()
    table.add(Row("floor", 1, Figure(2000, "/s")))
    table.add(Row("token", 1, Figure(500, "/s", Latency(1, 2, 3)), Budget(at_least=400), "floor"))
    table.write(tmp_path / "rows.json")
    _, row = json.loads((tmp_path / "rows.json").read_text())
    expected = {
        "name": "token", "processes": 1, "rate": 500, "p50_ms": 1, "p95_ms": 2, "p99_ms": 3, "floor": "floor",
        "ratio": 0.25, "budget": ">= 400/s", "met": True, "fault": None,
    }  # fmt: skip
    assert row | expected == row


def test_samples_are_divided_among_the_stages():
    loop = "main (run.py);Runner.run (asyncio/runners.py);"
    operation = f"{loop}RequestHandler._execute (tornado/web.py);introspect (identity/operations/api/introspection.py)"
    samples = [
        f"{operation} 3",
        f"{operation};sign (identity/tokens/jws.py);digest (hmac.py) 2",
        f"{loop}IOStream.write_to_fd (tornado/iostream.py) 4",
        f"{loop}_step (asyncio/tasks.py) 1",
        "main (run.py);Runner.run (asyncio/runners.py) 50",  # it waits for events
        "_worker (concurrent/futures/thread.py) 50",
    ]
    assert stages.shares(samples) == {
        "operation and rules": 0.3, "sign and verify tokens": 0.2, "send the response (system call)": 0.4,
        "event loop, tasks, futures": 0.1,
    }  # fmt: skip


async def test_terminated_run_prints_what_it_measured_and_stops_its_servers(tmp_path, short_folder):
    rows, short = tmp_path / "rows.json", {"BENCH_SECONDS": "0.2", "BENCH_ROUNDS": "1"}
    run = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench", "jwks", "--json", str(rows),
        cwd=ROOT, env={**os.environ, **short, "TMPDIR": str(short_folder)}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert run.stdout is not None
    async for line in run.stdout:
        if b"bare Tornado, GET" in line:
            break
    run.terminate()
    rest = (await run.stdout.read()).decode()
    assert await run.wait() == 128 + signal.SIGTERM
    assert "s in all" in rest
    assert json.loads(rows.read_text())[0]["name"] == "bare Tornado, GET"
    assert [text for text in command_lines() if str(short_folder) in text] == []


def command_lines() -> list[str]:
    """Return the command lines of all processes."""
    texts = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            texts.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return texts
