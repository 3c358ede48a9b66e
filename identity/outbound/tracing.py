"""Spans: what the service did, for how long and for whom, told to the collector that the operator names.

Without one there are no spans, nothing of OpenTelemetry is imported, and a trace context only passes through.
"""

from __future__ import annotations

import prometheus_client

from identity.config import Tracing
from identity.errors import StartupError
from identity.outbound.spans import Kind, Span, Tracer
from identity.trace_context import TraceContext

_NOT_INSTALLED = (
    "tracing.endpoint asks for spans, but the package {missing} is not installed;"
    " install the service with its extra, .[tracing], or set tracing.endpoint to null"
)


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
