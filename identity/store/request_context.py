"""The trace context and the delivery loop markers (`via`) of the request that caused a stored row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from identity import trace_context
from identity.call import Document
from identity.trace_context import TraceContext


def stored(trace: TraceContext | None, via: tuple[str, ...]) -> Document:
    """The members to store in a row; empty without a trace and without markers."""
    members: Document = {} if trace is None else {"trace": trace.parent}
    if trace is not None and trace.state:
        members["traceState"] = trace.state
    if via:
        members["via"] = list(via)
    return members


def read(row: Mapping[str, Any]) -> tuple[TraceContext | None, tuple[str, ...]]:
    """The trace context and the markers of a row."""
    return trace_context.read(row.get("trace"), row.get("traceState")), tuple(row.get("via", ()))
