"""`python -m bench [scenario ...]`: measure everything, or what is named, and print one table.

BENCH_SECONDS is the length of each measurement, 4 by default.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import time
from collections.abc import Sequence

import structlog

from bench import figures, floors, objects, startup
from bench.figures import Figure, Row
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
_FLOOR_SECONDS = 2.0


def main() -> int:
    """The command line; 1 when a figure is void."""
    names = list(dict.fromkeys(name for scenario in SCENARIOS for name in (scenario.group, scenario.name) if name))
    parser = argparse.ArgumentParser(prog="bench", description="Measure the service.")
    parser.add_argument("scenario", nargs="*", metavar="scenario", help=f"only these: {', '.join(names)}")
    wanted = parser.parse_args().scenario
    if unknown := set(wanted) - set(names):
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    if shutil.which("wrk") is None:
        parser.error("wrk is missing; on Debian: apt-get install wrk")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    seconds = float(os.environ.get("BENCH_SECONDS", "4"))
    chosen = [one for one in SCENARIOS if {one.group, one.name} & set(wanted) or (not wanted and not one.group)]
    began, busy = time.perf_counter(), os.getloadavg()[0]
    rows = termination.run(measured(chosen, seconds, in_full=not wanted))
    print(f"\n{_machine()}")
    print(f"load average before it began: {busy:.1f} (more than a few tenths: others took part of what is measured)")
    print(f"{seconds:g} s for each figure, {time.perf_counter() - began:.0f} s in all\n")
    print("\n".join(figures.rendered(rows)))
    return int(any(figure.fault for row in rows for figure in row.figures if figure is not None))


async def measured(scenarios: Sequence[Scenario], seconds: float, *, in_full: bool) -> list[Row]:
    """Every row: start-up and memory only in full, the floors always, because a figure says nothing without them."""
    async with opened() as instance:
        rows = await _starts(instance) if in_full else []
        await instance.add_process()
        rows += await _floors(instance, min(seconds, _FLOOR_SECONDS))
        prepared = await objects.prepare(instance.urls[0])
        bench = Bench(instance, prepared, seconds)
        taken: list[list[Figure]] = [[] for _ in scenarios]
        for count in (1, 2):
            if count > len(instance.processes):
                await instance.add_process()
            for figures_, scenario in zip(taken, scenarios, strict=True):
                if count > scenario.processes:
                    continue
                _say(f"{scenario.title}, processes: {count}")
                figures_.append(await _attempt(scenario, bench))
        rows += [
            Row(scenario.title, found, scenario.budget, scenario.against)
            for scenario, found in zip(scenarios, taken, strict=True)
        ]
        return [*rows, *(await startup.memory(instance) if in_full else [])]


async def _attempt(scenario: Scenario, bench: Bench) -> Figure:
    """A figure, void when it could not even be tried."""
    try:
        return await scenario.measure(bench)
    except (RuntimeError, OSError, ValueError, KeyError) as error:
        return Figure(0, "", fault=f"{type(error).__name__}: {error}")


async def _starts(instance: Instance) -> list[Row]:
    _say("start-up")
    rows = await startup.embedded(instance.folder)
    await instance.add_process()
    await instance.stop()
    return [*rows, await startup.external(instance)]


async def _floors(instance: Instance, seconds: float) -> list[Row]:
    _say("floors")
    return [
        *await floors.web(instance.folder, seconds),
        *await floors.cryptography(seconds),
        *await floors.stores(instance.mongodb_uri, instance.redis_url, seconds),
    ]


def _machine() -> str:
    versions = f"Python {platform.python_version()}, {platform.system()} {platform.release()}"
    return f"{os.cpu_count()} cores ({platform.machine()}), {versions}; the load comes from the same cores"


def _say(what: str) -> None:
    print(f"measuring: {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
