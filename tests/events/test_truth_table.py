"""Transactions with real receivers: every type, zero to six webhooks, and every number of approvals."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import httpx
import pytest

from identity.ids import new_id
from tests.domain.webhooks.test_webhook_transactions import NEEDED
from tests.receiver import Receiver, answers, receiving
from tests.subscriber import Subscriber

KIND = "group.create"


@pytest.fixture
async def receivers() -> AsyncIterator[list[Receiver]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(receiving()) for _ in range(6)]


async def use(api: httpx.AsyncClient, transaction_type: str) -> None:
    events = {KIND: {"enabled": True, "transactionType": transaction_type}}
    change = {"tenant": {"eventConfiguration": {"events": events}}}
    answer = await api.patch(f"/api/tenant/{api.headers['X-FusionAuth-TenantId']}", json=change)
    assert answer.status_code == 200, answer.text


@pytest.mark.requirement("webhooks-15.2-20", "webhooks-15.3-36")
@pytest.mark.parametrize("webhooks", range(7))
async def test_transaction_type_determines_the_required_approvals(
    webhooks: int, tenant_api: httpx.AsyncClient, receivers: list[Receiver]
) -> None:
    for receiver in receivers[:webhooks]:
        subscriber = Subscriber(tenant_api, receiver, tenant_api.headers["X-FusionAuth-TenantId"])
        await subscriber.subscribe([KIND])
    for transaction_type, needed in NEEDED.items():
        await use(tenant_api, transaction_type)
        for agreeing in range(webhooks + 1):
            for place, receiver in enumerate(receivers):
                receiver.behaviour = answers(200 if place < agreeing else 500)
            group_id = new_id()
            answer = await tenant_api.post(f"/api/group/{group_id}", json={"group": {"name": group_id}})
            agreed = agreeing >= needed[webhooks]
            assert answer.status_code == (200 if agreed else 504), (transaction_type, agreeing, answer.text)
            found = await tenant_api.get(f"/api/group/{group_id}")
            assert found.status_code == (200 if agreed else 404), (transaction_type, agreeing)
