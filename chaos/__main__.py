"""The command: disturb, load, put right, wait, judge, and print what came of it."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import random
import sys
import time
from collections.abc import Callable

from chaos import cluster, trouble, verdict, work
from chaos.receiver import Receiver
from chaos.verdict import Verdict
from chaos.work import TYPES, Writer
from identity import termination

_PATIENCE_SECONDS = 1800
"""How long the last events may take to arrive, once everything is well again: most of 100,000 may be among them."""
_PATHS = 2


@dataclasses.dataclass(frozen=True)
class Report:
    """What was done, and what came of it."""

    seconds: float
    drain_seconds: float
    disturbances: dict[str, int]
    acknowledged: int
    unclear: int
    verdict: Verdict


async def run(events: int, seed: int, writers: int, disturbances: int = 0) -> Report:
    """Disturb a cluster until changes with so many events were acknowledged, and so often at the least."""
    # A source of chance for each, so that the disturbances of a seed come in the same order every time.
    chance = random.Random(seed + 2)
    receiver = Receiver(random.Random(seed + 1))
    await receiver.start()
    async with cluster.running() as running:
        found = await work.prepare(running, receiver, writers)
        began = time.monotonic()
        disturbed = trouble.Trouble(running, receiver, random.Random(seed))
        enough = events // (len(TYPES) * _PATHS)
        await _disturbed_load(
            running, disturbed, found, chance, lambda: _acknowledged(found) < enough or disturbed.count < disturbances
        )
        ended = time.monotonic()
        stored = await work.stored_numbers(running, found)
        judged = await _settled(receiver, found, stored)
        await receiver.stop()
        return Report(
            ended - began,
            time.monotonic() - ended,
            dict(sorted(disturbed.done.items())),
            _acknowledged(found),
            sum(writer.unclear for writer in found),
            judged,
        )


async def _disturbed_load(
    running: cluster.Cluster,
    disturbed: trouble.Trouble,
    writers: list[Writer],
    chance: random.Random,
    wanted: Callable[[], bool],
) -> None:
    disturbing = asyncio.create_task(disturbed.run())
    try:
        async with asyncio.TaskGroup() as load:
            for writer in writers:
                load.create_task(work.write(running, writer, chance, wanted))
            load.create_task(_right_again(disturbing, disturbed, wanted))
    finally:  # it may be starting a process, which must not outlive the cluster
        disturbing.cancel()
        await asyncio.gather(disturbing, return_exceptions=True)


async def _right_again(disturbing: asyncio.Task[None], disturbed: trouble.Trouble, wanted: Callable[[], bool]) -> None:
    """End the trouble with the load; one that fails ends everything."""
    while wanted():
        done, _ = await asyncio.wait({disturbing}, timeout=0.2)
        for task in done:
            task.result()
    disturbing.cancel()
    await asyncio.gather(disturbing, return_exceptions=True)
    await disturbed.end()


async def _settled(receiver: Receiver, writers: list[Writer], stored: dict[str, int]) -> Verdict:
    """The judgement, as soon as nothing is missing, or when patience is at its end."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        began = time.monotonic()
        found = verdict.judged(receiver, writers, stored)
        ended = time.monotonic()
        if not found.lost or ended > deadline:
            return found
        # Judging very many takes long, and it is the service that needs the machine now.
        await asyncio.sleep(max(0.5, 9 * (ended - began)))


def _acknowledged(writers: list[Writer]) -> int:
    return sum(len(writer.acknowledged) for writer in writers)


def _printed(report: Report, seed: int) -> None:
    found = report.verdict
    print(f"seed {seed}: {report.seconds:.0f} s under trouble, all arrived {report.drain_seconds:.0f} s after it")
    print("disturbances: " + ", ".join(f"{name} {count}" for name, count in report.disturbances.items()))
    print(f"changes acknowledged {report.acknowledged}, without a clear answer {report.unclear}")
    print(f"events arrived {found.arrived}, again under the same id {found.repeated}")
    print(
        f"lost {len(found.lost)}, invented {len(found.invented)}, under two ids {len(found.renamed)},"
        f" out of order {len(found.disordered)}"
    )
    for fault in found.faults[:20]:
        print(f"  {fault}")


def main() -> int:
    """Run it; 1 when an event was lost, invented, renamed or out of order."""
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--events", type=int, default=100_000, help="how many events have to arrive")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    parser.add_argument("--writers", type=int, default=24, help="how many groups are changed at the same time")
    options = parser.parse_args()
    report = termination.run(run(options.events, options.seed, options.writers))
    _printed(report, options.seed)
    return 1 if report.verdict.faults else 0


if __name__ == "__main__":
    sys.exit(main())
