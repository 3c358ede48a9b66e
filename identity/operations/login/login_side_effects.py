"""What happens together with the outcome of a login: one write and one order of events, or none of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence

from identity.call import Document
from identity.events.changes import Event, Write


@dataclasses.dataclass(frozen=True, slots=True)
class LoginSideEffects:
    """What happens together with the outcome of a login, such as the end of a ticket that proved who it is.

    `write` runs when no webhook vetoed, in the transaction if there is one; what it raises ends the login. `offered`
    are asked about before the login itself, `found` right before its success, `announced` are told after the commit.
    `told` are members that the events about the login have beside the usual ones. `after` is done when all of it is
    committed.
    """

    write: Write[None]
    offered: Sequence[Event] = ()
    found: Sequence[Event] = ()
    announced: Sequence[Event] = ()
    told: Document = dataclasses.field(default_factory=dict)
    after: Callable[[], Awaitable[None]] | None = None

    def around(self, events: Sequence[Event]) -> list[Event]:
        """The events before the commit in their order, with those of the login, of which the last tells its success."""
        return [*self.offered, *events[:-1], *self.found, *events[-1:]]

    async def committed(self) -> None:
        """Do what comes after the commit."""
        if self.after is not None:
            await self.after()
