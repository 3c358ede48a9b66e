"""Startup time, and memory of the processes and stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench import instance, programs
from bench.figures import NO_BUDGET, Budget, Figure, Row, median

_READY = "/api/health"
_QUIET_SECONDS = 8.0
_RESTING = Budget(at_most=80)


async def embedded(folder: Path) -> list[Row]:
    """The first start with an empty folder, kickstart and key generation, and the next start with the same data."""
    seconds = []
    for _ in range(2):
        async with _started(folder) as (_program, ready_seconds):
            seconds.append(ready_seconds)
    return [
        Row("start-up: the first, with embedded stores", 1, Figure(seconds[0], "s")),
        Row("start-up: warm, with embedded stores", 1, Figure(seconds[1], "s"), Budget(at_most=4)),
    ]


@asynccontextmanager
async def _started(folder: Path) -> AsyncIterator[tuple[programs.Program, float]]:
    program = programs.service(
        folder / "embedded", instance.configuration(folder / "embedded-config"), folder / "embedded.log"
    )
    try:
        yield program, await program.wait_until_ready(_READY)
    finally:
        await program.stop()


async def external(running: instance.Instance, rounds: int) -> Row:
    """Start a process with running stores and an existing instance, and stop it."""
    starts = []
    for _ in range(rounds):
        starts.append(Figure(await running.add_process(), "s"))
        await running.stop()
    return Row("start-up: with external stores", 1, median(starts), Budget(at_most=0.8))


async def memory(running: instance.Instance) -> list[Row]:
    """Return the memory of the processes and the stores: right after the load, and after some seconds without any."""
    loaded = _resident(running)
    await asyncio.sleep(_QUIET_SECONDS)
    mongod, redis = (Figure(programs.resident_megabytes(pid), "MB") for pid in running.stores.pids())
    return [
        _memory_row("memory of the largest process at the end of the load (RSS)", running, loaded),
        _memory_row(
            f"memory of the largest process {_QUIET_SECONDS:.0f} s later (RSS)", running, _resident(running), _RESTING
        ),
        Row("memory of the embedded mongod (RSS)", 1, mongod),
        Row("memory of the embedded Redis server (RSS)", 1, redis),
    ]


def _memory_row(name: str, running: instance.Instance, resident: float, budget: Budget = NO_BUDGET) -> Row:
    return Row(name, len(running.processes), Figure(resident, "MB"), budget)


def _resident(running: instance.Instance) -> float:
    return max(process.resident_megabytes() for process in running.processes)
