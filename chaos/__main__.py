"""The command: run load with faults, repair, wait for all deliveries, check, and print the result."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import random
import sys
import time
from collections.abc import Callable

from chaos import checker, cluster, work
from chaos.checker import CheckResult
from chaos.faults import FaultInjector
from chaos.receiver import Receiver
from chaos.work import TYPES, Writer
from identity import termination

_DRAIN_SECONDS = 1800
"""The time limit for the remaining deliveries after the repair; most of 100,000 events may be among them."""
_PATHS = 2


@dataclasses.dataclass(frozen=True)
class Report:
    """The result of a run; `faults` are the injected ones by name."""

    seconds: float
    drain_seconds: float
    faults: dict[str, int]
    acknowledged: int
    unknown: int
    result: CheckResult


async def run(events: int, seed: int, writers: int, min_faults: int = 0) -> Report:
    """Run until changes with this many events were acknowledged and at least `min_faults` were injected."""
    # A random generator for each purpose, so that a seed always leads to the same sequence of faults.
    load_rng = random.Random(seed + 2)
    receiver = Receiver(random.Random(seed + 1))
    await receiver.start()
    async with cluster.running() as running:
        found = await work.prepare(running, receiver, writers)
        began = time.monotonic()
        injector = FaultInjector(running, receiver, random.Random(seed))
        min_changes = events // (len(TYPES) * _PATHS)
        await _load_with_faults(
            running,
            injector,
            found,
            load_rng,
            lambda: _acknowledged(found) < min_changes or injector.total < min_faults,
        )
        ended = time.monotonic()
        stored = await work.stored_numbers(running, found)
        result = await _drained(receiver, found, stored)
        await receiver.stop()
        return Report(
            ended - began,
            time.monotonic() - ended,
            dict(sorted(injector.counts.items())),
            _acknowledged(found),
            sum(writer.unknown for writer in found),
            result,
        )


async def _load_with_faults(
    running: cluster.Cluster,
    injector: FaultInjector,
    writers: list[Writer],
    rng: random.Random,
    is_wanted: Callable[[], bool],
) -> None:
    injecting = asyncio.create_task(injector.run())
    try:
        async with asyncio.TaskGroup() as load:
            for writer in writers:
                load.create_task(work.write(running, writer, rng, is_wanted))
            load.create_task(_repair_after_load(injecting, injector, is_wanted))
    finally:  # it may be starting a process, which must not outlive the cluster
        injecting.cancel()
        await asyncio.gather(injecting, return_exceptions=True)


async def _repair_after_load(
    injecting: asyncio.Task[None], injector: FaultInjector, is_wanted: Callable[[], bool]
) -> None:
    """End the faults together with the load. Raises what the injector raised."""
    while is_wanted():
        done, _ = await asyncio.wait({injecting}, timeout=0.2)
        for task in done:
            task.result()
    injecting.cancel()
    await asyncio.gather(injecting, return_exceptions=True)
    await injector.end()


async def _drained(receiver: Receiver, writers: list[Writer], stored: dict[str, int]) -> CheckResult:
    """The result of the check as soon as no event is missing, or at the deadline."""
    deadline = time.monotonic() + _DRAIN_SECONDS
    while True:
        began = time.monotonic()
        result = checker.check(receiver, writers, stored)
        ended = time.monotonic()
        if not result.lost or ended > deadline:
            return result
        # A check of many events takes long; leave most of the processor time to the service.
        await asyncio.sleep(max(0.5, 9 * (ended - began)))


def _acknowledged(writers: list[Writer]) -> int:
    return sum(len(writer.acknowledged) for writer in writers)


def _print(report: Report, seed: int) -> None:
    result = report.result
    print(f"seed {seed}: {report.seconds:.0f} s with faults, all events arrived {report.drain_seconds:.0f} s later")
    print("faults: " + ", ".join(f"{name} {count}" for name, count in report.faults.items()))
    print(f"changes acknowledged {report.acknowledged}, with unknown outcome {report.unknown}")
    print(f"events arrived {result.arrived}, repeated under the same id {result.repeated}")
    print(
        f"lost {len(result.lost)}, invented {len(result.invented)}, under two ids {len(result.renamed)},"
        f" out of order {len(result.disordered)}"
    )
    for failure in result.failures[:20]:
        print(f"  {failure}")


def main() -> int:
    """Run the test; the exit code is 1 if an event was lost, invented, renamed or out of order."""
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--events", type=int, default=100_000, help="the number of events to deliver")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    parser.add_argument("--writers", type=int, default=24, help="the number of groups changed concurrently")
    options = parser.parse_args()
    report = termination.run(run(options.events, options.seed, options.writers))
    _print(report, options.seed)
    return 1 if report.result.failures else 0


if __name__ == "__main__":
    sys.exit(main())
