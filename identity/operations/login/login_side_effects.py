"""Side effects that are committed atomically with the outcome of a login."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from identity.call import Document
from identity.events.changes import Event
from identity.store.mongo import Session, Write


async def _write_nothing(_session: Session | None) -> None:
    """The write of a login without side effects."""


@dataclasses.dataclass(frozen=True, slots=True)
class LoginSideEffects:
    """A write and events that are committed atomically with the outcome of a login, such as consuming a used code.

    `write` runs after webhooks approved the login, in its transaction if there is one; an exception aborts the login.
    Webhooks may veto the `before_login` events, which precede those of the login, and the `before_success` events,
    which come right before its success event, but not the `after_commit` events. `event_members` are added to the
    payloads of the login events. `on_commit` runs after the commit.
    """

    write: Write = _write_nothing
    before_login: Sequence[Event] = ()
    before_success: Sequence[Event] = ()
    after_commit: Sequence[Event] = ()
    event_members: Document = dataclasses.field(default_factory=dict)
    on_commit: Callable[[], Awaitable[None]] | None = None

    def before_commit(self, login_events: Sequence[Event] = ()) -> list[Event]:
        """Return all events before the commit, in order; the last of `login_events` is the success event."""
        return [*self.before_login, *login_events[:-1], *self.before_success, *login_events[-1:]]

    async def run_on_commit(self) -> None:
        """Run `on_commit`, if there is one."""
        if self.on_commit is not None:
            await self.on_commit()


NO_SIDE_EFFECTS: Final = LoginSideEffects()
