"""The benchmarks run and their table reads well; what they measure is nobody's business here."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench import figures, objects
from bench.figures import Figure, Row
from bench.instance import DATABASE, Instance
from bench.scenarios import Bench, lists, reads, tokens
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
        *(s for s in lists.SCENARIOS if s.name.endswith("-100")),
    ],
    ids=lambda s: s.name,
)
async def test_a_scenario_gives_a_figure_without_a_fault(bench, scenario):
    figure = await scenario.measure(bench)
    assert not figure.fault
    assert figure.value > 0


def test_a_figure_stands_beside_its_floor_and_its_budget():
    rows = [
        Row("floor", [Figure(2000, "/s"), Figure(4000, "/s")]),
        Row("deed", [Figure(900, "/s"), Figure(1000, "/s", p99_ms=12.34)], ">= 700/s", "floor"),
    ]
    line = list(figures.rendered(rows))[-1]
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        "deed", "900/s", "1,000/s, p99 12.3 ms", ">= 700/s", "25 % of floor",
    ]  # fmt: skip


def test_a_fault_voids_its_figure_and_says_why():
    lines = list(figures.rendered([Row("deed", [Figure(900, "/s", fault="3 timeout")])]))
    assert "void" in lines[-2]
    assert "900" not in lines[-2]
    assert lines[-1] == "void: deed: 3 timeout"
