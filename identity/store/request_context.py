"""What rows keep of where they come from: the trace of the request, and the services that it has come through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from identity import trace_context
from identity.call import Document
from identity.trace_context import TraceContext


def stored(trace: TraceContext | None, via: tuple[str, ...]) -> Document:
    """As far as it is known: some bytes."""
    told: Document = {} if trace is None else {"trace": trace.parent}
    if trace is not None and trace.state:
        told["traceState"] = trace.state
    if via:
        told["via"] = list(via)
    return told


def read(row: Mapping[str, Any]) -> tuple[TraceContext | None, tuple[str, ...]]:
    """The trace and the services of a row."""
    return trace_context.read(row.get("trace"), row.get("traceState")), tuple(row.get("via", ()))
