"""The interface of spans and tracers, independent of OpenTelemetry; without a collector there are no spans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from identity.trace_context import TraceContext

Kind = Literal["client", "producer", "server"]
Attributes = Mapping[str, str | int | bool]


class Span(Protocol):
    """A started span."""

    @property
    def context(self) -> TraceContext:
        """The trace context to propagate to child spans and outgoing requests."""

    def end(self, attributes: Attributes, failure: str | None = None) -> None:
        """End the span; `failure` is an error type. Further calls have no effect."""


class Tracer:
    """Creates spans and exports them in the background; this one, of a service without a collector, creates none."""

    def begin(self, name: str, kind: Kind, parent: TraceContext | None) -> Span | None:  # noqa: ARG002
        """Start a child span, or the root span of a new trace; None if tracing is disabled."""
        return None

    def record(
        self, name: str, parent: TraceContext, seconds: float, attributes: Mapping[str, str], failure: str | None
    ) -> None:
        """Export a client span that has just ended, `seconds` after it began; a threadsafe method."""

    async def start(self) -> None:
        """Start the export."""

    async def stop(self) -> None:
        """Export pending spans within a short time limit and stop."""
