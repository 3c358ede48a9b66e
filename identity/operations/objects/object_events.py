"""The events of a change of one object: `x.create`, `x.update` or `x.delete`, each with its `.complete`."""

from __future__ import annotations

from collections.abc import Sequence

from identity.call import Document
from identity.events.changes import Change, Event
from identity.store.mongo import Write


def change_of(name: str, after: Document | None, before: Document | None, writes: Sequence[Write]) -> Change:
    """Return the change of one object with its events.

    `after` and `before` are the object as events show it: `before` is None for a creation, `after` for a deletion.
    """
    payload = {name: after if after is not None else before}
    if after is not None and before is not None:
        payload["original"] = before
    event_type = f"{name}.{'create' if before is None else 'delete' if after is None else 'update'}"
    return Change(writes, [Event(event_type, payload)], [Event(f"{event_type}.complete", payload)])
