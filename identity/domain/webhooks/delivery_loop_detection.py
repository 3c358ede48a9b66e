"""Chains of deliveries: one makes an event, which is delivered, which makes an event, and so on without an end.

Each delivery carries `webhook-via`: a list of the services that it has come through, in the manner of CDN-Loop
(RFC 8586). What a request with the header brings about carries the list on. A service that finds itself in the list of
a request is in a loop; one whose list has become long is in something that looks like one.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from identity.trace_context import TraceContext

HEADER: Final = "webhook-via"
MOST_SERVICES: Final = 5
"""How many services a chain of events may come through."""

_MARK: Final = re.compile(r"[0-9a-f]{16}")


def mark_of(instance_id: str) -> str:
    """How an instance, all of its processes, is called in lists: nothing that could be used to find it."""
    return hashlib.sha256(f"webhook-via:{instance_id}".encode()).hexdigest()[:16]


def read(value: str) -> tuple[str, ...]:
    """The services that a request has come through; what is no mark is left out, as nobody here has made it."""
    return tuple(mark for mark in (part.strip() for part in value.split(",")) if _MARK.fullmatch(mark))


def is_endless(via: tuple[str, ...], own: str) -> bool:
    """Whether a request with this list must not be served."""
    return own in via or len(via) >= MOST_SERVICES


def passed_on(trace: TraceContext | None, via: tuple[str, ...], own: str) -> dict[str, str]:
    """The headers by which whoever is called knows where that comes from."""
    return {**(trace.headers if trace is not None else {}), HEADER: ", ".join((*via, own))}
