"""A webhook subscription to some event types of a tenant, which validates each event against its schema."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import httpx

from identity.events.catalogue import EVENTS
from identity.schemas import Schemas
from tests import webhooks
from tests.receiver import Receiver

SCHEMAS = Schemas()


def check_event(event: dict[str, Any]) -> None:
    """Assert that an event is valid against the schema of its type."""
    assert list(SCHEMAS[f"events/{event['type']}.json"].errors({"event": event})) == []


class Subscriber:
    """The events of a tenant in the order of delivery. `api` must be able to change the tenant and create webhooks."""

    def __init__(self, api: httpx.AsyncClient, receiver: Receiver, tenant_id: str) -> None:
        self.api, self.receiver, self.tenant_id = api, receiver, tenant_id
        self._seen = 0

    async def subscribe(
        self, types: Iterable[str], transaction_type: str = "None", *, vetoable: Iterable[str] | None = None
    ) -> None:
        """Create a webhook for these types. Transactional types, or only `vetoable`, get the transaction type."""
        tenant = {"id": self.tenant_id}
        await webhooks.subscribe(self.api, tenant, self.receiver.url, types, transaction_type, vetoable=vetoable)

    async def send(self, method: str, path: str, status: int = 200, **body: Any) -> Any:
        """Send a request, require this status, and return the JSON body."""
        answer = await self.api.request(method, path, json=body or None)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    async def received(self, *types: str) -> list[dict[str, Any]]:
        """Wait for the next events, which must have exactly these types; return them in the order of the types."""
        requests = await self.receiver.wait_for(self._seen + len(types))
        events = [request.event for request in requests[self._seen :]]
        self._seen += len(types)
        assert sorted(event["type"] for event in events) == sorted(types)
        for event in events:
            check_event(event)
            assert event.get("tenantId") == (None if EVENTS[event["type"]].is_of_instance else self.tenant_id)
        return sorted(events, key=lambda event: types.index(event["type"]))
