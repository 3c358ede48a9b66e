"""The scenarios: what is asked of a running instance, a module for each kind."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence

from bench import wrk
from bench.figures import Figure
from bench.instance import Instance
from bench.objects import Objects, Person


@dataclasses.dataclass(frozen=True, slots=True)
class Bench:
    """What a scenario works with."""

    instance: Instance
    objects: Objects
    seconds: float

    @property
    def urls(self) -> Sequence[str]:
        """The processes to put load on."""
        return self.instance.urls

    def people(self, index: int) -> Sequence[Person]:
        """The users of one process; none is shared, or contention for their documents would be measured."""
        return self.objects.people[index :: len(self.urls)]

    async def rate(self, load_of: Callable[[int], wrk.Load]) -> Figure:
        """Requests per second over all processes, each under a load of its own."""
        outcome = await wrk.together(self.urls, load_of, self.seconds)
        return Figure(outcome.rate, "/s", outcome.p99_ms, outcome.fault)


@dataclasses.dataclass(frozen=True, slots=True)
class Scenario:
    """One row of the table, and how it is measured; `name` is how the command line calls it.

    Those of a `group` belong together, and take so long that they are measured only when they are asked for.
    `processes` is with how many it is measured at the most: one caller after another keeps no second one busy.
    """

    name: str
    title: str
    measure: Callable[[Bench], Awaitable[Figure]]
    budget: str = ""
    against: str = ""
    group: str = ""
    processes: int = 2
