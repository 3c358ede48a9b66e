"""The guard of writes: the stores present each write of a user to it, by its state before and after (decision 74).

The web layer sets the guard of a request once its caller is known. Writes of the service itself, such as those of
workers and the lock after failed logins, have no guard.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from identity.call import Document

FindBefore = Callable[[], Awaitable[Document | None]]
"""Returns the stored user, which most writes do not need."""

Guard = Callable[[str | None, FindBefore, Document | None], Awaitable[None]]
"""(tenant id, state before, state after) -> None; raises Unauthorized. A user who is deleted has no state after.

A write that only restricts a user, such as a lock or a sign-out, is presented like a deletion.
"""

_current: Final[contextvars.ContextVar[Guard | None]] = contextvars.ContextVar("write_guard", default=None)


def begin(guard: Guard | None) -> None:
    """Set the guard of the request in progress; None for a caller with all permissions."""
    _current.set(guard)


@contextlib.contextmanager
def lifted() -> Iterator[None]:
    """Run a write of the service itself without the guard of the request in progress."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


async def check(tenant_id: str | None, find_before: FindBefore, after: Document | None) -> None:
    """Present a write to the guard. Raises Unauthorized if the caller lacks the authority of the user."""
    guard = _current.get()
    if guard is not None:
        await guard(tenant_id, find_before, after)


async def check_sign_out(user: Document) -> None:
    """Present the end of sessions and tokens of a user to the guard, as a restriction. Raises Unauthorized."""

    async def find_before() -> Document:
        return user

    await check(user["tenantId"], find_before, None)
