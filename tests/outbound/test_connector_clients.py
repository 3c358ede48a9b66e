"""The bound on concurrent requests to connectors."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from identity.config.sections import Connectors
from identity.outbound.connector_clients import ConnectorClients
from identity.outbound.http import OutboundError


@pytest.mark.requirement("connectors-7")
async def test_slow_connector_leaves_room_for_others_and_has_a_short_queue() -> None:
    clients = ConnectorClients(None, Connectors(8, None, ()))  # type: ignore[arg-type]
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(clients.held("slow"))
        queued = [asyncio.create_task(stack.enter_async_context(clients.held("slow"))) for _ in range(8)]
        await asyncio.sleep(0)
        with pytest.raises(OutboundError, match="queued"):
            async with clients.held("slow"):
                pass
        async with clients.held("healthy"):
            assert not any(task.done() for task in queued)
        for task in queued:
            task.cancel()
        await asyncio.gather(*queued, return_exceptions=True)
