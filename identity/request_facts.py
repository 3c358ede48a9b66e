"""What became known about the current request: for its entry in the access log, and as the parent of store spans."""

from __future__ import annotations

import contextvars
import dataclasses

from identity.trace_context import TraceContext


@dataclasses.dataclass(slots=True)
class RequestFacts:
    """The authenticated or addressed client and user of a request, once they are known, and its trace."""

    client_id: str | None = None
    user_id: str | None = None
    trace: TraceContext | None = None


_current: contextvars.ContextVar[RequestFacts | None] = contextvars.ContextVar("request_facts", default=None)


def begin(facts: RequestFacts) -> None:
    """Make these the facts of the current task and the tasks that it starts."""
    _current.set(facts)


def note_client(client_id: str) -> None:
    """Note the client of the current request, if there is a request."""
    facts = _current.get()
    if facts is not None:
        facts.client_id = client_id


def note_user(user_id: str) -> None:
    """Note the user of the current request, if there is a request."""
    facts = _current.get()
    if facts is not None:
        facts.user_id = user_id


def trace() -> TraceContext | None:
    """The trace of the current request, if it has one."""
    facts = _current.get()
    return None if facts is None else facts.trace
