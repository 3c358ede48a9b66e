"""Keep the inputs of key set and provider metadata in memory, so that they are served while MongoDB is away.

Every process that serves requests reads them after its start, and those of new tenants soon after they are created; the
caches keep the last known values from then on.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from identity import loops
from identity.errors import InvalidRequest
from identity.operations import discovery
from identity.operations.clients import TenantHints
from identity.services import Services
from identity.store.outages import OUTAGES

_log = structlog.get_logger(__name__)

_INTERVAL_SECONDS: Final = 5.0
_PASSING: Final[tuple[type[Exception], ...]] = (InvalidRequest, *OUTAGES)
"""A tenant was deleted in between, or MongoDB is away: the next round reads again."""
MAXIMUM_TENANTS: Final = 1000
"""Tenants beyond these are in memory once a client has requested their metadata."""


class DiscoveryPrefetch:
    """Reads what discovery needs, again and again; what did not change costs no query."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._known: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to read, beside the first requests."""
        self._tasks = [loops.start("discovery-prefetch", self._read_for_ever)]

    async def stop(self) -> None:
        """End."""
        await loops.end(self._tasks)

    async def _read_for_ever(self) -> None:
        while True:
            try:
                await self._read()
            except _PASSING as error:
                _log.debug("discovery not read", error=type(error).__name__)
            await asyncio.sleep(_INTERVAL_SECONDS)

    async def _read(self) -> None:
        services = self._services
        await discovery.public_pems(services, services.clock.now())
        tenants = await services.tenants.cached_list(None, "all", {})
        active = [tenant["id"] for tenant in tenants if tenant["state"] == "Active"][:MAXIMUM_TENANTS]
        self._known &= set(active)
        for tenant_id in active:
            if tenant_id not in self._known or tenant_id == services.default_tenant_id:
                await discovery.configuration(services, TenantHints(tenant_id), "")
                await discovery.read_keys(services, TenantHints(tenant_id))
                self._known.add(tenant_id)
