"""The interface of spans and tracers, with and without OpenTelemetry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from identity.trace_context import TraceContext

Kind = Literal["client", "producer", "server"]
Attributes = Mapping[str, str | int | bool]


class Span(Protocol):
    """Something that has begun; `context` is what those who work for it are told."""

    @property
    def context(self) -> TraceContext:
        """Its place in the trace."""

    def end(self, attributes: Attributes, failure: str | None = None) -> None:
        """It is over; `failure` says in a word what went wrong. A second end changes nothing."""


class Tracer(Protocol):
    """Makes spans and hands them on, without ever keeping anybody waiting."""

    def begin(self, name: str, kind: Kind, parent: TraceContext | None) -> Span | None:
        """A span below its parent or, without one, at the root of a new trace; None where nobody collects any."""

    async def start(self) -> None:
        """Begin to hand on."""

    async def stop(self) -> None:
        """Hand on what there is, for a moment."""
