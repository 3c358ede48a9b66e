"""Detection of delivery loops: an event is delivered, its receiver calls a service, which raises another event, etc.

Each delivery carries `webhook-via`, the list of the services that the event came through, modelled on CDN-Loop
(RFC 8586). Events raised by a request with this header continue its list. A service that finds itself in the list, or
a list that is too long, indicates a loop.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from identity.trace_context import TraceContext

HEADER: Final = "webhook-via"
MAX_SERVICES: Final = 5
"""The number of services that a chain of events may come through."""

_SERVICE_ID: Final = re.compile(r"[0-9a-f]{16}")


def service_id_of(instance_id: str) -> str:
    """The id of an instance (all of its processes) in `webhook-via`; it does not reveal the instance id."""
    return hashlib.sha256(f"webhook-via:{instance_id}".encode()).hexdigest()[:16]


def parse(value: str) -> tuple[str, ...]:
    """The service ids of a `webhook-via` header; invalid items are ignored."""
    return tuple(item for item in (part.strip() for part in value.split(",")) if _SERVICE_ID.fullmatch(item))


def is_loop(via: tuple[str, ...], service_id: str) -> bool:
    """Whether a request with this list must be refused by the service."""
    return service_id in via or len(via) >= MAX_SERVICES


def forwarded_headers(trace: TraceContext | None, via: tuple[str, ...], service_id: str) -> dict[str, str]:
    """The headers that pass trace and `webhook-via` on to the called service."""
    return {**(trace.headers if trace is not None else {}), HEADER: ", ".join((*via, service_id))}
