"""Spans by the OpenTelemetry SDK, sent to a collector by OTLP over HTTP: imported only where a collector is named.

The SDK makes, samples and encodes spans. When they are sent is decided here: in batches, from a thread, out of a queue
with a bound. A collector that is slow or away costs spans, which are counted, and nothing else.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
from collections.abc import Sequence
from typing import Any, Final

import prometheus_client
import requests
import structlog
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from identity import background_tasks
from identity.config import Tracing
from identity.outbound.spans import Attributes, Kind
from identity.trace_context import TraceContext

_log = structlog.get_logger(__name__)

_MOST_WAITING: Final = 4096
_BATCH: Final = 512
_GATHER_SECONDS = 1.0
"""How long spans are gathered before they are sent together."""
_EXPORT_SECONDS: Final = 5
"""How long one batch may take, with all its repetitions."""
_STOP_SECONDS = 3.0

_KINDS: Final = {"client": SpanKind.CLIENT, "producer": SpanKind.PRODUCER, "server": SpanKind.SERVER}


class Exporting:
    """The tracer of a service with a collector."""

    def __init__(
        self, settings: Tracing, registry: prometheus_client.CollectorRegistry, version: str, instance_id: str
    ) -> None:
        about = {"service.name": settings.service_name, "service.version": version, "service.instance.id": instance_id}
        self._queue = _Queue(_exporter(settings), registry)
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(settings.sample_ratio)),
            resource=Resource(about),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(self._queue)
        self._tracer = self._provider.get_tracer("identity", version)

    def begin(self, name: str, kind: Kind, parent: TraceContext | None) -> _Span | None:
        """As Tracer has it; None, too, where the environment switches the SDK off (OTEL_SDK_DISABLED)."""
        above = Context() if parent is None else trace.set_span_in_context(NonRecordingSpan(_read(parent)), Context())
        span = self._tracer.start_span(name, above, _KINDS[kind])
        return _Span(span) if span.get_span_context().is_valid else None

    async def start(self) -> None:
        """As Tracer has it."""
        self._queue.start()

    async def stop(self) -> None:
        """As Tracer has it."""
        await self._queue.stop()


class _Span:
    """A span of the SDK; one that is not sampled has a context all the same."""

    def __init__(self, inner: trace.Span) -> None:
        self._inner = inner
        self.context = _shown(inner.get_span_context())

    def end(self, attributes: Attributes, failure: str | None = None) -> None:
        """As Span has it."""
        if not self._inner.is_recording():
            return
        self._inner.set_attributes(dict(attributes))
        if failure is not None:
            self._inner.set_attribute("error.type", failure)
            self._inner.set_status(Status(StatusCode.ERROR, failure))
        self._inner.end()


class _Queue(SpanProcessor):
    """Spans that have ended and wait for the collector; what finds no place is counted as lost."""

    def __init__(self, exporter: SpanExporter, registry: prometheus_client.CollectorRegistry) -> None:
        self._exporter = exporter
        self._waiting: collections.deque[ReadableSpan] = collections.deque()
        self._has_some = asyncio.Event()
        self._loops: list[asyncio.Task[None]] = []
        self._drained = asyncio.Event()
        self._is_stopping = False
        self._is_answering = True
        self._spans = prometheus_client.Counter(
            "identity_trace_spans", "Spans by what became of them", ["outcome"], registry=registry
        )
        for outcome in ("exported", "lost"):
            self._spans.labels(outcome)

    def on_end(self, span: ReadableSpan) -> None:
        """Take a span that is over."""
        if not (span.context and span.context.trace_flags.sampled):
            return
        if len(self._waiting) >= _MOST_WAITING:
            self._count("lost", 1)
            return
        self._waiting.append(span)
        self._has_some.set()

    def start(self) -> None:
        """Begin to send."""
        self._loops = [background_tasks.start("trace-export", self._export_for_ever)]

    async def stop(self) -> None:
        """Send what there is, if that is quick; then nothing more, not even what is being tried again."""
        self._is_stopping = True
        self._has_some.set()
        if self._loops and self._is_answering:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_SECONDS):
                    await self._drained.wait()
        await background_tasks.end(self._loops)
        self._count("lost", len(self._waiting))
        self._waiting.clear()
        self._exporter.shutdown()

    async def _export_for_ever(self) -> None:
        while True:
            await self._has_some.wait()
            if len(self._waiting) < _BATCH and not self._is_stopping:
                await asyncio.sleep(_GATHER_SECONDS)
            self._has_some.clear()
            while self._waiting:
                await self._export()
            if self._is_stopping:
                self._drained.set()

    async def _export(self) -> None:
        batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
        took = False
        try:
            took = await asyncio.to_thread(self._sent, batch)
        finally:
            self._count("exported" if took else "lost", len(batch))
        if took != self._is_answering:
            self._is_answering = took
            tell = _log.info if took else _log.warning
            tell("the collector takes spans again" if took else "the collector takes no spans: they are lost")

    def _count(self, outcome: str, count: int) -> None:
        self._spans.labels(outcome).inc(count)

    def _sent(self, batch: Sequence[ReadableSpan]) -> bool:
        try:
            return self._exporter.export(batch) is SpanExportResult.SUCCESS
        except Exception as error:  # noqa: BLE001 (whatever it is: spans are worth no trouble)
            _log.debug("spans could not be sent", error=type(error).__name__)
            return False


def _exporter(settings: Tracing) -> SpanExporter:
    # It complains of each attempt; we say once that the collector is away, and once that it is back.
    logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
    session = requests.Session()
    session.trust_env = False  # neither proxies nor credentials from the environment
    headers = dict(pair.split("=", 1) for pair in str(settings.headers or "").split(",") if pair)
    return OTLPSpanExporter(
        endpoint=settings.endpoint,
        headers={name.strip(): value.strip() for name, value in headers.items()},
        timeout=_EXPORT_SECONDS,
        session=session,
    )


def _read(context: TraceContext) -> SpanContext:
    state: Any = TraceState.from_header([context.state]) if context.state else None
    ids = int(context.trace_id, 16), int(context.span_id, 16)
    return SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(context.flags), trace_state=state)


def _shown(context: SpanContext) -> TraceContext:
    return TraceContext(
        f"{context.trace_id:032x}", f"{context.span_id:016x}", int(context.trace_flags), context.trace_state.to_header()
    )
