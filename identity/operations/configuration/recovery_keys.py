"""API keys for recovery on the machine of the service: they exist for one command, and may do everything."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from identity.call import Call
from identity.operations.configuration import api_keys
from identity.operations.objects import event_logs
from identity.services import Services

_NAME = "Recovery on the machine of the service"


@contextlib.asynccontextmanager
async def temporary(services: Services, call: Call) -> AsyncIterator[str]:
    """Provide the value of a key that is deleted at the end of the block. The event log records its creation."""
    # Without an end: no key can create another one that outlives it. If the command is killed, its value is lost.
    requested = {"name": _NAME, "retrievable": False}
    tidy = services.schemas[api_keys.RESOURCE.schema].read({"apiKey": requested})
    key = await api_keys.add(services, call, tidy["apiKey"], None, caller=None, manager=True)
    message = f"The API key {key['id']} was created for a command with --local, and is deleted when the command ends."
    await event_logs.record(services, call, "Information", message)
    try:
        yield str(key["key"])
    finally:
        await services.configuration.api_keys.delete(None, key["id"])
