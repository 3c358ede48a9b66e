"""MongoDB and Redis, one module per collection; the sole importer of motor and redis."""

from identity.optional_packages import withheld

# redis would load OpenTelemetry for metrics of its own, in whose place `telemetry` counts.
with withheld("opentelemetry"):
    import redis.asyncio as _redis  # noqa: F401
