"""The scenarios: what is asked of a running instance, a module for each kind."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence

from bench import figures, pace, wrk
from bench.figures import NO_BUDGET, Budget, Figure, FixedRate, Latency
from bench.instance import Instance
from bench.objects import Objects, Person

_FIXED_SHARE = 0.5
"""The fixed rate as a part of what a closed loop reached: what a service should be run at."""


@dataclasses.dataclass(frozen=True, slots=True)
class Bench:
    """What a scenario works with."""

    instance: Instance
    objects: Objects
    seconds: float
    rounds: int = 1

    @property
    def urls(self) -> Sequence[str]:
        """The processes to put load on."""
        return self.instance.urls

    def people(self, index: int) -> Sequence[Person]:
        """The users of one process; none is shared, or contention for their documents would be measured."""
        return self.objects.people[index :: len(self.urls)]

    async def rate(self, load_of: Callable[[int], wrk.Load]) -> Figure:
        """Measure requests per second over all processes, each under a load of its own: the median of the rounds."""
        rounds = [await self.round(load_of) for _ in range(self.rounds)]
        figure = figures.median(rounds)
        if figure.fault or not all(load_of(index).encoded for index in range(len(self.urls))):
            return figure
        return dataclasses.replace(figure, fixed_rate=await self._fixed_rate(load_of, figure.value * _FIXED_SHARE))

    async def round(self, load_of: Callable[[int], wrk.Load]) -> Figure:
        """Measure one round: for loads that use up what they are given, such as refresh tokens."""
        return await self.figure(wrk.together(self.urls, load_of, self.seconds))

    async def figure(self, load: Awaitable[wrk.Outcome]) -> Figure:
        """Run a load, with the processor time that it takes."""
        before = self.instance.processor_seconds()
        outcome = await load
        used = self.instance.processor_seconds().per_1000(before, outcome.operations)
        return Figure(outcome.rate, "/s", outcome.latency, outcome.fault, processor=used)

    async def _fixed_rate(self, load_of: Callable[[int], wrk.Load], per_second: float) -> FixedRate:
        """Send requests at an even pace. Raises RuntimeError if one fails."""
        loads = [encoded() for index in range(len(self.urls)) if (encoded := load_of(index).encoded)]
        took: list[float] = []

        def request(number: int) -> bytes:
            mine = loads[number % len(loads)]
            return mine[number // len(loads) % len(mine)]

        count = max(200, round(per_second * self.seconds))
        if faults := await pace.send(self.urls, request, count, per_second, took):
            raise RuntimeError(faults[0])
        return FixedRate(per_second, Latency.of(took))


@dataclasses.dataclass(frozen=True, slots=True)
class Scenario:
    """One row of the table, and how it is measured; `name` is how the command line calls it.

    Those of a `group` belong together, and take so long that they are measured only when they are asked for.
    `processes` is with how many it is measured at the most: one caller after another keeps no second one busy.
    """

    name: str
    title: str
    measure: Callable[[Bench], Awaitable[Figure]]
    budget: Budget = NO_BUDGET
    against: str = ""
    group: str = ""
    processes: int = 2
    budget_processes: int | None = None
    """The number of processes that the budget is for; None for the most."""
