"""How long a start takes, and what the embedded stores weigh."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench import instance, programs
from bench.figures import Figure, Row

_READY = "/api/health"
_QUIET_SECONDS = 8.0


async def embedded(folder: Path) -> list[Row]:
    """The first start on an empty folder, with kickstart and key generation, and the next one on the same data."""
    seconds = []
    for _ in range(2):
        async with _started(folder) as (_program, ready_seconds):
            seconds.append(ready_seconds)
    return [
        Row("start-up: the first, with embedded stores", [Figure(seconds[0], "s")]),
        Row("start-up: warm, with embedded stores", [Figure(seconds[1], "s")], "< 4 s"),
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


async def external(running: instance.Instance) -> Row:
    """Start a process over stores that run already and whose instance exists, and stop it again."""
    seconds = await running.add_process()
    await running.stop()
    return Row("start-up: with external stores", [Figure(seconds, "s")], "< 1 s")


async def memory(running: instance.Instance) -> list[Row]:
    """What the processes and the stores hold: right after all the load, and when it has been quiet for a while."""
    loaded = _held(running)
    await asyncio.sleep(_QUIET_SECONDS)
    stores = [Figure(programs.resident_megabytes(pid), "MB") for pid in running.stores.pids()]
    return [
        Row("memory of each process at the end of the load (RSS)", loaded),
        Row(f"memory of each process {_QUIET_SECONDS:.0f} s later (RSS)", _held(running), "< 100 MB"),
        Row("memory of the embedded mongod (RSS)", stores[:1]),
        Row("memory of the embedded Redis server (RSS)", stores[1:]),
    ]


def _held(running: instance.Instance) -> list[Figure]:
    return [Figure(process.resident_megabytes(), "MB") for process in running.processes]
