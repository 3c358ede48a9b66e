"""Spans: what the service did, for how long and for whom, told to the collector that the operator names.

Without one there are no spans, nothing of OpenTelemetry is imported, and a trace context only passes through.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

import prometheus_client

from identity.config import Tracing
from identity.errors import StartupError
from identity.traces import TraceContext

Kind = Literal["client", "producer", "server"]
_NOT_INSTALLED = (
    "tracing.endpoint asks for spans, but the package {missing} is not installed;"
    " install the service with its extra, .[tracing], or set tracing.endpoint to null"
)
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


class Untraced:
    """The tracer of a service without a collector."""

    def begin(self, name: str, kind: Kind, parent: TraceContext | None) -> Span | None:  # noqa: ARG002
        """Nothing."""
        return None

    async def start(self) -> None:
        """Nothing."""

    async def stop(self) -> None:
        """Nothing."""


def tracer_of(
    settings: Tracing, registry: prometheus_client.CollectorRegistry, version: str, instance_id: str
) -> Tracer:
    """The tracer that the configuration asks for. The packages are large, and loaded for those alone who want them.

    Raises StartupError where they are wanted and not installed.
    """
    if settings.endpoint is None:
        return Untraced()
    try:
        from identity.outbound import open_telemetry  # noqa: PLC0415
    except ImportError as error:
        raise StartupError(_NOT_INSTALLED.format(missing=error.name)) from error
    return open_telemetry.Exporting(settings, registry, version, instance_id)
