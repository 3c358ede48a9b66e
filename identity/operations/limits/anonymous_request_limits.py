"""Limits of requests that are stored for anonymous callers: their size, and their number per IP address.

Anyone can start such a request, which stays in Redis until it is completed or expires.
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
"""The maximum per address in ten minutes; a large company may share one address."""
_WINDOW_SECONDS: Final = 600


def require_maximum_size(request: Mapping[str, Any]) -> None:
    """Raise InvalidRequest for a request that is too large to be stored."""
    if len(orjson.dumps(request)) > MAXIMUM_BYTES:
        raise InvalidRequest("unknown", f"The request exceeds the maximum of {MAXIMUM_BYTES} bytes.")


async def count_request(services: Services, tenant_id: TenantId, address: str) -> None:
    """Count a request. Raise InvalidRequest when the address exceeds its limit."""
    limit = Limit("unfinished-address", ip_addresses.network(address), ADDRESS_REQUESTS, _WINDOW_SECONDS)
    wait_seconds = await services.limits.rate_limits.consume(tenant_id, [limit])
    if wait_seconds is not None:
        raise InvalidRequest("unknown", f"Too many requests from this address. Try again in {wait_seconds} seconds.")
