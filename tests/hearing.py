"""Hearing what a tenant's webhooks hear: a receiver for some types of events, each body judged by its schema."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import httpx

from identity.events.catalogue import EVENTS
from identity.schemas import Schemas
from tests import webhooks
from tests.receiver import Receiver

SCHEMAS = Schemas()


def judge(event: dict[str, Any]) -> None:
    """Fail where an event is not as its schema has it."""
    assert list(SCHEMAS[f"events/{event['type']}.json"].errors({"event": event})) == []


class Hearing:
    """The events of one tenant as a receiver gets them; `api` may change the tenant and make webhooks."""

    def __init__(self, api: httpx.AsyncClient, receiver: Receiver, tenant_id: str) -> None:
        self.api, self.receiver, self.tenant_id = api, receiver, tenant_id
        self._seen = 0

    async def listen(
        self, types: Iterable[str], transaction_type: str = "None", *, vetoable: Iterable[str] | None = None
    ) -> None:
        """Let a webhook hear of these types; those that it may veto, or only `vetoable`, have the transaction type."""
        tenant = {"id": self.tenant_id}
        await webhooks.listen(self.api, tenant, self.receiver.url, types, transaction_type, vetoable=vetoable)

    async def send(self, method: str, path: str, status: int = 200, **body: Any) -> Any:
        """A request that is answered with this status, and the JSON of the answer."""
        answer = await self.api.request(method, path, json=body or None)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    async def heard(self, *types: str) -> list[dict[str, Any]]:
        """The next events; exactly these types, each as its schema has it, given back in this order."""
        requests = await self.receiver.wait_for(self._seen + len(types))
        events = [request.event for request in requests[self._seen :]]
        self._seen += len(types)
        assert sorted(event["type"] for event in events) == sorted(types)
        for event in events:
            judge(event)
            assert event.get("tenantId") == (None if EVENTS[event["type"]].is_of_instance else self.tenant_id)
        return sorted(events, key=lambda event: types.index(event["type"]))
