"""The clients for connectors, and the bound on their concurrent requests."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from identity.bulkhead import Bulkhead
from identity.config.sections import Connectors
from identity.outbound.http import HttpClient, OutboundError

if TYPE_CHECKING:
    from identity.outbound.ldap import LdapClient

_QUEUE_FACTOR: Final = 4


class ConnectorClients:
    """The HTTP and LDAP clients; at most a quarter of the concurrent requests belong to one connector."""

    def __init__(self, http: HttpClient, settings: Connectors) -> None:
        self.http = http
        self._settings = settings
        self._max_per_connector = max(1, settings.max_concurrency // 4)
        self._requests = Bulkhead(settings.max_concurrency, self._max_per_connector)

    @functools.cached_property
    def ldap(self) -> LdapClient:
        """The client for directories."""
        # Few instances have a directory, and the classes of LDAP messages take a twentieth of the start.
        from identity.outbound.ldap import LdapClient  # noqa: PLC0415

        return LdapClient(self._settings)

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
        if "ldap" in vars(self):
            await self.ldap.close()
