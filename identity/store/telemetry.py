"""Durations and failures of store commands: Prometheus metrics, and spans while tracing is enabled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import prometheus_client
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from identity import request_facts
from identity.store.cache import CacheCounts
from identity.trace_context import TraceContext

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

MONGODB = "mongodb"
REDIS = "redis"

RecordSpan = Callable[[str, TraceContext, float, Mapping[str, str], str | None], None]
"""Exports a span: its name, its parent, its duration in seconds, its attributes, and the type of a failure."""


class StoreTelemetry:
    """The metrics of both stores; the driver of MongoDB calls it from its threads."""

    def __init__(self, registry: prometheus_client.CollectorRegistry | None = None) -> None:
        """Without a registry the metrics are counted but not exported."""
        self._seconds = prometheus_client.Histogram(
            "identity_store_seconds",
            "Duration of a store command; of Redis, of the commands that were sent together",
            ["store"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self._errors = prometheus_client.Counter(
            "identity_store_errors", "Failed store commands, also those that are retried", ["store"], registry=registry
        )
        self._of = {store: (self._seconds.labels(store), self._errors.labels(store)) for store in (MONGODB, REDIS)}
        self.record_span: RecordSpan | None = None
        """Set while tracing is enabled."""

    def observe(self, store: str, seconds: float, *, failed: bool) -> None:
        """Observe a command or a batch of commands."""
        durations, errors = self._of[store]
        durations.observe(seconds)
        if failed:
            errors.inc()

    def trace(self, store: str, command: str, collection: str, seconds: float, failure: str | None) -> None:
        """Record the span of a command of the current request. Commands of background work have none."""
        parent = request_facts.trace()
        if self.record_span is None or parent is None:
            return
        attributes = {"db.system.name": store, "db.operation.name": command}
        if collection:
            attributes["db.collection.name"] = collection
        self.record_span(f"{command} {collection}".strip(), parent, seconds, attributes, failure)


class MongoCommands(CommandListener):
    """Observes the commands of a MongoDB client."""

    def __init__(self, telemetry: StoreTelemetry) -> None:
        self._telemetry = telemetry
        self._collections: dict[int, str] = {}
        """The collections of traced commands in flight, by request id."""

    def started(self, event: CommandStartedEvent) -> None:
        if self._telemetry.record_span is not None:
            named = event.command.get(event.command_name)
            self._collections[event.request_id] = named if isinstance(named, str) else ""

    def succeeded(self, event: CommandSucceededEvent) -> None:
        self._observe(event, None)

    def failed(self, event: CommandFailedEvent) -> None:
        self._observe(event, str(event.failure.get("codeName") or "NetworkError"))

    def _observe(self, event: CommandSucceededEvent | CommandFailedEvent, failure: str | None) -> None:
        seconds = event.duration_micros / 1e6
        self._telemetry.observe(MONGODB, seconds, failed=failure is not None)
        if self._telemetry.record_span is not None:
            collection = self._collections.pop(event.request_id, "")
            self._telemetry.trace(MONGODB, event.command_name, collection, seconds, failure)


class CacheMetrics(Collector):
    """Exports how often the caches of collections had what was read."""

    def __init__(self, counts: Callable[[], Mapping[str, CacheCounts]]) -> None:
        self._counts = counts

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Return the counters by collection."""
        hits = CounterMetricFamily("identity_cache_hits", "Reads answered from the cache", labels=["collection"])
        loads = CounterMetricFamily("identity_cache_loads", "Reads from MongoDB by the cache", labels=["collection"])
        for name, counts in sorted(self._counts().items()):
            hits.add_metric([name], counts.hits)
            loads.add_metric([name], counts.loads)
        yield from (hits, loads)
