"""Keep the inputs of key set and provider metadata in memory, so that they are served while MongoDB is away.

Every process that serves requests reads those of the default tenant before its port opens, those of the newest
`MAXIMUM_TENANTS` after that, and those of new tenants soon after they are created. The caches keep the last known
values from then on. The keys of all tenants together are read only in an instance of fewer: with many, they would take
tens of megabytes, and every change of a tenant would make each process read the signers of all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from identity import background_tasks
from identity.errors import InvalidRequest
from identity.operations.api import discovery
from identity.operations.clients.clients import TenantHints
from identity.services import Services
from identity.store.outages import OUTAGES

_log = structlog.get_logger(__name__)

_INTERVAL_SECONDS: Final = 5.0
_TRANSIENT_ERRORS: Final[tuple[type[Exception], ...]] = (InvalidRequest, *OUTAGES)
"""A tenant was deleted meanwhile, or MongoDB is unavailable: the next round reads again."""
MAXIMUM_TENANTS: Final = 100
"""Reading one takes milliseconds of processor time. Others are in memory once a client has requested their metadata."""


class DiscoveryPrefetch:
    """Reads the inputs of discovery periodically; cached inputs cost no query."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._known: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Read what belongs to no tenant or to the default one, and begin to read the rest."""
        await self._attempt(self._read_default)
        self._tasks = [background_tasks.start("discovery-prefetch", self._read_forever)]

    async def stop(self) -> None:
        """Stop the loop."""
        await background_tasks.end(self._tasks)

    async def _read_forever(self) -> None:
        while True:
            await self._attempt(self._read)
            await asyncio.sleep(_INTERVAL_SECONDS)

    async def _attempt(self, read: Callable[[], Awaitable[None]]) -> None:
        try:
            await read()
        except _TRANSIENT_ERRORS as error:
            _log.debug("discovery not read", error=type(error).__name__)

    async def _read_default(self) -> None:
        if len(await self._find_active()) < MAXIMUM_TENANTS:
            await discovery.public_pems(self._services, self._services.clock.now())
        await self._read_tenant(self._services.runtime.default_tenant_id)

    async def _read_tenant(self, tenant_id: str) -> None:
        hints = TenantHints(tenant_id)
        await discovery.configuration(self._services, hints, "")
        await discovery.prefetch_key_set(self._services, hints)

    async def _read(self) -> None:
        await self._read_default()
        active = await self._find_active()
        self._known &= set(active)
        for tenant_id in active:
            if tenant_id not in self._known:
                await self._read_tenant(tenant_id)
                self._known.add(tenant_id)

    async def _find_active(self) -> list[str]:
        """The ids of the newest active tenants."""
        tenants = self._services.configuration.tenants
        where, members = {"state": "Active"}, ("_id",)
        return [one["id"] for one in await tenants.list_cached(None, "active", where, members, MAXIMUM_TENANTS)]
