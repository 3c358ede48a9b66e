"""The clients for connectors, and the bound on their concurrent requests."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Final

from identity.bulkhead import Bulkhead
from identity.outbound.http import HttpClient, OutboundError
from identity.outbound.ldap import LdapClient

_QUEUE_FACTOR: Final = 4


class ConnectorClients:
    """The HTTP and LDAP clients; at most a quarter of the concurrent requests belong to one connector."""

    def __init__(self, http: HttpClient, ldap: LdapClient, *, max_concurrency: int) -> None:
        self.http, self.ldap = http, ldap
        self._max_per_connector = max(1, max_concurrency // 4)
        self._requests = Bulkhead(max_concurrency, self._max_per_connector)

    @contextlib.asynccontextmanager
    async def held(self, connector_id: str) -> AsyncIterator[None]:
        """Hold the place of one request. Raises OutboundError if too many requests to the connector are queued."""
        if self._requests.queue_length(connector_id) >= _QUEUE_FACTOR * self._max_per_connector:
            raise OutboundError("busy", "Too many requests to the connector are queued.")
        async with self._requests.held(connector_id):
            yield

    async def close(self) -> None:
        """Close every connection."""
        await self.http.close()
        await self.ldap.close()
