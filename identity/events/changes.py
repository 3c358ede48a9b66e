"""Changes as values: the writes and events that the bus commits together."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from identity.domain.webhooks.webhook_transactions import NONE
from identity.events.catalogue import EVENTS, EventType
from identity.ids import TenantId
from identity.store.mongo import Write


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """An event of a catalogue type, with the members of its payload that are specific to the type.

    `tenant_id`: the tenant concerned, if it is not the call's. An instance event that names a tenant carries its id
    in the body and is routed like any other instance event.
    `transaction_type`: the minimum approval required, whatever the tenant configures for the type.
    """

    type: str
    payload: Mapping[str, Any]
    tenant_id: TenantId | None = None
    transaction_type: str = NONE

    @property
    def definition(self) -> EventType:
        """The catalogue row of the type. Raises KeyError for an unknown type."""
        return EVENTS[self.type]


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """Writes and events that are committed together.

    Several writes always share one transaction; a single write needs one only when events are stored with it. Writes
    run again when MongoDB reports a transient conflict. Transactional webhooks approve the `before_commit` events
    before anything is written; `after_commit` events cannot be vetoed. If they depend on what was written,
    `after_commit` is a function of the results of the writes.
    """

    writes: Sequence[Write] = ()
    before_commit: Sequence[Event] = ()
    after_commit: Sequence[Event] | Callable[[Sequence[Any]], Sequence[Event]] = ()
