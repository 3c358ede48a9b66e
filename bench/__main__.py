"""`python -m bench [scenario ...]`: measure the service and print each row of the table as soon as it is measured.

BENCH_SECONDS is the length of each round (1 by default) and BENCH_ROUNDS the number of rounds (3), whose median counts.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import structlog

from bench import floors, objects, peer, startup
from bench.figures import NO_BUDGET, Figure, Row, Table
from bench.instance import Instance, opened
from bench.scenarios import Bench, Scenario, enumeration, lists, logins, reads, receivers, tokens, users, webhooks
from identity import termination

SCENARIOS: tuple[Scenario, ...] = (
    *reads.SCENARIOS,
    *tokens.SCENARIOS,
    *logins.SCENARIOS,
    *enumeration.SCENARIOS,
    *webhooks.SCENARIOS,
    *receivers.SCENARIOS,
    *lists.SCENARIOS,
    *users.SCENARIOS,
)


def main() -> int:
    """Run the command line. Returns 1 if a figure is void."""
    arguments = _arguments()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    seconds, rounds = float(os.environ.get("BENCH_SECONDS", "1")), int(os.environ.get("BENCH_ROUNDS", "3"))
    began = time.perf_counter()
    print(f"{_machine()}\nload average before the run: {os.getloadavg()[0]:.1f}; above a few tenths, rates are too low")
    print(f"median of {rounds} rounds of {seconds:g} s; at a fixed rate: half of the measured rate\n", flush=True)
    table = Table()
    try:
        termination.run(_measure(table, _chosen(arguments.scenario), seconds, rounds, in_full=not arguments.scenario))
    finally:
        if arguments.json:
            table.write(arguments.json)
        print(f"\n{time.perf_counter() - began:.0f} s in all", flush=True)
    return int(any(row.figure.fault for row in table.rows))


def _arguments() -> argparse.Namespace:
    names = list(dict.fromkeys(name for scenario in SCENARIOS for name in (scenario.group, scenario.name) if name))
    parser = argparse.ArgumentParser(prog="bench", description="Measure the service.")
    parser.add_argument("scenario", nargs="*", metavar="scenario", help=f"only these: {', '.join(names)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to a file, as JSON")
    arguments = parser.parse_args()
    if unknown := set(arguments.scenario) - set(names):
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    if shutil.which("wrk") is None:
        parser.error("wrk is missing; on Debian: apt-get install wrk")
    return arguments


def _chosen(names: Sequence[str]) -> list[Scenario]:
    """Return the named scenarios and groups; without names, those that are in no group."""
    return [one for one in SCENARIOS if {one.group, one.name} & set(names) or (not names and not one.group)]


async def _measure(table: Table, scenarios: Sequence[Scenario], seconds: float, rounds: int, *, in_full: bool) -> None:
    """Add every row: start-up, memory and the peer only in full, the floors always."""
    async with opened() as instance:
        if in_full:
            table.add(*await startup.embedded(instance.folder))
            await instance.add_process()
            await instance.stop()
            table.add(await startup.external(instance, rounds))
        await _add_floors(table, instance, seconds, rounds)
        if peer.is_available() and (in_full or any(peer.PEER in one.budget.ratio_at_least for one in scenarios)):
            await _add_peer(table, instance, seconds, rounds)
        await instance.add_process()
        bench = Bench(instance, await objects.prepare(instance.urls[0]), seconds, rounds)
        for count in (1, 2):
            if count > len(instance.processes):
                await instance.add_process()
            for scenario in scenarios:
                if count <= scenario.processes:
                    table.add(await _row(scenario, bench, count))
        if in_full:
            table.add(*await startup.memory(instance))


async def _row(scenario: Scenario, bench: Bench, processes: int) -> Row:
    """Measure a scenario; the figure is void if it could not be measured."""
    try:
        figure = await scenario.measure(bench)
    except (RuntimeError, OSError, ValueError, KeyError) as error:
        figure = Figure(0, "", fault=f"{type(error).__name__}: {error}")
    has_budget = processes == (scenario.budget_processes or scenario.processes)
    return Row(scenario.title, processes, figure, scenario.budget if has_budget else NO_BUDGET, scenario.against)


async def _add_floors(table: Table, instance: Instance, seconds: float, rounds: int) -> None:
    table.add(*await floors.web(instance.folder, seconds, rounds))
    table.add(*await floors.cryptography(seconds))
    table.add(*await floors.stores(instance.mongodb_uri, instance.redis_url, seconds))


async def _add_peer(table: Table, instance: Instance, seconds: float, rounds: int) -> None:
    try:
        table.add(*await peer.rows(instance.folder, seconds, rounds))
    except (RuntimeError, OSError) as error:
        table.add(Row(peer.PEER, 1, Figure(0, "", fault=str(error))))


def _machine() -> str:
    versions = f"Python {platform.python_version()}, {platform.system()} {platform.release()}"
    return f"{os.cpu_count()} cores ({platform.machine()}), {versions}; the load comes from the same cores"


if __name__ == "__main__":
    sys.exit(main())
