"""Selection of the tracer.

Without a configured collector there are no spans, OpenTelemetry is not imported, and trace contexts are passed on.
"""

from __future__ import annotations

import prometheus_client

from identity.config.sections import Tracing
from identity.errors import StartupError
from identity.outbound.spans import Tracer

_NOT_INSTALLED = (
    "tracing.endpoint is set, but the package {missing} is not installed;"
    " install the service with its extra, .[tracing], or set tracing.endpoint to null"
)


def create_tracer(
    settings: Tracing, registry: prometheus_client.CollectorRegistry, version: str, instance_id: str
) -> Tracer:
    """The tracer that the configuration selects; the large OpenTelemetry packages are imported only if required.

    Raises StartupError if they are required and not installed.
    """
    if settings.endpoint is None:
        return Tracer()
    try:
        from identity.outbound import open_telemetry  # noqa: PLC0415
    except ImportError as error:
        raise StartupError(_NOT_INSTALLED.format(missing=error.name)) from error
    return open_telemetry.OpenTelemetryTracer(settings, registry, version, instance_id)
