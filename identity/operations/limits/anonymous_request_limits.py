"""Requests that are remembered for callers whom nobody knows yet: how large one may be, and how many an address begins.

Anybody may begin one, and Redis keeps each until somebody goes on with it or its time is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from identity.domain.objects import ip_addresses
from identity.errors import InvalidRequest
from identity.ids import TenantId
from identity.services import Services
from identity.store.rate_limits import Limit

MAXIMUM_BYTES: Final = 8192
ADDRESS_REQUESTS: Final = 5000
"""How many an address may begin in ten minutes; behind one there may be a whole company at nine o'clock."""
_WINDOW_SECONDS: Final = 600


def require_maximum_size(request: Mapping[str, Any]) -> None:
    """Raise InvalidRequest for a request that is too large to be kept."""
    if len(orjson.dumps(request)) > MAXIMUM_BYTES:
        raise InvalidRequest("unknown", f"A request that is kept here may have {MAXIMUM_BYTES} bytes.")


async def count_request(services: Services, tenant_id: TenantId, address: str) -> None:
    """Raise InvalidRequest when an address began too many lately."""
    limit = Limit("unfinished-address", ip_addresses.network(address), ADDRESS_REQUESTS, _WINDOW_SECONDS)
    wait_seconds = await services.rate_limits.consume(tenant_id, [limit])
    if wait_seconds is not None:
        raise InvalidRequest(
            "unknown", f"Too many requests were begun from there. Try again in {wait_seconds} seconds."
        )
