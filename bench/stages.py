"""`python -m bench.stages [scenario ...]`: the processor microseconds of each stage of a request, as a table.

The processor time of a request is measured first. Samples of the thread of the event loop (py-spy, 400 per second)
then divide that of the thread among the stages; what other threads take is a row of its own. One process serves the
scenario with 16 connections. BENCH_SECONDS is the length of both measurements (5 by default).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from bench import floors, objects, programs, wrk
from bench.figures import Figure
from bench.instance import opened
from bench.scenarios import Bench, Scenario, reads, tokens

_NAMES: Final = ("client-credentials-es256", "introspection", "userinfo", "user", "application")
_RATE: Final = "400"
OTHER: Final = "event loop, tasks, futures"
STAGES: Final[Mapping[str, str]] = {
    "send the response (system call)": r"write_to_fd \(",
    "Tornado: handler and response": r"write_headers \(tornado/http1connection|\(tornado/web\.py",
    "Tornado: read and parse": r"\((tornado/|identity/web/(http_server|routing))",
    "access log and metrics": r"_RequestLog|\((identity/logs|structlog/|prometheus_client/)",
    "permission, tenant, API key": r"\(identity/(web/authentication|permissions)\.py",
    "handler: context, checks, reply": r"\(identity/(web/|call|request_facts|errors)",
    "sign and verify tokens": r"\((identity/tokens/|jose/|cryptography/)",
    "store and driver": r"\((identity/store/|redis/|hiredis|motor/|pymongo/|bson/)",
    "operation and rules": r"\(identity/",
}
"""The stages by the innermost frame of a sample that matches; the first one of this order counts."""


class _OneRound(Bench):
    async def rate(self, load_of: Callable[[int], wrk.Load]) -> Figure:
        return await self.round(load_of)


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """The microseconds of a request: of the loop's thread by stage, and of the other threads."""

    stages: Mapping[str, float]
    other_threads: float

    @property
    def total(self) -> float:
        """All of it."""
        return sum(self.stages.values()) + self.other_threads


def stage_of(frames: Iterable[str]) -> str:
    """Return the stage of a sample, whose frames begin with the outermost one."""
    for frame in reversed(list(frames)):
        for stage, pattern in STAGES.items():
            if re.search(pattern, frame):
                return stage
    return OTHER


def shares(samples: Iterable[str]) -> dict[str, float]:
    """Return the share of each stage in the samples of the loop's thread, in the raw format of py-spy.

    Samples without a frame above the loop are left out: it waits for events.
    """
    counts: Counter[str] = Counter()
    for sample in samples:
        stack, _, number = sample.rpartition(" ")
        above = re.split(r"Runner\.run \([^;]*;", stack, maxsplit=1)[1:]
        if above:
            counts[stage_of(above[0].split(";"))] += int(number)
    return {stage: count / counts.total() for stage, count in counts.items()}


async def _profile(bench: Bench, scenario: Scenario, folder: Path) -> Profile:
    pid = bench.instance.processes[0].pid
    await scenario.measure(bench)
    process, thread = programs.processor_seconds(pid), programs.main_thread_seconds(pid)
    figure = await scenario.measure(bench)
    process, thread = programs.processor_seconds(pid) - process, programs.main_thread_seconds(pid) - thread
    if figure.processor is None or figure.fault:
        raise RuntimeError(figure.fault)
    microseconds = 1000 * figure.processor.service
    raw = folder / "samples"
    command = ("py-spy", "record", "-p", str(pid), "-d", str(int(bench.seconds)), "-r", _RATE, "-F", "-f", "raw")
    spy = await asyncio.create_subprocess_exec(
        *command, "-o", str(raw), stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    await asyncio.gather(spy.wait(), scenario.measure(bench))
    found = shares(raw.read_text().splitlines())
    in_loop = microseconds * thread / process
    return Profile({stage: in_loop * share for stage, share in found.items()}, microseconds - in_loop)


async def _bare_microseconds(folder: Path, load: wrk.Load, seconds: float) -> float:
    """Return the processor microseconds of a request to bare Tornado."""
    program = programs.module("bare", folder / "bare.log")
    try:
        await program.wait_until_ready("/")
        before = programs.processor_seconds(program.pid)
        outcome = await wrk.run(program.url, load, seconds)
        return 1e6 * (programs.processor_seconds(program.pid) - before) / outcome.operations
    finally:
        await program.stop()


def table(profiles: Mapping[str, Profile]) -> str:
    """Return the profiles as Markdown."""
    rows = [["stage", *profiles], ["---"] * (1 + len(profiles))]
    rows += [[name, *(f"{one.stages.get(name, 0):.0f}" for one in profiles.values())] for name in (*STAGES, OTHER)]
    rows.append(["other threads", *(f"{one.other_threads:.0f}" for one in profiles.values())])
    rows.append(["**in all**", *(f"{one.total:.0f}" for one in profiles.values())])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


async def main(names: Iterable[str]) -> None:
    """Print the table."""
    known = {one.name: one for one in (*reads.SCENARIOS, *tokens.SCENARIOS)}
    seconds = float(os.environ.get("BENCH_SECONDS", "5"))
    async with opened() as instance:
        for name, load in floors.WEB.items():
            print(f"{name}: {await _bare_microseconds(instance.folder, load, seconds):.0f} µs", flush=True)
        print()
        await instance.add_process()
        prepared = await objects.prepare(instance.urls[0])
        bench = _OneRound(instance, prepared, seconds)
        print(table({name: await _profile(bench, known[name], instance.folder) for name in names}))


if __name__ == "__main__":
    if shutil.which("py-spy") is None:
        sys.exit("py-spy is missing: .venv/bin/pip install py-spy, and put .venv/bin on the PATH")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(sys.argv[1:] or _NAMES))
