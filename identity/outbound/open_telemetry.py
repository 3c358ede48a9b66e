"""Tracing with the OpenTelemetry SDK over OTLP/HTTP. Imported only if a collector is configured.

The SDK creates, samples and encodes spans. This module exports them in batches, in a worker thread, from a bounded
queue. A slow or unavailable collector loses spans, which are counted, and affects nothing else.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
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
from identity.config.sections import Tracing
from identity.outbound.spans import Attributes, Kind, Tracer
from identity.trace_context import TraceContext

_log = structlog.get_logger(__name__)

_QUEUE_SIZE: Final = 4096
_BATCH_SIZE: Final = 512
_BATCH_DELAY_SECONDS = 1.0
"""How long spans are collected for a batch."""
_EXPORT_SECONDS: Final = 5
"""The time limit for the export of one batch, including retries."""
_STOP_SECONDS = 3.0

_KINDS: Final = {"client": SpanKind.CLIENT, "producer": SpanKind.PRODUCER, "server": SpanKind.SERVER}


class OpenTelemetryTracer(Tracer):
    """A tracer that exports spans to a collector."""

    def __init__(
        self, settings: Tracing, registry: prometheus_client.CollectorRegistry, version: str, instance_id: str
    ) -> None:
        resource = {
            "service.name": settings.service_name,
            "service.version": version,
            "service.instance.id": instance_id,
        }
        self._loop = asyncio.get_running_loop()
        self._queue = _Queue(_exporter(settings), registry)
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(settings.sample_ratio)),
            resource=Resource(resource),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(self._queue)
        self._tracer = self._provider.get_tracer("identity", version)

    def begin(self, name: str, kind: Kind, parent: TraceContext | None) -> _Span | None:
        """See Tracer. Also None if the environment disables the SDK (OTEL_SDK_DISABLED)."""
        span = self._tracer.start_span(name, _child_of(parent), _KINDS[kind])
        return _Span(span) if span.get_span_context().is_valid else None

    def record(
        self, name: str, parent: TraceContext, seconds: float, attributes: Mapping[str, str], failure: str | None
    ) -> None:
        """See Tracer."""
        ended = time.time_ns()
        began = ended - round(seconds * 1e9)
        span = self._tracer.start_span(name, _child_of(parent), SpanKind.CLIENT, dict(attributes), start_time=began)
        _set_failure(span, failure)
        self._loop.call_soon_threadsafe(span.end, ended)

    async def start(self) -> None:
        """See Tracer."""
        self._queue.start()

    async def stop(self) -> None:
        """See Tracer."""
        await self._queue.stop()


class _Span:
    """A span of the SDK; a span that is not sampled has a context as well."""

    def __init__(self, inner: trace.Span) -> None:
        self._inner = inner
        self.context = _to_trace_context(inner.get_span_context())

    def end(self, attributes: Attributes, failure: str | None = None) -> None:
        """See Span."""
        if not self._inner.is_recording():
            return
        self._inner.set_attributes(dict(attributes))
        _set_failure(self._inner, failure)
        self._inner.end()


class _Queue(SpanProcessor):
    """A bounded queue of ended spans; spans that do not fit are counted as lost."""

    def __init__(self, exporter: SpanExporter, registry: prometheus_client.CollectorRegistry) -> None:
        self._exporter = exporter
        self._waiting: collections.deque[ReadableSpan] = collections.deque()
        self._has_spans = asyncio.Event()
        self._loops: list[asyncio.Task[None]] = []
        self._drained = asyncio.Event()
        self._is_stopping = False
        self._is_available = True
        self._spans = prometheus_client.Counter(
            "identity_trace_spans", "Spans by export outcome", ["outcome"], registry=registry
        )
        for outcome in ("exported", "lost"):
            self._spans.labels(outcome)

    def on_end(self, span: ReadableSpan) -> None:
        """Queue an ended span."""
        if not (span.context and span.context.trace_flags.sampled):
            return
        if len(self._waiting) >= _QUEUE_SIZE:
            self._count("lost", 1)
            return
        self._waiting.append(span)
        self._has_spans.set()

    def start(self) -> None:
        """Start the export loop."""
        self._loops = [background_tasks.start("trace-export", self._export_for_ever)]

    async def stop(self) -> None:
        """Export pending spans within `_STOP_SECONDS`, then stop, also retries."""
        self._is_stopping = True
        self._has_spans.set()
        if self._loops and self._is_available:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_SECONDS):
                    await self._drained.wait()
        await background_tasks.end(self._loops)
        self._count("lost", len(self._waiting))
        self._waiting.clear()
        self._exporter.shutdown()

    async def _export_for_ever(self) -> None:
        while True:
            await self._has_spans.wait()
            if len(self._waiting) < _BATCH_SIZE and not self._is_stopping:
                await asyncio.sleep(_BATCH_DELAY_SECONDS)
            self._has_spans.clear()
            while self._waiting:
                await self._export()
            if self._is_stopping:
                self._drained.set()

    async def _export(self) -> None:
        batch = [self._waiting.popleft() for _ in range(min(_BATCH_SIZE, len(self._waiting)))]
        succeeded = False
        try:
            succeeded = await asyncio.to_thread(self._send, batch)
        finally:
            self._count("exported" if succeeded else "lost", len(batch))
        if succeeded != self._is_available:
            self._is_available = succeeded
            if succeeded:
                _log.info("the trace collector is available again")
            else:
                _log.warning("the trace collector is unavailable: spans are lost")

    def _count(self, outcome: str, count: int) -> None:
        self._spans.labels(outcome).inc(count)

    def _send(self, batch: Sequence[ReadableSpan]) -> bool:
        try:
            return self._exporter.export(batch) is SpanExportResult.SUCCESS
        except Exception as error:  # noqa: BLE001 (a failing export must not affect the service)
            _log.debug("span export failed", error=type(error).__name__)
            return False


def _exporter(settings: Tracing) -> SpanExporter:
    # It logs every failed attempt; `_export` logs only changes of availability.
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


def _child_of(parent: TraceContext | None) -> Context:
    """The context of a child of this span; that of a root span without a parent."""
    if parent is None:
        return Context()
    return trace.set_span_in_context(NonRecordingSpan(_to_span_context(parent)), Context())


def _set_failure(span: trace.Span, failure: str | None) -> None:
    if failure is not None:
        span.set_attribute("error.type", failure)
        span.set_status(Status(StatusCode.ERROR, failure))


def _to_span_context(context: TraceContext) -> SpanContext:
    state: Any = TraceState.from_header([context.state]) if context.state else None
    ids = int(context.trace_id, 16), int(context.span_id, 16)
    return SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(context.flags), trace_state=state)


def _to_trace_context(context: SpanContext) -> TraceContext:
    return TraceContext(
        f"{context.trace_id:032x}", f"{context.span_id:016x}", int(context.trace_flags), context.trace_state.to_header()
    )
